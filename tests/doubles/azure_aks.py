"""The part of the double of Azure that is its Kubernetes: clusters, pools, registries and rights to pull.

It stands beside ``azure_arm``, whose subscription, quotas, lists and operations it uses. What its types do not say, and
it enforces: one operation at a time on a cluster and its pools, a body that names all pools, sizes of system pools,
what never changes, principals that are not known at once, names of registries that are taken by others, a group of
machines that comes and goes with its cluster. None was ever compared with Azure itself.
"""

from __future__ import annotations

import base64
import copy
import re
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.azure_arm import IP, SUBSCRIPTION, Answer, Asked, Azure, Body, RefusalError, Thing, faults_of

CLUSTER = "Microsoft.ContainerService/managedClusters"
POOL = f"{CLUSTER}/agentPools"
REGISTRY = "Microsoft.ContainerRegistry/registries"
ROLE = "Microsoft.Authorization/roleAssignments"
BALANCER, SCALE_SET = "Microsoft.Network/loadBalancers", "Microsoft.Compute/virtualMachineScaleSets"
PRINCIPAL = "99999999-0000-0000-0000-000000000001"
VERSIONS = {"1.32": ["1.32.6"], "1.33": ["1.33.2", "1.33.3"]}
_ROOT = r"/subscriptions/[^/]+/resourcegroups/(?P<group>[^/]+)/providers/"
_ONE = re.compile(rf"{_ROOT}microsoft\.container(?:service/managedclusters|registry/registries)/(?P<name>[^/]+)", re.I)
_SECONDS = {CLUSTER: 300.0, REGISTRY: 10.0, POOL: 120.0}
_FIXED = ("dnsPrefix", "nodeResourceGroup", "networkProfile")


