"""`grass node scale` and `grass node remove` on Azure: what is made, what goes on after failures, what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.azure.resources import Kind, Site, machine, terms_of
from grass.errors import GrassError, InputError
from grass.model.lifecycle import NodeState
from grass.provision.azure.change import Member, decide
from grass.provision.azure.record import Asked, load_record
from grass.provision.on_premises.machines import load_machines
from tests.doubles.azure_arm import DISK, IP, NIC, ROUTES, VM, RefusalError, faults_of
from tests.support.azure_world import ID, World, reply, settings

B2S, B2MS = "Standard_B2s", "Standard_B2ms"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.azure.limits |= {"cores": 20, "standardBSFamily": 10, "standardDSv3Family": 4}
    world.create()
    return world


def machines(world: World) -> list[str]:
    return sorted(thing.name for thing in world.azure.of(VM))


def errors(found: Any) -> dict[str, str]:
    return {one.label: one.error for one in found.nodes if one.error is not None}


# ---------------------------------------------------------------------- what is decided


def test_the_number_is_the_total_and_those_that_do_least_go_first() -> None:
    nodes = {f"lab-b2s-{number}": Asked(B2S) for number in (1, 2, 4)} | {"lab-d2s-v3-1": Asked("Standard_D2s_v3")}
    members = {"lab-b2s-1": Member(NodeState.READY, 2), "lab-b2s-2": Member(NodeState.READY)}
    assert sorted(decide("lab", nodes, members, {B2S: 4}, Asked("")).new) == ["lab-b2s-3"]
    assert decide("lab", nodes, members, {B2S: 1}, Asked("")).remove == ("lab-b2s-4", "lab-b2s-2"), (
        "not joined, then idle"
    )
    assert decide("lab", nodes, members, {B2S: 0}, Asked("")).remove == ("lab-b2s-4", "lab-b2s-2", "lab-b2s-1")
    change = decide("lab", nodes, members, {"Standard_D2s_v3": 2, B2S: 3}, Asked("", "2"))
    assert change.remove == () and change.keep["lab-d2s-v3-2"] == Asked("Standard_D2s_v3", "2")
    alike = {f"lab-b2s-{number}": Asked(B2S) for number in range(1, 12)}
    assert decide("lab", alike, {}, {B2S: 9}, Asked("")).remove == ("lab-b2s-11", "lab-b2s-10")


def test_the_body_of_a_node_is_one_of_azures_types_without_a_public_address_or_forwarding() -> None:
    found = settings()
    node = machine(terms_of(found, "ssh-ed25519 AAAA"), Site("s", "grass-lab", ID), "n", found.machine, public=False)
    assert faults_of(VM, node.body) == []
    [card] = node.body["properties"]["networkProfile"]["networkInterfaceConfigurations"]
    assert "enableIPForwarding" not in card["properties"] and "publicIPAddressConfiguration" not in str(card)
    assert node.kind is Kind.MACHINE and "identity" not in node.body


# ---------------------------------------------------------------------- scale


def test_nodes_are_made_at_once_and_reached_through_the_master(world: World) -> None:
    begin = world.now
    made = world.scale(**{B2S: 2, "b2ms": 1})
    assert [one.label for one in made.nodes] == ["lab-b2s-1", "lab-b2s-2", "lab-b2ms-1"] and errors(made) == {}
    assert machines(world) == ["lab-b2ms-1", "lab-b2s-1", "lab-b2s-2", "lab-master"]
    assert world.now - begin < 120, "three machines take as long as one"
    assert len(world.azure.of(IP)) == 1, "the master's"
    assert [host.address for host in world.joined] == ["10.60.2.4", "10.60.2.5", "10.60.2.6"]
    assert {host.through and host.through.address for host in world.joined} == {"20.0.0.9"}
    [routes] = world.azure.of(ROUTES)
    assert routes.body["properties"]["routes"][0]["properties"]["nextHopIpAddress"] == "10.60.0.4"


def test_scale_repeated_changes_nothing_and_joins_nobody_twice(world: World) -> None:
    world.scale(**{B2S: 2})
    before = world.changes
    again = world.scale(**{B2S: 2})
    assert world.changes == before and len(world.joined) == 2 and again.nodes == () == again.removed
    world.create()
    assert world.changes == before, "create leaves nodes and their routes as they are"


def test_fewer_nodes_leave_nothing_of_themselves_and_all_of_the_others(world: World) -> None:
    world.scale(**{B2S: 3})
    assert world.scale(**{B2S: 1}).removed == ("lab-b2s-3", "lab-b2s-2")
    assert machines(world) == ["lab-b2s-1", "lab-master"] and list(world.members) == ["lab-b2s-1"]
    assert [len(world.azure.of(kind)) for kind in (NIC, DISK, IP)] == [2, 2, 1]
    kept, record = load_machines("lab", world.home), load_record(world.session.folder)
    assert kept is not None and list(kept.nodes) == ["lab-b2s-1"]
    assert record is not None and list(record.machines) == ["lab-master", "lab-b2s-1"]


def test_a_node_whose_tasks_do_not_end_stays_with_its_machine(world: World) -> None:
    world.scale(**{B2S: 2})
    world.members = {name: Member(NodeState.READY, 1) for name in world.members}
    found = world.scale(**{B2S: 1})
    assert errors(found) == {"lab-b2s-2": "node lab-b2s-2 still has tasks"} and found.removed == ()
    assert machines(world) == ["lab-b2s-1", "lab-b2s-2", "lab-master"]


def test_one_node_is_removed_by_its_name(world: World) -> None:
    world.scale(**{B2S: 2})
    world.remove("lab-b2s-1")
    assert machines(world) == ["lab-b2s-2", "lab-master"] and list(world.members) == ["lab-b2s-2"]
    world.scale(**{B2S: 2})
    assert machines(world) == ["lab-b2s-1", "lab-b2s-2", "lab-master"]


def test_a_cluster_with_nodes_is_deleted_whole(world: World) -> None:
    world.scale(**{B2S: 2})
    world.delete()
    assert world.azure.empty() and not world.session.folder.exists()


def test_a_node_whose_machine_was_deleted_elsewhere_is_made_and_joined_again(world: World) -> None:
    world.scale(**{B2S: 1})
    [node] = [thing for thing in world.azure.of(VM) if thing.name == "lab-b2s-1"]
    world.azure._drop_parts(node)
    world.azure._drop(node)
    world.members["lab-b2s-1"] = Member(NodeState.LOST)
    world.scale(**{B2S: 1})
    assert machines(world) == ["lab-b2s-1", "lab-master"] and len(world.joined) == 2


# ---------------------------------------------------------------------- GPUs

T4 = "Standard_NC4as_T4_v3"


def body_of(world: World, name: str) -> Any:
    return next(thing.body["properties"] for thing in world.azure.of(VM) if thing.name == name)


def test_a_node_with_gpus_starts_from_the_image_with_the_driver_without_secure_boot(world: World) -> None:
    assert "Canonical:ubuntu-24_04-lts:server:latest, disk of 32 GiB" in world.scale_plan(Standard_B2s=1)
    plan = world.scale_plan(**{T4: 1})
    assert "4 cores, 28 GiB, 1 GPU), microsoft-dsvm:ubuntu-hpc:2404:latest, disk of 128 GiB" in plan
    assert errors(world.scale(**{T4: 1, B2S: 1})) == {}
    [card, plain] = (body_of(world, name) for name in ("lab-nc4as-t4-v3-1", "lab-b2s-1"))
    assert card["storageProfile"]["imageReference"]["offer"] == "ubuntu-hpc"
    assert card["storageProfile"]["osDisk"]["diskSizeGB"] == 128
    assert card["securityProfile"] == {"securityType": "Standard"} and "securityProfile" not in plain
    assert plain["storageProfile"]["imageReference"]["offer"] == "ubuntu-24_04-lts"


def test_another_image_in_the_file_is_for_new_nodes_alone(world: World) -> None:
    world.scale(**{T4: 1})
    world.create(sizes={"NC4as_T4_v3": {"image": "a:b:c:1", "disk": "256GiB"}})
    assert errors(world.scale(**{T4: 2})) == {}
    offers = [body_of(world, f"lab-nc4as-t4-v3-{n}")["storageProfile"]["imageReference"]["offer"] for n in (1, 2)]
    assert offers == ["ubuntu-hpc", "b"]


def test_a_node_that_does_not_see_its_gpus_is_named_with_what_helps_until_it_does(world: World) -> None:
    name = "lab-nc4as-t4-v3-1"
    world.without_driver = {name}
    for _ in range(2):
        [told] = [one for one in world.scale(**{T4: 2, B2S: 1}).nodes if one.error is not None]
        assert (told.label, told.code, told.exit_code) == (name, "azure-driver", 1) and told.error is not None
        assert "sees 0 of its 1 GPUs" in told.error and f"`sizes.{T4}.image`" in told.error
    world.members[name] = Member(NodeState.STOPPED, gpus=0)
    assert errors(world.scale(**{T4: 2})) == {}
    world.members[name] = Member(NodeState.READY, gpus=1)
    assert errors(world.scale(**{T4: 2})) == {}


def test_gpus_of_amd_are_refused_before_anything_is_made_and_never_offered(world: World) -> None:
    before = world.changes
    with pytest.raises(InputError, match="has GPUs of AMD") as refused:
        world.scale(Standard_NV4as_v4=1)
    assert f"{T4} in westeurope: 4 cores" in str(refused.value) and "Standard_NV4as_v4 in" not in str(refused.value)
    world.azure.limits["Standard NCASv3_T4 Family"] = 0
    with pytest.raises(InputError) as small:
        world.scale(**{T4: 1})
    assert "NV4as" not in str(small.value) and world.changes == before


# ---------------------------------------------------------------------- what does not fit


def test_more_than_the_quota_is_refused_before_anything_is_made_with_what_fits(world: World) -> None:
    before = world.changes
    with pytest.raises(InputError) as refused:
        world.scale(**{B2S: 5})
    text = str(refused.value)
    assert "5 more Standard_B2s need 10 cores, but 8 of 10 are left of Quota standardBSFamily" in text
    assert "4 more of Standard_B2s would fit: `grass node scale Standard_B2s 4`" in text
    assert "Standard_D2s_v3 in westeurope: 2 cores, 8 GiB, $0.1200/hour" in text and world.changes == before


def test_what_is_removed_makes_room_for_what_is_made(world: World) -> None:
    world.scale(**{B2S: 4})
    found = world.scale(**{B2S: 0, B2MS: 4})
    assert errors(found) == {} and machines(world) == [*(f"lab-b2ms-{number}" for number in (1, 2, 3, 4)), "lab-master"]


def test_sizes_that_are_not_offered_are_refused_with_what_fits(world: World) -> None:
    with pytest.raises(InputError, match=r"(?s)Standard_D4s_v3 is not offered .*the cheapest first:\n  Standard_B2s"):
        world.scale(Standard_D4s_v3=1)
    with pytest.raises(InputError, match=r"Azure has no Standard_Nothing in westeurope"):
        world.scale(Standard_Nothing=1)


def test_without_capacity_in_one_zone_another_is_tried_and_then_the_others_go_on(world: World) -> None:
    world.azure.without_capacity = {(B2S, None)}
    assert errors(world.scale(**{B2S: 2})) == {}
    assert {thing.body["zones"][0] for thing in world.azure.of(VM) if "b2s" in thing.name} == {"1"}
    world.azure.without_capacity = {(B2MS, zone) for zone in (None, "1", "2", "3")}
    found = world.scale(**{B2S: 3, B2MS: 1})
    assert list(errors(found)) == ["lab-b2ms-1"] and "lab-b2s-3" in world.members
    [failed] = [one for one in found.nodes if one.error]
    assert failed.code == "azure-capacity" and "these fit, the cheapest first:" in str(failed.error)
    assert "`grass node scale Standard_B2s 3 Standard_B2ms 1` goes on" in str(failed.error)
    assert machines(world) == ["lab-b2s-1", "lab-b2s-2", "lab-b2s-3", "lab-master"] and len(world.azure.of(NIC)) == 4
    world.azure.without_capacity = set()
    assert errors(world.scale(**{B2S: 3, B2MS: 1})) == {} and "lab-b2ms-1" in world.members


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "QuotaExceeded", "azure-quota"),
        (409, "SkuNotAvailable", "azure-size"),
        (403, "RequestDisallowedByPolicy", "azure"),
    ],
)
def test_a_refusal_of_one_machine_leaves_the_others_and_is_tried_again(
    world: World, status: int, code: str, kind: str
) -> None:
    def refuse(asked: Any) -> None:
        if asked.method == "PUT" and asked.path.endswith("lab-b2s-2"):
            raise RefusalError(status, code)

    world.azure.refuse = refuse
    found = world.scale(**{B2S: 3})
    [failed] = [one for one in found.nodes if one.error]
    assert (failed.label, failed.code, failed.exit_code) == ("lab-b2s-2", kind, 1)
    assert sorted(world.members) == ["lab-b2s-1", "lab-b2s-3"]
    world.azure.refuse = lambda asked: None
    assert errors(world.scale(**{B2S: 3})) == {} and len(world.joined) == 3


def test_a_machine_that_does_not_answer_is_kept_named_and_priced(world: World) -> None:
    world.silent = {"lab-b2s-2"}
    found = world.scale(**{B2S: 2})
    text = errors(found)["lab-b2s-2"]
    assert "machine lab-b2s-2 exists and costs $0.0480/hour" in text and "`grass node remove lab-b2s-2` ends it" in text
    world.silent = set()
    assert errors(world.scale(**{B2S: 2})) == {} and len(world.azure.of(VM)) == 3


def test_machines_that_never_come_to_an_end_are_waited_for_together_and_looked_at_again(world: World) -> None:
    world.azure.endless = True
    begin = world.now
    found = world.scale(**{B2S: 3})
    assert {one.exit_code for one in found.nodes} == {124} and world.now - begin < 1300
    before = len(world.changes)
    world.scale(**{B2S: 3})
    assert world.changes[before:] == []
    world.delete()
    assert world.azure.empty()


def test_a_login_that_ends_midway_says_how_to_go_on(world: World) -> None:
    world.fault = lambda method, url, go: reply(401, "ExpiredAuthenticationToken") if "b2s-2" in url else go()
    with pytest.raises(GrassError, match=r"(?s)`az login`.*`grass node scale Standard_B2s 2` goes on") as refused:
        world.scale(**{B2S: 2})
    assert refused.value.exit_code == 4
    world.fault = lambda method, url, go: go()
    assert errors(world.scale(**{B2S: 2})) == {} and len(world.azure.of(VM)) == 3


# ---------------------------------------------------------------------- plan


def test_a_plan_says_what_is_made_removed_left_and_paid_and_changes_nothing(world: World) -> None:
    world.scale(**{B2MS: 1})
    before = world.changes
    text = world.scale_plan(**{B2S: 2, B2MS: 0})
    for part in (
        "machine lab-b2s-2: is made: Standard_B2s (2 cores, 4 GiB), Canonical:ubuntu-24_04-lts:server:latest, "
        "disk of 32 GiB, no public address",
        "machine lab-b2ms-1: is removed",
        "quota Quota standardBSFamily: 6 of 10 cores are left; 4 after it",
        "$0.1026/hour",
        "each Standard_B2s: $0.0480/hour, $35.04/month; its disk: $0.0033/hour",
        "a plan promises no machine",
    ):
        assert part in text, text
    assert world.changes == before


def test_fifty_nodes_stay_below_the_limits_of_requests(world: World) -> None:
    count = 50
    world.azure.limits |= {"cores": 500, "standardBSFamily": 500}
    before = len(world.azure.asked)
    assert errors(world.scale(**{B2S: count})) == {}
    asked = world.azure.asked[before:]
    assert sum(each.method == "PUT" for each in asked) == count and len(asked) < 8 * count
