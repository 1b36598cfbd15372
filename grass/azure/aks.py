"""What a cluster on Azure's Kubernetes (AKS) consists of: names, request bodies, and what its replies say. Pure.

Used by ``grass.provision.aks``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from grass.azure.resources import CLUSTER_TAG, ID_TAG, Kind, Site, Wanted, body_hash, complete
from grass.manifest.aks import AksSettings, SystemPool, Tier
from grass.manifest.azure_images import has_gpus
from grass.manifest.document import Document

NAMESPACES = (
    *("Microsoft.Compute", "Microsoft.Network", "Microsoft.Storage"),
    *("Microsoft.ContainerService", "Microsoft.ContainerRegistry"),
)
"""Providers. Azure's Kubernetes makes files of claims with that of storage."""
SYSTEM = "system"
"""Name of the system pool."""
DISK = 128
"""GiB of each machine's disk; Azure's default."""
KEPT_TAG = "grass-kept"
"""Hash of what a cluster keeps as long as it is there."""
_ACR_PULL = "7f951dda-4ed3-4680-a7ca-43fe172d538d"
_ROLE_NAMES = uuid.UUID("6f0b6f0c-3f5b-4b52-9d0c-0c6a5ad5b6a1")
"""Names of role assignments follow from what they say, so that a repeated request makes no second one."""
_LONGEST_POOL = 12
_READ_ONLY = frozenset(
    [
        *("provisioningState", "currentOrchestratorVersion", "eTag", "nodeImageVersion", "powerState", "status"),
        "virtualMachineNodesStatus",
    ]
)
"""Of a pool in a reply."""


@dataclass(frozen=True)
class Pool:
    """A pool of machines. ``zone`` empty: Azure chooses."""

    size: str
    count: int
    zone: str = ""


@dataclass(frozen=True)
class Terms:
    """What a cluster is made with, and keeps. ``sources``: where its API server may be reached from."""

    cluster: str
    location: str
    version: str
    tier: Tier
    system: SystemPool
    registry: str
    sources: tuple[str, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)


def terms_of(settings: AksSettings, sources: tuple[str, ...], subscription: str) -> Terms:
    registry = settings.registry
    if registry == "":  # one name for all of Azure: others may have a cluster of the same name
        where = f"{subscription}/{settings.cloud.resource_group}/{settings.name}".lower()
        plain = re.sub("[^a-z0-9]", "", settings.name.lower())[:30]
        registry = f"{plain}grass{hashlib.sha256(where.encode()).hexdigest()[:8]}"
    cloud = settings.cloud
    return Terms(
        settings.name,
        cloud.location,
        settings.version or "",
        settings.tier,
        settings.system,
        registry or "",
        sources,
        cloud.tags,
    )


def name_of(cluster: str) -> str:
    return f"{cluster}-aks"


def node_group(cluster: str, id: str) -> str:
    """Return the group in which Azure puts machines, balancer and disks. Azure makes and removes it."""
    return f"grass-{cluster}-nodes-{id}"


def path_of(site: Site, cluster: str) -> str:
    return site.path(Kind.KUBERNETES, name_of(cluster))


def registry_host(name: str, found: Document | None = None) -> str:
    """Return the host of a registry. ``found``: itself, which knows it; it is another one in clouds of their own."""
    properties = (found or {}).get("properties")
    server = properties.get("loginServer") if isinstance(properties, dict) else None
    return str(server or f"{name}.azurecr.io")


def group(terms: Terms, site: Site) -> Wanted:
    return Wanted(Kind.GROUP, site.group, site.group_path, complete({}, terms.location, _tags(terms, site)))


def registry(terms: Terms, site: Site, *, password: bool) -> Wanted:
    """Return the registry. ``password``: it also lets in who knows a password, for a pull Secret."""
    body: Document = {"sku": {"name": "Basic"}, "properties": {"adminUserEnabled": password}}
    whole = complete(body, terms.location, _tags(terms, site))
    return Wanted(Kind.REGISTRY, terms.registry, site.path(Kind.REGISTRY, terms.registry), whole)


def kubernetes(terms: Terms, site: Site) -> Wanted:
    system: Document = {"name": SYSTEM, "mode": "System", **_pool(Pool(terms.system.size, terms.system.count))}
    system["tags"] = _tags(terms, site)
    kept: Document = {
        "dnsPrefix": f"{terms.cluster}-{site.id[:8]}",
        **({"kubernetesVersion": terms.version} if terms.version else {}),
        "nodeResourceGroup": node_group(terms.cluster, site.id),
        "enableRBAC": True,
        "agentPoolProfiles": [system],
        "networkProfile": {
            "networkPlugin": "azure",
            "networkPluginMode": "overlay",
            "loadBalancerSku": "standard",
            "outboundType": "loadBalancer",
        },
        "storageProfile": {"fileCSIDriver": {"enabled": True}},
    }
    body: Document = {
        "identity": {"type": "SystemAssigned"},
        "sku": {"name": "Base", "tier": terms.tier.value.capitalize()},
        "properties": {**kept, "apiServerAccessProfile": {"authorizedIPRanges": list(terms.sources)}},
    }
    tags = {**_tags(terms, site), KEPT_TAG: body_hash(kept)}
    return Wanted(
        Kind.KUBERNETES, name_of(terms.cluster), path_of(site, terms.cluster), complete(body, terms.location, tags)
    )