@dataclass
class Aks:
    """``kubeconfig``: what credentials lead to. ``may_assign``: the login may give rights. ``known_after``: seconds
    until a new identity is known. ``fail``: error codes with which the next operations end."""

    azure: Azure
    kubeconfig: str = "a kubeconfig"
    login_server: str = ""
    """Where images of registries are; empty: at Azure."""
    credentials: tuple[str, str] = ("", "secret-1")
    """User and password of registries; the user is empty: the name of each."""
    may_assign: bool = True
    known_after: float = 30.0
    local_accounts: bool = True
    taken: set[str] = field(default_factory=set)
    fail: list[str] = field(default_factory=list)
    pools: dict[tuple[str, str], Body] = field(default_factory=dict)
    """(cluster, pool), in lower case → its properties, with its state."""
    roles: dict[str, Body] = field(default_factory=dict)
    given_up: list[str] = field(default_factory=list)
    """Names of machines that were removed by name."""

    def __post_init__(self) -> None:
        self.azure.more, self.azure.more_cores = self.answer, self.cores

    def answer(self, asked: Asked) -> Answer | None:
        path = asked.path
        if path.lower().endswith("/kubernetesversions"):
            listed: list[Body] = [
                {
                    "version": version,
                    "isDefault": None,
                    "isPreview": None,
                    "patchVersions": {each: {} for each in numbers},
                }
                for version, numbers in VERSIONS.items()
            ]
            return Answer(200, {"values": listed}, {})
        if path.lower().endswith("/checknameavailability"):
            assert asked.body is not None and asked.body["type"] == REGISTRY
            free = asked.body["name"].lower() not in self.taken
            return Answer(200, {"nameAvailable": free, **({} if free else {"reason": "AlreadyExists"})}, {})
        if "/roleassignments/" in path.lower():
            return self._role(asked)
        found = _ONE.match(path)
        if found is None:
            return None
        group, name, rest = found["group"].lower(), found["name"], path[found.end() :]
        type = CLUSTER if "/managedclusters/" in path.lower() else REGISTRY
        if group not in self.azure.groups:
            raise RefusalError(404, "ResourceGroupNotFound")
        self.azure._check_version(type.lower(), asked)
        there = self.azure.things.get((group, type.lower(), name.lower()))
        if not rest:
            return self._one(asked, group, type, name, there)
        if there is None:
            raise RefusalError(404, "ResourceNotFound")
        return self._below(asked, there, rest)

    def _below(self, asked: Asked, there: Thing, rest: str) -> Answer:
        """Answer for what is below a cluster or registry: pools and actions."""
        match rest.strip("/").split("/"):
            case ["agentPools"]:
                listed = [self._shown_pool(there, each) for each in self._pools(there)]
                return Answer(200, {"value": listed}, {})
            case ["agentPools", name]:
                return self._pool(asked, there, name)
            case ["agentPools", name, "deleteMachines"]:
                return self._give_up(asked, there, name)
        assert asked.method == "POST" and asked.body is None
        return self._act(there, rest.strip("/"))

    def cores(self, quota: str) -> int:
        total = 0
        for pool in self.pools.values():
            family = next(each["family"] for each in self.azure.skus if each["name"] == pool["vmSize"])
            total += self.azure.cores_of(pool["vmSize"]) * pool["count"] if quota in ("cores", family) else 0
        return total

    def cluster(self) -> Thing:
        [found] = self.azure.of(CLUSTER)
        return found

    def counts(self) -> dict[str, int]:
        return {name: pool["count"] for (_, name), pool in self.pools.items()}

    # ------------------------------------------------------------------ clusters and registries

    def _one(self, asked: Asked, group: str, type: str, name: str, there: Thing | None) -> Answer:
        match asked.method:
            case "GET" if there is not None:
                return Answer(200, self._shown(there), {})
            case "PUT":
                return self._put(asked, group, type, name, there)
            case "DELETE":
                return Answer(204, {}, {}) if there is None else self._delete(asked, there)
        raise RefusalError(404, "ResourceNotFound")

    def _put(self, asked: Asked, group: str, type: str, name: str, there: Thing | None) -> Answer:
        azure, body = self.azure, asked.body
        assert body is not None
        if azure.groups[group].going:
            raise RefusalError(409, "ResourceGroupBeingDeleted")
        if type.split("/")[0] not in azure.registered:
            raise RefusalError(409, "MissingSubscriptionRegistration")
        self._check(type, body)
        azure._check_region(body)
        if there is not None and (there.going or there.busy > azure.steady()):
            raise RefusalError(409, "AnotherOperationInProgress")
        if type == REGISTRY and there is None and name.lower() in self.taken:
            raise RefusalError(409, "AlreadyInUse")
        if type == CLUSTER:
            self._check_cluster(name, body, there)
        now = azure.steady()
        made = Thing(type, azure.groups[group].name, name, body, there.since if there else now, now + _SECONDS[type])
        made.state, made.power = "Creating" if there is None else "Updating", there.power if there else "Running"
        azure.things[group, type.lower(), name.lower()] = made
        if type == CLUSTER:
            for each in body["properties"]["agentPoolProfiles"]:
                known = self.pools.get((name.lower(), each["name"]), {})
                self.pools[name.lower(), each["name"]] = {**known, **each, "provisioningState": "Creating"}
            if there is None:
                self._make_node_group(made)
        return self._accepted(made, 201 if there is None else 200, _SECONDS[type])

    def _accepted(self, made: Thing, status: int, seconds: float, pool: str = "") -> Answer:
        azure, code = self.azure, self.fail.pop(0) if self.fail else ""
        made.busy = azure.steady() + seconds

        def settled() -> None:
            state = "Failed" if code else "Succeeded"
            if not pool:
                made.state = state
            for name in self._pools(made):
                if pool in ("", name):
                    self.pools[made.name.lower(), name]["provisioningState"] = state

        number = azure._later(seconds, settled, {"code": code, "message": "it did not work"} if code else None)
        where = f"{azure.endpoint}/subscriptions/{SUBSCRIPTION}/operations/{number}?api-version=2026-05-01"
        shown = self._shown_pool(made, pool) if pool else self._shown(made)
        return Answer(status, shown if status != 202 else {}, {"azure-asyncoperation": where})

    def _check_cluster(self, name: str, body: Body, there: Thing | None) -> None:
        wanted = body["properties"]
        if body.get("identity") != {"type": "SystemAssigned"}:
            raise RefusalError(400, "InvalidParameter")
        version = wanted.get("kubernetesVersion", "1.33")
        if version not in VERSIONS and all(version not in each for each in VERSIONS.values()):
            raise RefusalError(400, "K8sVersionNotSupported")
        profiles = {each["name"]: each for each in wanted["agentPoolProfiles"]}
        if there is None:
            if wanted["nodeResourceGroup"].lower() in self.azure.groups or len(wanted["nodeResourceGroup"]) > 80:
                raise RefusalError(409, "NodeResourceGroupAlreadyExists")
        else:
            before = there.body["properties"]
            if any(before.get(key) != wanted.get(key) for key in _FIXED):
                raise RefusalError(400, "PropertyChangeNotAllowed")
            if there.power == "Stopped":
                raise RefusalError(400, "OperationNotAllowedOnStoppedCluster")
            if set(self._pools(there)) - set(profiles):
                raise RefusalError(400, "AgentPoolsMissing")
        for pool in profiles.values():
            self._check_pool(name, pool)
        if not any(each["mode"] == "System" and each["count"] for each in profiles.values()):
            raise RefusalError(400, "SystemPoolRequired")

    def _check_pool(self, cluster: str, pool: Body) -> None:
        azure = self.azure
        if not re.fullmatch("[a-z][a-z0-9]{0,11}", pool["name"]):
            raise RefusalError(400, "InvalidParameter")
        size = next((each for each in azure.skus if each["name"] == pool["vmSize"]), None)
        if size is None or size["restrictions"]:
            raise RefusalError(400, "SkuNotAvailable")
        if pool["mode"] == "System" and (azure.cores_of(pool["vmSize"]) < 4 or "_B" in pool["vmSize"]):
            raise RefusalError(400, "SystemPoolSkuTooLow")
        before = self.pools.get((cluster.lower(), pool["name"]), {"count": 0, **pool, "new": True})
        if any(before.get(key) != pool.get(key) for key in ("vmSize", "availabilityZones", "osType")):
            raise RefusalError(400, "PropertyChangeNotAllowed")
        there = 0 if "new" in before else before["count"]
        more = azure.cores_of(pool["vmSize"]) * (pool["count"] - there)
        for quota in ("cores", size["family"]):
            if more > 0 and azure._used(quota) + more > azure.limits.get(quota, 100):
                raise RefusalError(400, "ErrCode_InsufficientVCPUQuota")

    def _check(self, type: str, body: Body) -> None:
        if wrong := faults_of(type, body):
            raise RefusalError(400, "InvalidRequestContent", f"{type}: {wrong}")

    def _delete(self, asked: Asked, there: Thing) -> Answer:
        azure = self.azure
        azure._check_lock(asked.path)
        if there.busy > azure.steady():
            raise RefusalError(409, "AnotherOperationInProgress")
        there.going, group = True, there.body.get("properties", {}).get("nodeResourceGroup", "").lower()

        def gone() -> None:
            if there.until is not None:
                return  # by an earlier request
            azure._drop(there)
            for name in self._pools(there):
                del self.pools[there.name.lower(), name]
            for role in [name for name in self.roles if f"/registries/{there.name.lower()}/" in name.lower()]:
                del self.roles[role]
            if group:
                azure.groups.pop(group, None)
                for each in [each for each in azure.things.values() if each.group.lower() == group]:
                    azure._drop(each)

        seconds = 200.0 if there.type == CLUSTER else 10.0
        number = azure._later(seconds, gone)
        root = f"{azure.endpoint}/subscriptions/{SUBSCRIPTION}"
        return Answer(202, {}, {"location": f"{root}/results/{number}?api-version=2026-05-01"})

    def _act(self, there: Thing, verb: str) -> Answer:
        azure, properties = self.azure, there.body["properties"]
        if there.type == REGISTRY and verb == "listCredentials":
            if not properties["adminUserEnabled"]:
                raise RefusalError(400, "UnAuthorizedForCredentialOperations")
            user, password = self.credentials
            listed = [{"name": "password", "value": password}, {"name": "password2", "value": "secret-2"}]
            return Answer(200, {"username": user or there.name, "passwords": listed}, {})
        if verb == "listClusterAdminCredential":
            if not self.local_accounts:
                raise RefusalError(400, "BadRequest")
            value = base64.b64encode(self.kubeconfig.encode()).decode()
            return Answer(200, {"kubeconfigs": [{"name": "clusterAdmin", "value": value}]}, {})
        assert verb in ("start", "stop"), verb
        if there.going or there.busy > azure.steady():
            raise RefusalError(409, "AnotherOperationInProgress")
        after = {"start": "Running", "stop": "Stopped"}[verb]
        if there.power == after:
            raise RefusalError(400, "OperationNotAllowedInThisState")
        there.state, there.power = "Starting" if verb == "start" else "Stopping", after
        return self._accepted(there, 202, 240.0)

    def _shown(self, thing: Thing) -> Body:
        shown = self.azure._shown(thing)
        properties: dict[str, Any] = shown["properties"]
        if thing.type == REGISTRY:
            properties["loginServer"] = self.login_server or f"{thing.name}.azurecr.io"
            return shown
        properties |= {
            "kubernetesVersion": properties.get("kubernetesVersion", "1.33"),
            "currentKubernetesVersion": "1.33.3",
            "powerState": {"code": thing.power},
            "fqdn": f"{properties['dnsPrefix']}-1234.hcp.westeurope.azmk8s.io",
            "agentPoolProfiles": [self._shown_pool(thing, name)["properties"] for name in self._pools(thing)],
            "disableLocalAccounts": not self.local_accounts,
        }
        for each, name in zip(properties["agentPoolProfiles"], self._pools(thing), strict=True):
            each["name"] = name
        if thing.state == "Succeeded":
            properties["identityProfile"] = {"kubeletidentity": {"objectId": PRINCIPAL, "clientId": "c"}}
        return shown

    # ------------------------------------------------------------------ pools

    def _pools(self, cluster: Thing) -> list[str]:
        return [name for owner, name in self.pools if owner == cluster.name.lower()]

    def _give_up(self, asked: Asked, cluster: Thing, name: str) -> Answer:
        """Remove machines by name. The count of their pool follows."""
        there = self.pools.get((cluster.name.lower(), name))
        if there is None:
            raise RefusalError(404, "ResourceNotFound")
        machines = (asked.body or {}).get("machineNames", [])
        assert asked.method == "POST" and machines and set(asked.body or {}) == {"machineNames"}
        if cluster.going or cluster.busy > self.azure.steady():
            raise RefusalError(409, "AnotherOperationInProgress")
        if len(set(machines)) != len(machines) or len(machines) > there["count"]:
            raise RefusalError(400, "InvalidParameter")
        there["count"] -= len(machines)
        self.given_up += machines
        return self._accepted(cluster, 202, 60.0, name)

    def _pool(self, asked: Asked, cluster: Thing, name: str) -> Answer:
        there = self.pools.get((cluster.name.lower(), name))
        if asked.method == "GET" and there is not None:
            return Answer(200, self._shown_pool(cluster, name), {})
        if asked.method != "PUT":
            raise RefusalError(404, "ResourceNotFound")
        assert asked.body is not None
        self._check(POOL, asked.body)
        if cluster.going or cluster.busy > self.azure.steady():
            raise RefusalError(409, "AnotherOperationInProgress")
        if cluster.power == "Stopped":
            raise RefusalError(400, "OperationNotAllowedOnStoppedCluster")
        wanted = {**asked.body["properties"], "name": name}
        self._check_pool(cluster.name, wanted)
        if (wanted["vmSize"], (wanted.get("availabilityZones") or [None])[0]) in self.azure.without_capacity:
            self.fail.insert(0, "AllocationFailed")
        state = "Creating" if there is None else "Scaling"
        self.pools[cluster.name.lower(), name] = {**wanted, "provisioningState": state}
        group = cluster.body["properties"]["nodeResourceGroup"]
        self._part(SCALE_SET, group, f"aks-{name}-1234-vmss", {"tags": wanted.get("tags", {})})
        return self._accepted(cluster, 201 if there is None else 200, _SECONDS[POOL], name)

    def _shown_pool(self, cluster: Thing, name: str) -> Body:
        properties = copy.deepcopy(self.pools[cluster.name.lower(), name])
        properties.pop("name")
        properties |= {"currentOrchestratorVersion": "1.33.3", "eTag": "x", "powerState": {"code": cluster.power}}
        properties["upgradeSettings"] = {"maxSurge": "10%"}
        path = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/{cluster.group}/providers/{CLUSTER}/{cluster.name}"
        return {"id": f"{path}/agentPools/{name}", "name": name, "type": POOL, "properties": properties}

    def _make_node_group(self, cluster: Thing) -> None:
        group, tags = cluster.body["properties"]["nodeResourceGroup"], cluster.body["tags"]
        body = {"location": cluster.body["location"], "tags": tags}
        self.azure.groups[group.lower()] = Thing("group", group, group, body, self.azure.steady())
        self._part(BALANCER, group, "kubernetes", {"tags": tags})
        self._part(IP, group, "outbound-ip", {"tags": tags, "properties": {"ipAddress": "20.0.0.30"}})
        for pool in cluster.body["properties"]["agentPoolProfiles"]:
            self._part(SCALE_SET, group, f"aks-{pool['name']}-1234-vmss", {"tags": pool.get("tags", {})})

    def _part(self, type: str, group: str, name: str, body: Body) -> None:
        made = Thing(type, group, name, {"location": "westeurope", **body}, self.azure.steady())
        self.azure.things[group.lower(), type.lower(), name.lower()] = made

    # ------------------------------------------------------------------ rights

    def _role(self, asked: Asked) -> Answer:
        self.azure._check_version(ROLE.lower(), asked)
        scope = asked.path[: asked.path.lower().index("/providers/microsoft.authorization/")]
        there = self.roles.get(asked.path)
        if asked.method == "GET" and there is not None:
            return Answer(200, {"properties": there}, {})
        if asked.method != "PUT":
            raise RefusalError(404, "RoleAssignmentNotFound")
        assert asked.body is not None
        self._check(ROLE, asked.body)
        if self.azure._by_path(scope) is None:
            raise RefusalError(404, "ResourceNotFound")
        if not self.may_assign:
            raise RefusalError(403, "AuthorizationFailed")
        known = [each for each in self.azure.of(CLUSTER) if each.state == "Succeeded"]
        if not known or known[0].busy + self.known_after > self.azure.steady():
            raise RefusalError(400, "PrincipalNotFound")
        wanted = {**asked.body["properties"], "scope": scope}
        if any(path != asked.path and each == wanted for path, each in self.roles.items()):
            raise RefusalError(409, "RoleAssignmentExists")
        if there is not None and there != wanted:
            raise RefusalError(400, "RoleAssignmentUpdateNotPermitted")
        self.roles[asked.path] = wanted
        return Answer(201 if there is None else 200, {"properties": wanted}, {})
