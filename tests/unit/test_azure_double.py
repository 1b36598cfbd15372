"""The double of Azure keeps the rules of sequence that Azure's types do not say, so that the client meets them.

The rules were written down by another hand than the double's: names in use while deleting, one operation at a time, the
order of making and removing, cards that stay reserved, quota, full subnets, immutable fields, lists that lag, ids in
another case, pinned versions. None was ever compared with Azure itself.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grass.azure.resources import Kind, Site, Wanted, wanted
from tests.doubles.azure_arm import DISK, IP, LAG_SECONDS, NIC, SUBSCRIPTION, TYPES, VM, Answer, Azure
from tests.support.azure_world import ID, settings
from tests.support.needs import require

SITE = Site(SUBSCRIPTION, "grass-lab", ID)


class Subscription:
    """A subscription with a clock that is set by hand, and requests of one line."""

    def __init__(self) -> None:
        require((TYPES / "validate.py").exists(), "types of Azure", f"they are not in {TYPES}")
        self.now = 0.0
        self.azure = Azure(lambda: self.now)
        self.things = self.wanted()

    def wanted(self, **keys: Any) -> dict[Kind, Wanted]:
        return {each.kind: each for each in wanted(settings(**keys), SITE, ("203.0.113.7/32",), "ssh-ed25519 AAAA")}

    def ask(self, method: str, path: str, version: str, body: Any = None) -> Answer:
        return self.azure.handle(method, f"{self.azure.endpoint}{path}?api-version={version}", body)

    def put(self, kind: Kind, body: Any = None, name: str = "") -> str:
        """Return the error code; empty: accepted."""
        thing = self.things[kind]
        path = SITE.path(kind, name or thing.name)
        return code(self.ask("PUT", path, kind.version, copy.deepcopy(thing.body if body is None else body)))

    def delete(self, kind: Kind, name: str = "") -> str:
        return code(self.ask("DELETE", SITE.path(kind, name or self.things[kind].name), kind.version))

    def make(self, *kinds: Kind) -> None:
        for kind in kinds:
            assert self.put(kind) == ""
            self.later(100)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.azure.empty()  # lets happen what is due

    def listed(self) -> list[str]:
        found: list[str] = []
        url = f"{self.azure.endpoint}{SITE.group_path}/resources?api-version=2025-04-01"
        while url:
            content = self.azure.handle("GET", url, None).content
            found += [each["name"] for each in content["value"]]
            url = content.get("nextLink", "")
        return found

    def part(self, type: str) -> str:
        [thing] = self.azure.of(type)
        return thing.name


def code(answer: Answer) -> str:
    return str(answer.content["error"]["code"]) if answer.status >= 400 else ""


@pytest.fixture
def here() -> Subscription:
    return Subscription()


@pytest.fixture
def whole(here: Subscription) -> Subscription:
    here.make(Kind.GROUP, Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE)
    return here


def changed(body: Any, **keys: Any) -> Any:
    return {**copy.deepcopy(body), **keys}


# ---------------------------------------------------------------------- order of making


def test_nothing_is_made_before_what_it_names(here: Subscription) -> None:
    assert here.put(Kind.RULES) == "ResourceGroupNotFound"
    here.make(Kind.GROUP)
    assert here.put(Kind.NETWORK) == "InvalidResourceReference"
    assert here.put(Kind.MACHINE) == "InvalidResourceReference"
    assert here.put(Kind.RULES) == ""
    here.make(Kind.ROUTES)
    assert here.put(Kind.RULES) == ""
    assert here.put(Kind.NETWORK) == "ReferencedResourceNotProvisioned", "the rules are still being made"
    here.later(100)
    here.make(Kind.NETWORK)
    body = copy.deepcopy(here.things[Kind.MACHINE].body)
    card = body["properties"]["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]
    card["ipConfigurations"][0]["properties"]["subnet"]["id"] += "-of-nobody"
    assert here.put(Kind.MACHINE, body) == "InvalidResourceReference"


@pytest.mark.parametrize("kind", [Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE])
def test_one_operation_at_a_time_works_on_a_resource(here: Subscription, kind: Kind) -> None:
    before = {Kind.RULES: 1, Kind.ROUTES: 2, Kind.NETWORK: 3, Kind.MACHINE: 4}[kind]
    here.make(*list(here.things)[:before])
    assert here.put(kind) == ""
    assert here.put(kind) == here.delete(kind) == "AnotherOperationInProgress"


# ---------------------------------------------------------------------- order of removing


def test_nothing_is_removed_before_what_uses_it(whole: Subscription) -> None:
    card, address, disk = (whole.part(type) for type in (NIC, IP, DISK))
    assert whole.delete(Kind.CARD, card) == whole.delete(Kind.DISK, disk) == "InUse"
    assert whole.delete(Kind.ADDRESS, address) == "InUsePublicIpAddressCannotBeDeleted"
    assert whole.delete(Kind.NETWORK) == "InUseSubnetCannotBeDeleted"
    assert whole.delete(Kind.RULES) == "InUseNetworkSecurityGroupCannotBeDeleted"
    assert whole.delete(Kind.MACHINE) == ""
    assert whole.delete(Kind.NETWORK) == "InUseSubnetCannotBeDeleted", "the machine is still being removed"
    whole.later(100)
    assert whole.delete(Kind.ROUTES) == "InUseRouteTableCannotBeDeleted"
    for kind in (Kind.NETWORK, Kind.ROUTES, Kind.RULES):
        assert whole.delete(kind) == ""
        whole.later(100)
    assert whole.azure.things == {}


def test_the_card_of_a_machine_that_failed_stays_reserved_for_three_minutes(here: Subscription) -> None:
    here.azure.without_capacity = {("Standard_B2s", None)}
    here.make(Kind.GROUP, Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE)
    card, address = here.part(NIC), here.part(IP)
    assert here.azure.of(DISK) == [] and here.put(Kind.MACHINE) == "PropertyChangeNotAllowed", "it keeps its name"
    assert here.delete(Kind.MACHINE) == ""
    here.later(30)
    assert here.azure.empty() is False and here.azure.of(VM) == []
    here.later(179)
    assert here.delete(Kind.CARD, card) == "NicReservedForAnotherVm"
    assert here.delete(Kind.ADDRESS, address) == "InUsePublicIpAddressCannotBeDeleted"
    here.later(2)
    assert here.delete(Kind.CARD, card) == ""


def test_what_is_not_marked_for_it_does_not_go_with_its_machine(here: Subscription) -> None:
    here.make(Kind.GROUP, Kind.RULES, Kind.ROUTES, Kind.NETWORK)
    body = copy.deepcopy(here.things[Kind.MACHINE].body)
    properties = body["properties"]
    del properties["storageProfile"]["osDisk"]["deleteOption"]
    card = properties["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]
    del card["deleteOption"], card["ipConfigurations"][0]["properties"]["publicIPAddressConfiguration"]["properties"]
    assert here.put(Kind.MACHINE, body) == ""
    here.later(100)
    assert here.delete(Kind.MACHINE) == ""
    here.later(100)
    assert [len(here.azure.of(type)) for type in (VM, NIC, IP, DISK)] == [0, 1, 1, 1]


# ---------------------------------------------------------------------- names


def test_a_name_is_in_use_while_its_resource_is_being_deleted(whole: Subscription) -> None:
    assert whole.delete(Kind.MACHINE) == ""
    assert whole.put(Kind.MACHINE) == "AnotherOperationInProgress"
    whole.later(100)
    whole.make(Kind.MACHINE)
    assert whole.delete(Kind.GROUP) == ""
    assert whole.put(Kind.GROUP) == whole.put(Kind.RULES) == "ResourceGroupBeingDeleted"
    whole.later(100)
    assert whole.put(Kind.GROUP) == "" and whole.azure.things == {}


def test_a_group_that_is_deleted_twice_is_gone_once(here: Subscription) -> None:
    here.make(Kind.GROUP)
    assert here.delete(Kind.GROUP) == ""
    here.later(30)
    assert here.delete(Kind.GROUP) == ""
    here.later(15)
    assert here.put(Kind.GROUP) == ""
    here.later(100)
    assert here.put(Kind.RULES) == ""


# ---------------------------------------------------------------------- limits


def test_machines_count_whatever_became_of_them_until_they_are_removed(here: Subscription) -> None:
    here.azure.without_capacity = {("Standard_B2s", None)}
    here.make(Kind.GROUP, Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE)
    assert here.put(Kind.MACHINE, name="second") == ""
    here.later(100)
    assert here.put(Kind.MACHINE, name="third") == "OperationNotAllowed"


def test_a_subnet_has_five_addresses_less_than_it_says(here: Subscription) -> None:
    here.azure.limits = {"cores": 100, "PublicIPAddresses": 100}
    here.things = here.wanted(network={"range": "10.60.0.0/28"})
    here.make(Kind.GROUP, Kind.RULES, Kind.ROUTES, Kind.NETWORK)
    codes = [here.put(Kind.MACHINE, name=f"machine-{number}") for number in range(4)]
    assert codes == ["", "", "", "SubnetIsFull"]


# ---------------------------------------------------------------------- what never changes


@pytest.mark.parametrize("kind", [Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE])
def test_nothing_moves_to_another_region(whole: Subscription, kind: Kind) -> None:
    body = changed(whole.things[kind].body, location="northeurope")
    assert whole.put(kind, body) == "InvalidResourceLocation"


def test_a_group_does_not_move_to_another_region(whole: Subscription) -> None:
    body = changed(whole.things[Kind.GROUP].body, location="northeurope")
    assert whole.put(Kind.GROUP, body) == "InvalidResourceGroupLocation"


@pytest.mark.parametrize("keys", [{"ssh": {"user": "ops"}}, {"master": {"disk": "64GiB"}}, {"master": {"zone": 2}}])
def test_a_machine_keeps_its_user_its_disk_and_its_zone(whole: Subscription, keys: dict[str, Any]) -> None:
    body = whole.wanted(**keys)[Kind.MACHINE].body
    there = whole.azure.of(VM)[0].body["properties"]["networkProfile"]
    body["properties"]["networkProfile"] = copy.deepcopy(there)
    assert whole.put(Kind.MACHINE, body) == "PropertyChangeNotAllowed"


def test_a_subnet_in_use_keeps_its_addresses(whole: Subscription) -> None:
    body = whole.wanted(network={"range": "10.61.0.0/22"})[Kind.NETWORK].body
    assert whole.put(Kind.NETWORK, body) == "InUseSubnetCannotBeUpdated"
    assert whole.put(Kind.NETWORK) == ""


# ---------------------------------------------------------------------- answers


def test_lists_lag_behind_what_is_made_and_removed(here: Subscription) -> None:
    here.make(Kind.GROUP)
    assert here.put(Kind.RULES) == "" and here.listed() == []
    here.later(LAG_SECONDS - 1)
    assert here.listed() == []
    here.later(1)
    assert here.listed() == ["lab-rules"]
    assert here.delete(Kind.RULES) == ""
    here.later(5)
    assert here.ask("GET", here.things[Kind.RULES].path, Kind.RULES.version).status == 404
    here.later(LAG_SECONDS - 1)
    assert here.listed() == ["lab-rules"]
    here.later(1)
    assert here.listed() == []


def test_ids_come_back_in_another_case_than_they_were_sent(whole: Subscription) -> None:
    for kind in (Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE):
        thing = whole.things[kind]
        id = whole.ask("GET", thing.path, kind.version).content["id"]
        assert id != thing.path and id.lower() == thing.path.lower()
        assert whole.ask("GET", id, kind.version).status == 200


@pytest.mark.parametrize("kind", [Kind.GROUP, Kind.RULES, Kind.ROUTES, Kind.NETWORK, Kind.MACHINE])
def test_a_version_whose_types_are_not_those_of_the_tests_is_refused(whole: Subscription, kind: Kind) -> None:
    thing = whole.things[kind]
    assert code(whole.ask("PUT", thing.path, "2031-01-01", thing.body)) == "InvalidApiVersionParameter"