def updated(found: Document, wanted: Document) -> Document:
    """Return the body that changes a cluster that is there. It has all pools: Azure takes a body for the whole."""
    properties = found["properties"]
    pools = [
        {key: value for key, value in each.items() if key not in _READ_ONLY and value is not None}
        for each in properties["agentPoolProfiles"]
    ]
    kept = {"agentPoolProfiles": pools, "kubernetesVersion": properties["kubernetesVersion"]}
    return {**wanted, "properties": {**wanted["properties"], **kept}}


def pool(terms: Terms, site: Site, name: str, like: Pool) -> Wanted:
    """Return a pool for tasks, which may be empty."""
    properties = {**_pool(like), "mode": "User", "tags": _tags(terms, site)}
    if has_gpus(like.size):
        properties["gpuProfile"] = {"driver": "Install"}
    return Wanted(Kind.POOL, name, f"{path_of(site, terms.cluster)}/agentPools/{name}", {"properties": properties})


def _pool(like: Pool) -> Document:
    zones: Document = {"availabilityZones": [like.zone]} if like.zone else {}
    common = {"osType": "Linux", "type": "VirtualMachineScaleSets", "osDiskSizeGB": DISK}
    return {"count": like.count, "vmSize": like.size, **common, **zones}


def pool_name(size: str) -> str:
    """Return the name of a size's pool: at most 12 of a-z and 0-9, as Azure wants it."""
    plain = re.sub("[^a-z0-9]", "", size.lower().removeprefix("standard_"))
    if len(plain) <= _LONGEST_POOL:
        return plain
    return plain[: _LONGEST_POOL - 4] + hashlib.sha256(size.lower().encode()).hexdigest()[:4]


def right_to_pull(terms: Terms, site: Site, principal: str) -> Wanted:
    """Return the right of the cluster's machines to pull from its registry."""
    scope = site.path(Kind.REGISTRY, terms.registry)
    role = f"/subscriptions/{site.subscription}/providers/Microsoft.Authorization/roleDefinitions/{_ACR_PULL}"
    name = str(uuid.uuid5(_ROLE_NAMES, f"{scope} {principal} {role}".lower()))
    properties = {"roleDefinitionId": role, "principalId": principal, "principalType": "ServicePrincipal"}
    return Wanted(Kind.ROLE, name, f"{scope}/providers/{Kind.ROLE.type}/{name}", {"properties": properties})


def kubelet_of(found: Document) -> str:
    """Return the identity with which the cluster's machines pull images; empty: Azure does not say it."""
    identities = found["properties"].get("identityProfile")
    kubelet = identities.get("kubeletidentity") if isinstance(identities, dict) else None
    return str(kubelet.get("objectId") or "") if isinstance(kubelet, dict) else ""


def is_stopped(found: Document) -> bool:
    power = found["properties"].get("powerState")
    return isinstance(power, dict) and power.get("code") == "Stopped"


def kubeconfig_of(reply: Document) -> str:
    """Return the kubeconfig in a reply; empty: there is none in it."""
    listed = reply.get("kubeconfigs")
    for each in listed if isinstance(listed, list) else ():
        try:
            return base64.b64decode(str(each["value"]), validate=True).decode()
        except (KeyError, TypeError, ValueError, binascii.Error):
            continue
    return ""


def versions_of(reply: Document) -> tuple[str, ...]:
    """Return the versions of Kubernetes that are offered: 1.33, and with all their numbers."""
    listed = reply.get("values")
    found: list[str] = []
    for each in listed if isinstance(listed, list) else ():
        if not each.get("isPreview"):
            patches = each.get("patchVersions")
            found += [str(each.get("version")), *(patches if isinstance(patches, dict) else ())]
    return tuple(sorted(found, key=_numbers))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]


def is_of_cluster(resource: Document, id: str) -> bool:
    """Return whether something in the node group belongs to the cluster: by its tags, or those of Kubernetes."""
    tags = resource.get("tags")
    known: Mapping[str, object] = tags if isinstance(tags, dict) else {}
    return known.get(ID_TAG) == id or any(
        key.lower().startswith(("aks-managed", "k8s-azure", "kubernetes.io")) for key in known
    )


def foreign(resources: Iterable[Document], id: str) -> list[str]:
    return [f"{each.get('name')} ({each.get('type')})" for each in resources if not is_of_cluster(each, id)]


def _tags(terms: Terms, site: Site) -> dict[str, str]:
    return {**terms.tags, CLUSTER_TAG: terms.cluster, ID_TAG: site.id}
