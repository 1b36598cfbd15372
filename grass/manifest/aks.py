"""Reads the settings of a cluster on a Kubernetes that Grass makes on Azure: ``mode: k8s/aks``, in Grass's form and in
MARO's.

Its master is this machine; its node is a namespace there. Used by ``settings``, ``grass.azure`` and
``grass.provision.aks``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import fields as fields_of
from enum import Enum
from typing import Any

from grass.manifest import quantities, values
from grass.manifest.azure import Cloud, azure_name, check_cloud, read_place, source
from grass.manifest.azure_sizes import size_name
from grass.manifest.fields import Fields
from grass.manifest.local_settings import KubernetesSettings, read_host
from grass.manifest.namespaces import KEY as NAMESPACES
from grass.manifest.namespaces import NamespaceSettings, read_namespace
from grass.manifest.values import Wrong, show
from grass.model.mode import AKS

LEAST_CORES = 4
"""Of a machine of the system pool: Azure's own pods run there."""
CLAIM, PULL_SECRET = "grass-share", "grass-registry"
NAMESPACE = "grass"
_GIB = 1 << 30
_MOST_SYSTEM = 10
_VERSION = re.compile(r"1\.[0-9]{2}(\.[0-9]{1,2})?")
_REGISTRY = re.compile(r"[a-z0-9]{5,50}")
_MADE = "is made by Grass, and leads to the cluster that it makes"
_NOT_SAID = {
    "kubeconfig": _MADE,
    "context": _MADE,
    "registry": "is said outside of `namespace`: `registry: NAME`",
    "registry_user": "Grass gives the machines the right to pull",
    "claim": "is made by Grass: `share: 100GiB` says its size",
}
_OF_MARO = {
    "default_username": "nobody logs in to the machines",
    "default_public_key": "nobody logs in to the machines",
}


class Tier(str, Enum):
    """What is paid for Azure's part of Kubernetes. ``FREE``: nothing, and Azure promises no uptime."""

    FREE = "free"
    STANDARD = "standard"


@dataclass(frozen=True)
class SystemPool:
    """The machines that are always there, for Azure's own pods. Tasks may use what they leave."""

    size: str = "Standard_D4s_v5"
    count: int = 1


_NODE = NamespaceSettings(NAMESPACE, NAMESPACE, "namespace")


@dataclass(frozen=True, kw_only=True)
class AksSettings(KubernetesSettings):
    """Settings of a cluster on Azure's Kubernetes.

    ``version`` None: the one that Azure chooses. ``sources``: where its API server may be reached from; empty: this
    machine's address as the Internet sees it. ``registry``: name of a registry that is made; empty: one is chosen;
    None: none is made. ``share``: GiB of a claim for the files of jobs; 0: there is none. ``node``: the namespace.
    """

    mode = AKS
    cloud: Cloud
    version: str | None = None
    tier: Tier = Tier.FREE
    system: SystemPool = SystemPool()
    sources: tuple[str, ...] = ()
    registry: str | None = ""
    share: int = 100
    node: NamespaceSettings = _NODE


def read_aks(fields: Fields) -> AksSettings:
    warnings: list[str] = []
    cloud, master = fields.raw("cloud"), fields.raw("master")
    fields.lenient = isinstance(master, dict) or (isinstance(cloud, dict) and not cloud.keys().isdisjoint(_OF_MARO))
    fields.refuse(NAMESPACES, "there is one, which Grass makes: `namespace` says its name")
    name = fields.require("name", azure_name, "")
    check_cloud(fields)
    with fields.within("cloud") as section:
        where = read_place(section, name)
        for key, why in _OF_MARO.items():
            if section.has(key):
                warnings.append(f"cloud.{key}: ignored; {why}")
    usual = _read_maro_master(fields, warnings) if isinstance(master, dict) else SystemPool.size
    if not isinstance(master, dict):
        fields.refuse("master", "the master is this machine; for one inside, `mode: k8s` with `master: inside`")
    with fields.within("system") as section:
        system = SystemPool(
            section.read("size", _system_size, usual),
            section.read("count", values.whole(1, _MOST_SYSTEM), SystemPool.count),
        )
    with fields.within("kubernetes") as section:
        version, tier = section.read("version", _version, None), section.read("tier", values.one_of(Tier), Tier.FREE)
        sources = tuple(section.parsed(path, source, item, "") for path, item in section.items("from"))
    host = read_host(fields)
    chosen: str | None = ""
    return AksSettings(
        **{each.name: getattr(host, each.name) for each in fields_of(KubernetesSettings) if each.name not in _OWN},
        name=name,
        warnings=tuple(warnings),
        cloud=where,
        version=version,
        tier=tier,
        system=system,
        sources=sources,
        registry=fields.read("registry", _registry, chosen),
        share=fields.read("share", _share, 100),
        node=_read_node(fields),
    )


_OWN = frozenset(["name", "warnings"])


def _read_maro_master(fields: Fields, warnings: list[str]) -> str:
    """Return the size of the machines in MARO's file."""
    with fields.within("master") as section:
        if section.has("redis"):
            warnings.append("master.redis: ignored; the master's redis is on this machine, at a port of its own")
        return section.read("node_size", _system_size, SystemPool.size)


def _read_node(fields: Fields) -> NamespaceSettings:
    item = fields.raw("namespace")
    if item is None:
        return _NODE
    content = {"namespace": NAMESPACE, **item} if isinstance(item, dict) else {"namespace": item}
    part = Fields(content, "namespace", fields.problems)
    for key, why in _NOT_SAID.items():
        part.refuse(key, why)
    kept = {key: value for key, value in content.items() if key not in _NOT_SAID}
    return read_namespace(kept, "namespace", fields.problems) or _NODE


def unfit_for_system(size: str) -> Iterator[str]:
    """Yield why a size cannot be that of the system pool, by its name."""
    if re.match(r"standard_b\d", size.lower()):
        yield f"{size} is of the B-series, which Azure refuses for the machines of its own pods"


def _system_size(value: Any) -> str:
    size = size_name(value)
    for why in unfit_for_system(size):
        raise Wrong(why)
    return size


def _version(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    if not _VERSION.fullmatch(text):
        raise Wrong(f'must be a version of Kubernetes in quotes, such as "1.33", got {show(value)}')
    return text


def _registry(value: Any) -> str | None:
    if isinstance(value, bool):
        return "" if value else None
    if not isinstance(value, str) or not _REGISTRY.fullmatch(value):
        raise Wrong(f"must be true, false, or a name of 5 to 50 of a-z and 0-9, got {show(value)}")
    return value


def _share(value: Any) -> int:
    if value is False:
        return 0
    size = quantities.memory(value)
    if size % _GIB or not 1 <= size // _GIB <= 102400:
        raise Wrong(f"must be false, or whole GiB from 1GiB, got {show(value)}")
    return size // _GIB
