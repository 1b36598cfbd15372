"""A double of Azure's resource manager: one subscription, its limits, and what its types do not say.

Bodies are checked against the types in ``$GRASS_TEST_AZURE``, by default beside the checkout. What is enforced besides:
cards that stay reserved, machines without power that keep their quota, names in use while deleting, lists that lag,
immutable fields, ids in another case, both styles of long operations, the order of making and removing, one operation
at a time, the versions of the types: rules that ``tests/unit/test_azure_double.py`` has one by one. Nothing here has
ever been compared with Azure itself. ``tests/contract/test_azure_arm.py`` holds it to the typed clients of Microsoft.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import ipaddress
import itertools
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

Body = dict[str, Any]
TYPES = Path(os.environ.get("GRASS_TEST_AZURE", Path(__file__).parents[3] / "shared" / "azure"))
ENDPOINT = "https://management.azure.com"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
TOKEN = "good"
IDENTITY_TOKEN = "of the master"
"""Token of the identity of the machine whose name ends in ``-master``."""
PRINCIPAL = "99999999-8888-7777-6666-555555555555"
ANYWHERE = "20.0.0.9"
"""Address of machines that nobody starts."""
NIC_SECONDS, LAG_SECONDS = 180.0, 15.0
_FILES = {
    "microsoft.compute/virtualmachines": "compute-2026-04-01",
    "microsoft.compute/disks": "disks-2026-03-02",
    "microsoft.compute/images": "compute-2026-04-01",
    "microsoft.network/networksecuritygroups": "network-2025-09-01",
    "microsoft.network/virtualnetworks": "network-2025-09-01",
    "microsoft.network/routetables": "network-2025-09-01",
    "microsoft.network/natgateways": "network-2025-09-01",
    "microsoft.network/networkinterfaces": "network-2025-09-01",
    "microsoft.network/publicipaddresses": "network-2025-09-01",
    "microsoft.resources/resourcegroups": "resourcegroups-2025-04-01",
    "microsoft.containerservice/managedclusters": "aks-2026-05-01",
    "microsoft.containerservice/managedclusters/agentpools": "aks-2026-05-01",
    "microsoft.containerregistry/registries": "acr-2025-11-01",
    "microsoft.authorization/roleassignments": "authorization-2022-04-01",
}
VM, NIC, IP, DISK = (
    "Microsoft.Compute/virtualMachines",
    "Microsoft.Network/networkInterfaces",
    "Microsoft.Network/publicIPAddresses",
    "Microsoft.Compute/disks",
)
NSG, VNET = "Microsoft.Network/networkSecurityGroups", "Microsoft.Network/virtualNetworks"
IMAGE = "Microsoft.Compute/images"
ROUTES, NAT = "Microsoft.Network/routeTables", "Microsoft.Network/natGateways"
_OTHER_PRICES = (
    ("Standard Uptime SLA", 0.1, "1 Hour"),
    ("Basic Registry Unit", 0.1666, "1/Day"),
    ("LB Rules", 0.025, "1 Hour"),
)
_SECONDS = {VM: 60.0, NSG: 4.0, VNET: 6.0, ROUTES: 4.0, NAT: 8.0, IP: 3.0, IMAGE: 120.0}
_ACTION_SECONDS = {"deallocate": 40.0, "start": 30.0}
_THING = re.compile(
    r"/subscriptions/(?P<sub>[^/]+)/resourcegroups/(?P<group>[^/]+)/providers/(?P<type>[^/]+/[^/]+)/(?P<name>[^/]+)$",
    re.I,
)
_ACTION = re.compile(r"(?P<thing>.+/virtualMachines/[^/]+)/(?P<verb>[a-zA-Z]+)$", re.I)
_GROUP = re.compile(r"/subscriptions/(?P<sub>[^/]+)/resourcegroups/(?P<group>[^/]+)$", re.I)


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    body: Body | None


class Answer(NamedTuple):
    status: int
    content: Body
    headers: dict[str, str]


class RefusalError(Exception):
    def __init__(self, status: int, code: str, text: str = "") -> None:
        super().__init__(code)
        self.status, self.code, self.text = status, code, text or f"a text that nobody may read ({code})"


@dataclass
class Thing:
    """``since`` and ``until``: when it was made and removed, for lists that lag. ``busy``: end of its operation."""

    type: str
    group: str
    name: str
    body: Body
    since: float
    busy: float = 0.0
    state: str = "Succeeded"
    until: float | None = None
    going: bool = False
    reserved: float = 0.0
    power: str = "running"
    generalized: bool = False


@dataclass
class Operation:
    end: float
    error: Body | None = None
    then: Callable[[], None] = lambda: None
    done: bool = False


@functools.cache
def _checker() -> Any:
    spec = importlib.util.spec_from_file_location("azure_types", TYPES / "validate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def _types(file: str) -> Any:
    checker = _checker().T
    types = checker.__new__(checker)  # its own way to read the file leaves it open
    types.t = json.loads((TYPES / "schemas" / f"{file}.json").read_text())
    return types


def faults_of(type: str, body: Body) -> list[str]:
    """Return what is wrong with a body, by Azure's types."""
    types = _types(_FILES[type.lower()])
    found: list[str] = types.check(
        types.root(type), body, type.split("/")[-1], skip=("name", "id", "type", "apiVersion")
    )
    return found


def sku(name: str, family: str, cores: int, memory: float, **more: Any) -> Body:
    capabilities = {"vCPUs": cores, "MemoryGB": memory, "HyperVGenerations": "V1,V2", **more.pop("capabilities", {})}
    zones = more.pop("zones", ["1", "2", "3"])
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": family,
        "capabilities": [{"name": key, "value": str(value)} for key, value in capabilities.items()],
        "locationInfo": [{"location": "westeurope", "zones": zones}],
        "restrictions": [],
        **more,
    }


NOT_OFFERED = [{"type": "Location", "values": ["westeurope"], "reasonCode": "NotAvailableForSubscription"}]


@dataclass
class Azure:
    """The subscription. ``steady``: its clock. ``refuse``: called with each request; it may raise RefusalError."""

    steady: Callable[[], float]
    skus: list[Body] = field(
        default_factory=lambda: [
            sku("Standard_B2s", "standardBSFamily", 2, 4),
            sku("Standard_B2ms", "standardBSFamily", 2, 8),
            sku("Standard_D2s_v3", "standardDSv3Family", 2, 8),
            sku("Standard_D4s_v3", "standardDSv3Family", 4, 16, restrictions=NOT_OFFERED),
            sku("Standard_B2pls_v2", "standardBplsv2Family", 2, 4, capabilities={"CpuArchitectureType": "Arm64"}),
            sku("Standard_D8s_v3", "standardDSv3Family", 8, 32),
            sku("Standard_NC4as_T4_v3", "Standard NCASv3_T4 Family", 4, 28, capabilities={"GPUs": 1}),
            sku("Standard_NC8as_T4_v3", "Standard NCASv3_T4 Family", 8, 56, capabilities={"GPUs": 1}),
            sku("Standard_NV4as_v4", "standardNVSv4Family", 4, 14, capabilities={"GPUs": 1}),
        ]
    )
    limits: dict[str, int] = field(
        default_factory=lambda: (
            {"cores": 4, "standardBSFamily": 4, "standardDSv3Family": 0, "PublicIPAddresses": 3}
            | {"lowPriorityCores": 6}
        )
    )
    prices: dict[str, float] = field(
        default_factory=lambda: {"Standard_B2s": 0.048, "Standard_B2ms": 0.096, "Standard_D2s_v3": 0.12}
    )
    locations: dict[str, tuple[float, float]] = field(
        default_factory=lambda: {"westeurope": (52.4, 4.9), "northeurope": (53.3, -6.3), "eastus": (37.4, -79.8)}
    )
    registered: set[str] = field(default_factory=lambda: {"Microsoft.Compute", "Microsoft.Network"})
    allowed: list[str] | None = None
    """Regions of a policy that the subscription can read."""
    secretly_allowed: list[str] | None = None
    """Regions that Azure allows without saying so before."""
    without_capacity: set[tuple[str, str | None]] = field(default_factory=set)
    """(size, zone) that is used up."""
    locks: dict[str, str] = field(default_factory=dict)
    """Path of a group → name of its lock."""
    poll: str = "10"
    """What ``Retry-After`` says of operations."""
    boot: Callable[[Body], str] = lambda machine: ANYWHERE
    """Called with each machine that is made; starts it, and returns its address: the public one, if it has one."""
    switch: Callable[[str, bool], None] = lambda name, on: None
    """Called with the name of each machine that is turned on or off."""
    preempt: Callable[[str], None] = lambda name: None
    """Called with the name of each machine that is taken back, 30 s before."""
    spot: bool = True
    """Whether the subscription has Spot."""
    roles: set[str] = field(default_factory=set)
    """Names of groups on which the master's identity has its role."""
    endless: bool = False
    """Whether machines never come to an end of being made."""
    refuse: Callable[[Asked], None] = lambda asked: None
    asked: list[Asked] = field(default_factory=list)
    groups: dict[str, Thing] = field(default_factory=dict)
    things: dict[tuple[str, str, str], Thing] = field(default_factory=dict)
    past: list[Thing] = field(default_factory=list)
    operations: dict[str, Operation] = field(default_factory=dict)
    endpoint: str = ENDPOINT
    more: Callable[[Asked], Answer | None] = lambda asked: None
    """Answers for types that have a double of their own; None: it is none of them."""
    more_cores: Callable[[str], int] = lambda quota: 0
    """Cores of a quota that they use."""
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def handle(self, method: str, url: str, body: Body | None, token: str | None = TOKEN) -> Answer:
        parts = urlsplit(url)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        asked = Asked(method, unquote(parts.path), query, copy.deepcopy(body))
        self.asked.append(asked)
        self._advance()
        try:
            if parts.hostname == "prices.azure.com":
                return Answer(200, self._price_list(query["$filter"]), {})
            if parts.hostname == "api.ipify.org":
                return Answer(200, {"ip": "203.0.113.7"}, {})
            if token == IDENTITY_TOKEN:
                self._check_role(asked)
            elif token != TOKEN:
                raise RefusalError(401, "InvalidAuthenticationToken")
            self.refuse(asked)
            if "api-version" not in query:
                raise RefusalError(400, "MissingApiVersionParameter")
            return self._answer(asked)
        except RefusalError as error:
            return Answer(error.status, {"error": {"code": error.code, "message": error.text}}, {})

    def cores_of(self, size: str) -> int:
        known = next(each for each in self.skus if each["name"] == size)
        return int(next(each["value"] for each in known["capabilities"] if each["name"] == "vCPUs"))

    def _check_role(self, asked: Asked) -> None:
        """Refuse what the identity may not do: its role is on groups alone, and says nothing of roles."""
        with_identity = [each for each in self.of(VM) if each.body.get("identity", {}).get("type") == "SystemAssigned"]
        if not with_identity:
            raise RefusalError(401, "InvalidAuthenticationToken")
        operation = re.fullmatch(rf"/subscriptions/{SUBSCRIPTION}/(operations|results)/\d+", asked.path)
        within = any(f"/resourcegroups/{group}/" in f"{asked.path}/".lower() for group in self.roles)
        if not operation and (not within or "Microsoft.Authorization" in asked.path):
            raise RefusalError(403, "AuthorizationFailed")

    def of(self, type: str) -> list[Thing]:
        return [thing for thing in self.things.values() if thing.type.lower() == type.lower()]

    def empty(self) -> bool:
        self._advance()
        return not self.groups and not self.things

    def add(self, type: str, group: str, name: str, body: Body) -> None:
        """Make something that is not Grass's."""
        if type == "group":
            self.groups[name.lower()] = Thing("group", name, name, body, -1000.0)
        else:
            self.things[group.lower(), type.lower(), name.lower()] = Thing(type, group, name, body, -1000.0)

    # ------------------------------------------------------------------ answers

    def _answer(self, asked: Asked) -> Answer:  # noqa: C901 a table of paths
        path = asked.path
        if other := self.more(asked):
            return other
        if path == "/subscriptions":
            return _list([{"subscriptionId": SUBSCRIPTION, "displayName": "Lab", "state": "Enabled"}])
        if path.split("/")[2].lower() != SUBSCRIPTION:
            raise RefusalError(404, "SubscriptionNotFound")
        tail = path.split("/", 3)[3] if path.count("/") > 2 else ""
        match tail.split("/"):
            case ["locations"]:
                return _list([_location(name, at) for name, at in self.locations.items()])
            case ["operations", number]:
                return self._operation(number, asked)
            case ["results", number]:
                return self._result(number)
            case ["providers", namespace]:
                state = "Registered" if namespace in self.registered else "NotRegistered"
                return Answer(200, {"namespace": namespace, "registrationState": state}, {})
            case ["providers", namespace, "register"]:
                self._later(30.0, lambda: self.registered.add(namespace))
                return Answer(200, {"registrationState": "Registering"}, {})
            case ["providers", "Microsoft.Compute", "skus"]:
                return self._pages(asked, self._skus(asked.query["$filter"]))
            case ["providers", namespace, "locations", _, "usages"]:
                return _list(self._usages(namespace))
            case ["providers", "Microsoft.Compute", "virtualMachines"]:
                self._check_version(VM.lower(), asked)
                return self._pages(asked, [self._power_of(each) for each in self.of(VM)])
            case ["providers", "Microsoft.Authorization", "policyAssignments"]:
                named = {"listOfAllowedLocations": {"value": self.allowed}}
                return _list([{"properties": {"parameters": named}}] if self.allowed is not None else [])
        if asked.method == "POST" and (acted := _ACTION.match(path)):
            return self._act(asked, acted["thing"], acted["verb"])
        if found := _GROUP.match(path):
            return self._group(asked, found["group"])
        if found := _THING.match(path):
            return self._thing(asked, found["group"], found["type"], found["name"])
        if path.lower().endswith("/resources") and path.count("/") == 5:
            return self._resources(asked, path.split("/")[4])
        if path.endswith("/providers/Microsoft.Authorization/roleAssignments"):
            has = path.split("/")[4].lower() in self.roles and PRINCIPAL in asked.query["$filter"]
            return _list([{"properties": {"principalId": PRINCIPAL}}] if has else [])
        if listed := next((type for type in (VM, IMAGE) if path.lower().endswith(f"/providers/{type}".lower())), None):
            self._check_version(listed.lower(), asked)
            here = [each for each in self.of(listed) if each.group.lower() == path.split("/")[4].lower()]
            return self._pages(asked, [self._shown(each) for each in here])
        if path.endswith("/providers/Microsoft.Authorization/locks"):
            there = path.removesuffix("/providers/Microsoft.Authorization/locks").lower()
            return _list([{"name": name} for scope, name in self.locks.items() if scope.lower() == there])
        raise RefusalError(404, "NotFound", path)

    def _group(self, asked: Asked, name: str) -> Answer:
        self._check_version("microsoft.resources/resourcegroups", asked)
        there = self.groups.get(name.lower())
        if asked.method == "PUT":
            assert asked.body is not None
            self._check("Microsoft.Resources/resourceGroups", asked.body)
            self._check_region(asked.body)
            if there is not None and there.going:
                raise RefusalError(409, "ResourceGroupBeingDeleted")
            if there is not None and there.body["location"] != asked.body["location"]:
                raise RefusalError(409, "InvalidResourceGroupLocation")
            self.groups[name.lower()] = there = Thing("group", name, name, asked.body, self.steady())
            return Answer(201, self._shown_group(there), {})
        if there is None:
            raise RefusalError(404, "ResourceGroupNotFound")
        if asked.method == "DELETE":
            self._check_lock(asked.path)
            there.going = True

            def gone() -> None:
                if self.groups.get(name.lower()) is not there:
                    return  # by an earlier request
                del self.groups[name.lower()]
                for key in [key for key in self.things if key[0] == name.lower()]:
                    self.past.append(self.things.pop(key))

            number = self._later(40.0, gone)
            where = f"{self.endpoint}/subscriptions/{SUBSCRIPTION}/results/{number}?api-version=2025-04-01"
            return Answer(202, {}, {"location": where, "retry-after": self.poll})
        return Answer(200, self._shown_group(there), {})

    def _thing(self, asked: Asked, group: str, type: str, name: str) -> Answer:
        self._check_version(type.lower(), asked)
        there = self.things.get((group.lower(), type.lower(), name.lower()))
        if self.groups.get(group.lower()) is None:
            raise RefusalError(404, "ResourceGroupNotFound")
        match asked.method:
            case "GET" if there is not None:
                shown = self._shown(there)
                if asked.query.get("$expand") == "instanceView":
                    shown["properties"] |= self._power_of(there)["properties"]
                return Answer(200, shown, {})
            case "PATCH" if there is not None and type == VM:
                return self._patch(asked, there)
            case "PUT":
                return self._put(asked, group, type, name, there)
            case "DELETE":
                return Answer(204, {}, {}) if there is None else self._delete(asked, there)
        raise RefusalError(404, "ResourceNotFound")

    def _put(self, asked: Asked, group: str, type: str, name: str, there: Thing | None) -> Answer:
        body = asked.body
        assert body is not None
        if self.groups[group.lower()].going:
            raise RefusalError(409, "ResourceGroupBeingDeleted")
        if type.split("/")[0] not in self.registered:
            raise RefusalError(409, "MissingSubscriptionRegistration")
        self._check(type, body)
        self._check_region(body)
        if there is not None and (there.going or there.busy > self.steady()):
            raise RefusalError(409, "AnotherOperationInProgress")
        if there is not None and there.body["location"] != body["location"]:
            raise RefusalError(409, "InvalidResourceLocation")
        self._check_parts(type, body, there)
        error = self._check_machine(group, name, body, there) if type == VM else None
        now, seconds = self.steady(), _SECONDS[type]
        end = float("inf") if self.endless and type == VM else now + seconds
        made = Thing(type, group, name, body, there.since if there else now, busy=end)
        made.state = "Creating" if type == VM else "Updating"
        self.things[group.lower(), type.lower(), name.lower()] = made
        if type == VM and there is None:
            self._make_parts(made, failing=error is not None)

        def settled() -> None:
            made.state = "Failed" if error else "Succeeded"

        number = self._later(end - now, settled, error)
        where = f"{self.endpoint}/subscriptions/{SUBSCRIPTION}/operations/{number}?api-version=2026-04-01"
        return Answer(201 if there is None else 200, self._shown(made), {"azure-asyncoperation": where})

    def _patch(self, asked: Asked, machine: Thing) -> Answer:
        """Change the identity of a machine: the one thing that is changed so."""
        self._check_lock(asked.path)
        if asked.body is None or set(asked.body) != {"identity"}:
            raise RefusalError(400, "InvalidRequestContent")
        if faults := faults_of(VM, {**machine.body, **asked.body}):
            raise RefusalError(400, "InvalidRequestContent", "; ".join(faults))
        if machine.busy > self.steady():
            raise RefusalError(409, "AnotherOperationInProgress")
        machine.busy, machine.state = self.steady() + 10.0, "Updating"

        def settled() -> None:
            machine.body, machine.state = {**machine.body, **(asked.body or {})}, "Succeeded"

        number = self._later(10.0, settled)
        where = f"{self.endpoint}/subscriptions/{SUBSCRIPTION}/operations/{number}?api-version=2026-04-01"
        return Answer(200, self._shown(machine), {"azure-asyncoperation": where})

    def _act(self, asked: Asked, path: str, verb: str) -> Answer:
        """Turn a machine on or off. One that was deallocated may find no room, and is then in a failed state."""
        self._check_version(VM.lower(), asked)
        self._check_lock(path)
        machine = self._by_path(path)
        if verb == "simulateEviction" and machine is not None:
            return self._evict(machine)
        if verb == "generalize" and machine is not None:
            return self._generalize(machine)
        if verb not in _ACTION_SECONDS or asked.body is not None:
            raise RefusalError(400, "InvalidRequestContent")
        if machine is None or machine.going:
            raise RefusalError(404, "ResourceNotFound")
        if verb == "start" and machine.generalized:
            raise RefusalError(409, "OperationNotAllowed")
        if machine.busy > self.steady():
            raise RefusalError(409, "AnotherOperationInProgress")
        size, zone = machine.body["properties"]["hardwareProfile"]["vmSize"], (machine.body.get("zones") or [None])[0]
        error, on = None, verb == "start"
        if on and machine.power == "deallocated" and (size, zone) in self.without_capacity:
            error = {"code": "ZonalAllocationFailed" if zone else "AllocationFailed", "message": "none left"}
        machine.busy, before = self.steady() + _ACTION_SECONDS[verb], machine.power
        machine.state, machine.power = "Updating", "starting" if on else "deallocating"

        def settled() -> None:
            machine.state = "Failed" if error else "Succeeded"
            machine.power = before if error else "running" if on else "deallocated"
            if machine.power != before:
                self.switch(machine.name, on)

        number = self._later(_ACTION_SECONDS[verb], settled, error)
        root = f"{self.endpoint}/subscriptions/{SUBSCRIPTION}"
        headers = {
            "azure-asyncoperation": f"{root}/operations/{number}?api-version=2026-04-01",
            "location": f"{root}/results/{number}?api-version=2026-04-01",
        }
        return Answer(202, {}, headers)

    def _generalize(self, machine: Thing) -> Answer:
        """Note that a machine is one no more: it never starts again."""
        if machine.power == "running" or machine.busy > self.steady():
            raise RefusalError(409, "OperationNotAllowed")
        machine.generalized = True
        return Answer(200, {}, {})

    def _evict(self, machine: Thing) -> Answer:
        if machine.body["properties"].get("priority") != "Spot":
            raise RefusalError(409, "OperationNotAllowed")
        self.preempt(machine.name)

        def gone() -> None:
            self._drop(machine)
            self._drop_parts(machine)

        self._later(30.0, gone)
        return Answer(204, {}, {})

    def _power_of(self, machine: Thing) -> Body:
        shown = self._listed(machine)
        codes = [{"code": "ProvisioningState/succeeded"}, {"code": f"PowerState/{machine.power}"}]
        return {**shown, "properties": {"instanceView": {"statuses": codes}}}

    def _delete(self, asked: Asked, there: Thing) -> Answer:
        self._check_lock(asked.path)
        if there.busy > self.steady() and not self.endless:
            raise RefusalError(409, "AnotherOperationInProgress")
        if there.type == NIC and there.reserved > self.steady():
            raise RefusalError(400, "NicReservedForAnotherVm")
        if used := self._user_of(there):
            raise RefusalError(400, used)
        there.going = True

        def gone() -> None:
            if there.until is not None:
                return  # by an earlier request
            self._drop(there)
            if there.type == VM:
                self._drop_parts(there)

        number = self._later(30.0 if there.type == VM else 5.0, gone)
        root = f"{self.endpoint}/subscriptions/{SUBSCRIPTION}"
        headers = {
            "azure-asyncoperation": f"{root}/operations/{number}?api-version=2026-04-01",
            "location": f"{root}/results/{number}?api-version=2026-04-01",
        }
        return Answer(202, {}, headers)

    # ------------------------------------------------------------------ what the types do not say

    def _check(self, type: str, body: Body) -> None:
        if type.lower() not in _FILES or (wrong := faults_of(type, body)):
            raise RefusalError(
                400, "InvalidRequestContent", f"{type}: {wrong if type.lower() in _FILES else 'unknown'}"
            )

    def _check_version(self, type: str, asked: Asked) -> None:
        """Bodies are checked by the types of one version, so no other is known."""
        if type in _FILES and not _FILES[type].endswith(asked.query["api-version"]):
            raise RefusalError(400, "InvalidApiVersionParameter")

    def _check_parts(self, type: str, body: Body, there: Thing | None) -> None:
        if type == VNET:
            self._check_network(body, there)
        if type == IMAGE and there is None:
            source = self._by_path(body["properties"]["sourceVirtualMachine"]["id"])
            if source is None or not source.generalized or source.power != "deallocated":
                raise RefusalError(409, "OperationNotAllowed", "the source is not generalized and deallocated")
        if type == NAT:
            for each in body["properties"]["publicIpAddresses"]:
                self._named(each["id"])
        if type == IP and there is None and self._used("PublicIPAddresses") >= self.limits["PublicIPAddresses"]:
            raise RefusalError(400, "PublicIPCountLimitReached")

    def _check_network(self, body: Body, there: Thing | None) -> None:
        subnets = {each["name"]: each["properties"] for each in body["properties"]["subnets"]}
        for each in subnets.values():
            self._named(each["networkSecurityGroup"]["id"])
            for part in ("routeTable", "natGateway"):
                if part in each:
                    self._named(each[part]["id"])
        if there is None or self._user_of(there) == "":
            return
        for each in there.body["properties"]["subnets"]:
            after = subnets.get(each["name"])
            if after is None:
                raise RefusalError(400, "InUseSubnetCannotBeDeleted")
            if after["addressPrefix"] != each["properties"]["addressPrefix"]:
                raise RefusalError(400, "InUseSubnetCannotBeUpdated")

    def _named(self, path: str) -> Thing:
        """Return what a body names."""
        found = self._by_path(path)
        if found is None or found.going:
            raise RefusalError(400, "InvalidResourceReference")
        if found.state != "Succeeded":
            raise RefusalError(409, "ReferencedResourceNotProvisioned")
        return found

    def _check_region(self, body: Body) -> None:
        for regions in (self.allowed, self.secretly_allowed):
            if regions is not None and body["location"] not in regions:
                raise RefusalError(403, "RequestDisallowedByAzure")

    def _check_lock(self, path: str) -> None:
        if any(path.lower().startswith(scope.lower()) for scope in self.locks):
            raise RefusalError(409, "ScopeLocked")

    def _check_machine(self, group: str, name: str, body: Body, there: Thing | None) -> Body | None:
        """Refuse a machine, or return the error with which making it ends."""
        wanted = body["properties"]
        if there is not None:
            kept = there.body["properties"]
            fixed = ("osProfile", "storageProfile", "networkProfile")
            if any(kept.get(key) != wanted.get(key) for key in fixed) or there.body.get("zones") != body.get("zones"):
                raise RefusalError(409, "PropertyChangeNotAllowed")
            return None
        size = next((each for each in self.skus if each["name"] == wanted["hardwareProfile"]["vmSize"]), None)
        if size is None or size["restrictions"]:
            raise RefusalError(409, "SkuNotAvailable")
        storage = wanted["storageProfile"]
        self._check_image(storage)
        cores = int(next(each["value"] for each in size["capabilities"] if each["name"] == "vCPUs"))
        for quota in self._quotas_of(wanted, size):
            if self._used(quota) + cores > self.limits.get(quota, 100):
                raise RefusalError(409, "OperationNotAllowed")
        card = wanted["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]["ipConfigurations"][0]
        path, _, subnet = card["properties"]["subnet"]["id"].rpartition("/subnets/")
        subnets = {each["name"]: each["properties"] for each in self._named(path).body["properties"]["subnets"]}
        if subnet not in subnets:
            raise RefusalError(400, "InvalidResourceReference")
        self._free_address(card["properties"]["subnet"]["id"])
        public = "publicIPAddressConfiguration" in card["properties"]
        if public and self._used("PublicIPAddresses") >= self.limits["PublicIPAddresses"]:
            raise RefusalError(400, "PublicIPCountLimitReached")
        zone = (body.get("zones") or [None])[0]
        if (size["name"], zone) in self.without_capacity:
            return {"code": "ZonalAllocationFailed" if zone else "AllocationFailed", "message": "none left"}
        return None

    def _check_image(self, storage: Body) -> None:
        reference = storage["imageReference"]
        if "id" in reference and ((of := self._by_path(reference["id"])) is None or of.state != "Succeeded"):
            raise RefusalError(404, "NotFound")
        if storage["osDisk"]["diskSizeGB"] < (64 if reference.get("offer") == "ubuntu-hpc" else 30):
            raise RefusalError(400, "InvalidParameter")  # smaller than the disk of the image

    def _quotas_of(self, wanted: Body, size: Body) -> tuple[str, ...]:
        """Return the quotas that a new machine needs. Refuse a Spot machine that may not be."""
        if wanted.get("priority") == "Spot":
            if not self.spot:
                raise RefusalError(409, "AzureSpotFeatureNotEnabledForSubscription")
            if 0 < wanted["billingProfile"]["maxPrice"] < self.prices[size["name"]] / 5:
                raise RefusalError(409, "SpotPriceGreaterThanProvidedMaxPrice")
        return _quotas(wanted, size)

    def _free_address(self, subnet: str) -> str:
        """Return the first free address of a subnet: Azure keeps the first four and the last one."""
        path, _, name = subnet.rpartition("/subnets/")
        listed = self._named(path).body["properties"]["subnets"]
        prefix = next(each["properties"]["addressPrefix"] for each in listed if each["name"] == name)
        configs = [
            config["properties"] for card in self.of(NIC) for config in card.body["properties"]["ipConfigurations"]
        ]
        taken = {config.get("privateIPAddress") for config in configs}
        free = (str(address) for address in list(ipaddress.ip_network(prefix))[4:-1])
        found = next((address for address in free if address not in taken), None)
        if found is None:
            raise RefusalError(400, "SubnetIsFull")
        return found

    def _make_parts(self, machine: Thing, *, failing: bool) -> None:
        """Make card, address and disk of a machine, the first two with a random ending. A machine that fails gets no
        disk."""
        now, group, number = self.steady(), machine.group, next(self._numbers)
        properties = machine.body["properties"]
        card = properties["networkProfile"]["networkInterfaceConfigurations"][0]
        first = card["properties"]["ipConfigurations"][0]["properties"]
        public = first.get("publicIPAddressConfiguration")
        names = {NIC: f"{card['name']}-{number:08x}", IP: f"{public['name']}-{number:08x}" if public else ""}
        root = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group.upper()}/providers"
        location, started = machine.body["location"], self.boot(machine.body)
        config = {"subnet": first["subnet"], "privateIPAddress": self._free_address(first["subnet"]["id"])}
        parts = []
        if public:
            address = {"location": location, "tags": public["tags"], "properties": {"ipAddress": started}}
            config["publicIPAddress"] = {"id": f"{root}/{IP}/{names[IP]}"}
            parts.append((IP, address))
        elif not failing and started != ANYWHERE:
            config["privateIPAddress"] = started
        body = {
            "location": location,
            "tags": card["tags"],
            "properties": {"ipConfigurations": [{"properties": config}]},
        }
        for type, content in (*parts, (NIC, body)):
            self.things[group.lower(), type.lower(), names[type].lower()] = Thing(
                type, group, names[type], content, now
            )
        machine.body = copy.deepcopy(machine.body)
        machine.body["properties"]["networkProfile"]["networkInterfaces"] = [{"id": f"{root}/{NIC}/{names[NIC]}"}]
        if not failing:
            name = properties["storageProfile"]["osDisk"]["name"]
            self.things[group.lower(), DISK.lower(), name.lower()] = Thing(
                DISK, group, name, {"location": machine.body["location"], "properties": {}}, now
            )

    def _drop_parts(self, machine: Thing) -> None:
        """Remove what has `deleteOption: Delete`. The card of a machine that failed stays, reserved for a while."""
        properties = machine.body["properties"]
        profile, disk = properties["networkProfile"], properties["storageProfile"]["osDisk"]
        nic = self._by_path(profile["networkInterfaces"][0]["id"])
        assert nic is not None, "a card in use cannot be removed"
        if machine.state == "Failed":
            nic.reserved = self.steady() + NIC_SECONDS
            return
        card = profile["networkInterfaceConfigurations"][0]["properties"]
        public = card["ipConfigurations"][0]["properties"].get("publicIPAddressConfiguration", {})
        used = nic.body["properties"]["ipConfigurations"][0]["properties"].get("publicIPAddress", {})
        address = self._by_path(used.get("id", ""))
        boot = self.things.get((machine.group.lower(), DISK.lower(), disk["name"].lower()))
        for part, options in ((nic, card), (address, public.get("properties", {})), (boot, disk)):
            if part is not None and options.get("deleteOption") == "Delete":
                self._drop(part)

    def _user_of(self, thing: Thing) -> str:
        """Return the error code if something uses it."""
        path = f"/{thing.type}/{thing.name}".lower()
        for each in self.things.values():
            text = json.dumps(each.body).lower()
            if each.type == NIC and thing.type == VNET and f"{path}/subnets/" in text:
                return "InUseSubnetCannotBeDeleted"
            if each.type == NIC and thing.type == IP and f'{path}"' in text:
                return "InUsePublicIpAddressCannotBeDeleted"
            if each.type == VNET and thing.type == NSG and f'{path}"' in text:
                return "InUseNetworkSecurityGroupCannotBeDeleted"
            if each.type == NAT and thing.type == IP and f'{path}"' in text:
                return "InUsePublicIpAddressCannotBeDeleted"
            if each.type == VNET and thing.type == NAT and f'{path}"' in text:
                return "InUseNatGatewayCannotBeDeleted"
            if each.type == VNET and thing.type == ROUTES and f'{path}"' in text:
                return "InUseRouteTableCannotBeDeleted"
            if each.type == VM and thing.type in (NIC, DISK) and thing.name.lower() in text:
                return "InUse"
        return ""

    def _used(self, quota: str) -> int:
        """Machines count whatever their state and power."""
        if quota == "PublicIPAddresses":
            return len(self.of(IP))
        cores = self.more_cores(quota)
        for machine in self.of(VM):
            size = next(
                each for each in self.skus if each["name"] == machine.body["properties"]["hardwareProfile"]["vmSize"]
            )
            if quota in _quotas(machine.body["properties"], size):
                cores += int(next(each["value"] for each in size["capabilities"] if each["name"] == "vCPUs"))
        return cores

    # ------------------------------------------------------------------ lists

    def _resources(self, asked: Asked, group: str) -> Answer:
        if group.lower() not in self.groups:
            raise RefusalError(404, "ResourceGroupNotFound")
        then = self.steady() - LAG_SECONDS
        seen = [
            each
            for each in (*self.things.values(), *self.past)
            if each.group.lower() == group.lower() and each.since <= then and (each.until is None or each.until > then)
        ]
        return self._pages(asked, [self._listed(each) for each in seen])

    def _listed(self, thing: Thing) -> Body:
        path = f"/subscriptions/{SUBSCRIPTION}/resourcegroups/{thing.group.upper()}/providers/{thing.type}/{thing.name}"
        shown = {"id": path, "name": thing.name, "type": thing.type, "location": thing.body.get("location")}
        return {**shown, **({"tags": thing.body["tags"]} if "tags" in thing.body else {})}

    def _skus(self, wanted: str) -> list[Body]:
        location = wanted.split("'")[1]
        return self.skus if location in self.locations else []

    def _usages(self, namespace: str) -> list[Body]:
        network = namespace == "Microsoft.Network"
        return [
            {
                "name": {"value": name, "localizedValue": f"Quota {name}"},
                "currentValue": self._used(name),
                "limit": limit,
            }
            for name, limit in self.limits.items()
            if name.startswith("Public") == network
        ]

    def _price_list(self, wanted: str) -> Body:
        items: list[Body] = []
        common = {"currencyCode": "USD", "type": "Consumption", "tierMinimumUnits": 0.0, "unitOfMeasure": "1 Hour"}
        for name, price in self.prices.items():
            if f"armSkuName eq '{name}'" in wanted:
                one = {**common, "armSkuName": name, "skuName": name, "productName": "VMs", "retailPrice": price}
                items += [one, {**one, "skuName": f"{name} Spot", "retailPrice": price / 5}]
                items += [{**one, "productName": "VMs Windows", "retailPrice": price / 2}]
        if "LRS Disk" in wanted:
            items.append({**common, "unitOfMeasure": "1/Month", "retailPrice": 2.4, "armRegionName": "westeurope"})
        for words, price, unit in _OTHER_PRICES:
            if words in wanted:
                items.append({**common, "unitOfMeasure": unit, "retailPrice": price, "armRegionName": "westeurope"})
        if "NAT Gateway" in wanted:
            items.append({**common, "retailPrice": 0.045, "armRegionName": "westeurope"})
        if "Public IP" in wanted:
            items.append({**common, "retailPrice": 0.005})
        return {"Items": items, "NextPageLink": None}

    def _pages(self, asked: Asked, items: list[Body], size: int = 3) -> Answer:
        begin = int(asked.query.get("$skiptoken", "0"))
        following = ""
        if begin + size < len(items):
            kept = "&".join(f"{key}={value}" for key, value in asked.query.items() if key != "$skiptoken")
            following = f"{self.endpoint}{asked.path}?{kept}&$skiptoken={begin + size}"
        return Answer(200, {"value": items[begin : begin + size], **({"nextLink": following} if following else {})}, {})

    # ------------------------------------------------------------------ time

    def _later(self, seconds: float, then: Callable[[], None], error: Body | None = None) -> str:
        number = str(next(self._numbers))
        self.operations[number] = Operation(self.steady() + seconds, error, then)
        return number

    def _advance(self) -> None:
        for operation in sorted(self.operations.values(), key=lambda each: each.end):
            if not operation.done and operation.end <= self.steady():
                operation.done = True
                operation.then()

    def _operation(self, number: str, asked: Asked) -> Answer:
        operation = self.operations[number]
        if not operation.done:
            return Answer(200, {"status": "InProgress"}, {"retry-after": self.poll})
        if operation.error:
            return Answer(200, {"status": "Failed", "error": operation.error}, {})
        return Answer(200, {"status": "Succeeded"}, {})

    def _result(self, number: str) -> Answer:
        return Answer(200 if self.operations[number].done else 202, {}, {"retry-after": self.poll})

    # ------------------------------------------------------------------ things

    def _by_path(self, path: str) -> Thing | None:
        found = _THING.match(path)
        return (
            self.things.get((found["group"].lower(), found["type"].lower(), found["name"].lower())) if found else None
        )

    def _drop(self, thing: Thing) -> None:
        thing.until = self.steady()
        self.past.append(thing)
        self.things.pop((thing.group.lower(), thing.type.lower(), thing.name.lower()), None)

    def _shown(self, thing: Thing) -> Body:
        shown = copy.deepcopy(thing.body)
        path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{thing.group.upper()}/providers/{thing.type}/{thing.name}"
        shown |= {"id": path, "name": thing.name, "type": thing.type}
        if shown.get("identity", {}).get("type") == "SystemAssigned":
            shown["identity"] |= {"principalId": PRINCIPAL, "tenantId": "t"}
        shown.setdefault("properties", {})["provisioningState"] = "Deleting" if thing.going else thing.state
        return shown

    def _shown_group(self, group: Thing) -> Body:
        state = {"provisioningState": "Deleting" if group.going else "Succeeded"}
        path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{group.name}"
        return {**group.body, "id": path, "name": group.name, "properties": state}


def _quotas(machine: Body, size: Body) -> tuple[str, ...]:
    return ("lowPriorityCores",) if machine.get("priority") == "Spot" else ("cores", size["family"])


def _list(items: list[Body]) -> Answer:
    return Answer(200, {"value": items}, {})


def _location(name: str, at: tuple[float, float]) -> Body:
    metadata = {"regionType": "Physical", "latitude": str(at[0]), "longitude": str(at[1])}
    return {"name": name, "metadata": metadata}
