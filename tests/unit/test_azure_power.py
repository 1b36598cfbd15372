"""`grass node stop` and `start`, `grass cost`, `nat: gateway` on Azure: what is turned off, left, counted and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.azure.meter import Ledger, Meter, Paid, hourly, read, spent
from grass.errors import GrassError, InputError
from grass.model.lifecycle import NodeState
from grass.provision.azure.change import Member
from grass.provision.azure.record import load_record
from tests.doubles.azure_arm import DISK, IP, NAT, ROUTES, VM
from tests.support.azure_world import EPOCH, World, reply

B2S = "Standard_B2s"
GATEWAY = {"network": {"nat": "gateway"}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.azure.limits |= {"cores": 20, "standardBSFamily": 10}
    world.create()
    world.scale(**{B2S: 2})
    return world


def power(world: World) -> dict[str, str]:
    return {thing.name: thing.power for thing in world.azure.of(VM)}


# ---------------------------------------------------------------------- stop


def test_a_stopped_node_keeps_its_disk_and_says_what_is_still_paid(world: World) -> None:
    ended = world.stop("lab-b2s-1")
    assert power(world) == {"lab-b2s-1": "deallocated", "lab-b2s-2": "running", "lab-master": "running"}
    assert world.members["lab-b2s-1"].state is NodeState.STOPPED and len(world.azure.of(DISK)) == 3
    kept = "its disk is still paid ($0.0033/hour, $2.40/month), and its cores still use the quota"
    assert ended["lab-b2s-1"].error is None and ended["lab-b2s-1"].kept == kept
    assert world.why["lab-b2s-1"] == f"deallocated; {kept}; `grass node start lab-b2s-1` starts it"


def test_nodes_are_stopped_at_once_and_a_busy_one_stays_on(world: World) -> None:
    world.scale(**{B2S: 4})
    world.members["lab-b2s-2"] = Member(NodeState.READY, 1)
    begin = world.now
    ended = world.stop("lab-b2s-1", "lab-b2s-2", "lab-b2s-3", "lab-b2s-4")
    assert world.now - begin < 80, "three machines take as long as one"
    assert [name for name, one in ended.items() if one.error] == ["lab-b2s-2"]
    assert (ended["lab-b2s-2"].exit_code, power(world)["lab-b2s-2"]) == (124, "running")


def test_stop_repeated_changes_nothing(world: World) -> None:
    world.stop("lab-b2s-1")
    assert world.stop("lab-b2s-1")["lab-b2s-1"].error is None and power(world)["lab-b2s-1"] == "deallocated"


def test_only_nodes_that_grass_made_are_stopped(world: World) -> None:
    before = world.changes
    for name in ("lab-master", "n1"):
        with pytest.raises(
            InputError, match=f"{name}: no node that Grass made on Azure; there are lab-b2s-1, lab-b2s-2"
        ):
            world.stop("lab-b2s-1", name)
    world.members["lab-b2s-2"] = Member(NodeState.JOINING)
    with pytest.raises(InputError, match=r"lab-b2s-2: has not joined .*`grass node remove` ends what it costs"):
        world.stop("lab-b2s-2")
    assert world.changes == before


def test_a_refused_stop_says_that_the_machine_still_costs_and_how_to_go_on(world: World) -> None:
    world.fault = lambda method, url, go: reply(403, "AuthorizationFailed") if "/deallocate" in url else go()
    failed = world.stop("lab-b2s-1")["lab-b2s-1"]
    assert failed.exit_code == 4 and "its machine may still run and costs $0.0480/hour" in str(failed.error)
    assert "repeat `grass node stop lab-b2s-1`, or `grass node uncordon lab-b2s-1`" in str(failed.error)
    assert world.members["lab-b2s-1"].state is NodeState.DRAINED


# ---------------------------------------------------------------------- start


def test_a_stopped_node_starts_again(world: World) -> None:
    world.stop("lab-b2s-1", "lab-b2s-2")
    assert world.start("lab-b2s-1")["lab-b2s-1"].error is None
    assert power(world)["lab-b2s-1"] == "running" and world.members["lab-b2s-1"].state is NodeState.READY
    record = load_record(world.session.folder)
    assert record is not None and [record.machines[f"lab-b2s-{each}"].stopped for each in (1, 2)] == [False, True]


def test_a_start_without_capacity_says_so_and_leaves_the_node_stopped_and_whole(world: World) -> None:
    world.stop("lab-b2s-1")
    world.azure.without_capacity = {(B2S, None)}
    failed = world.start("lab-b2s-1")["lab-b2s-1"]
    assert (failed.code, failed.exit_code) == ("azure-capacity", 1)
    assert "repeat `grass node start lab-b2s-1` later, or `grass node scale`" in str(failed.error)
    assert world.members["lab-b2s-1"].state is NodeState.STOPPED
    assert world.why["lab-b2s-1"].startswith("not started: machine lab-b2s-1: start: AllocationFailed")
    [machine] = [thing for thing in world.azure.of(VM) if thing.name == "lab-b2s-1"]
    assert machine.state == "Failed"
    world.scale(**{B2S: 2})
    world.create()
    assert machine in world.azure.of(VM), "a machine that failed to start is not one that failed to be made"
    world.azure.without_capacity = set()
    assert world.start("lab-b2s-1")["lab-b2s-1"].error is None


def test_a_machine_that_starts_and_is_not_heard_is_named_with_what_helps(world: World) -> None:
    world.stop("lab-b2s-1")
    world.silent = {"lab-b2s-1"}
    failed = world.start("lab-b2s-1")["lab-b2s-1"]
    assert failed.exit_code == 124 and "its machine runs; how it started is shown by `az vm boot-" in str(failed.error)


def test_stopped_nodes_count_for_scale_and_go_with_delete(world: World) -> None:
    world.stop("lab-b2s-2")
    assert "machine lab-b2s-2: exists, and is stopped" in world.scale_plan(**{B2S: 2})
    assert world.scale(**{B2S: 2}).nodes == () and len(world.joined) == 2
    world.delete()
    assert world.azure.empty()


# ---------------------------------------------------------------------- cost


def test_meters_count_what_is_on_by_the_price_of_then() -> None:
    ledger = read(Ledger(0.0), {"m/machine": Paid("A", 1.0), "m/disk": Paid("disk", 0.1)}, 0.0)
    ledger = read(ledger, {"m/disk": Paid("disk", 0.1)}, 3600.0)
    assert spent(iter(ledger.meters.values()), 7200.0) == (pytest.approx(1.2), True)
    assert hourly(iter(ledger.meters.values())) == 0.1
    ledger = read(ledger, {"m/machine": Paid("A", 2.0)}, 7200.0)
    assert ledger.meters["m/machine"] == Meter("A", 2.0, 7200.0, 1.0, 1.0)
    assert spent(iter(ledger.meters.values()), 10800.0) == (pytest.approx(3.2), True)
    unknown = read(Ledger(0.0), {"m/machine": Paid("A", None, 1800.0)}, 3600.0)
    assert (
        spent(iter(unknown.meters.values()), 5400.0) == (0.0, False) and hourly(iter(unknown.meters.values())) is None
    )


def test_cost_counts_hours_of_each_machine_and_what_is_paid_now(world: World) -> None:
    world.now += 7200
    world.stop("lab-b2s-1")
    world.now += 7200
    found = world.costs()
    assert found.since < EPOCH + 1000
    one, two, master = found.machines
    assert (one.name, one.state, two.state, master.state) == ("lab-b2s-1", "deallocated", "running", "running")
    assert one.hourly == pytest.approx(2.4 / 730) and two.hourly == pytest.approx(0.048 + 2.4 / 730)
    assert master.hourly == pytest.approx(0.048 + 2.4 / 730 + 0.005)
    assert 2.0 <= one.hours < 2.1 and 4.0 <= two.hours < 4.1
    assert one.spent == pytest.approx(one.hours * 0.048 + two.hours * 2.4 / 730, abs=0.001) and one.whole
    world.scale(**{B2S: 0})
    assert {each.name: each.state for each in world.costs().machines}["lab-b2s-1"] == "removed"
    total = sum(each.spent for each in world.costs().machines)
    world.delete()
    assert f"cluster lab: has cost about ${total:.2f} by list price" in "\n".join(world.said)


def test_what_was_turned_off_elsewhere_is_seen_by_cost(world: World) -> None:
    [machine] = [thing for thing in world.azure.of(VM) if thing.name == "lab-b2s-1"]
    machine.power = "deallocated"
    assert world.costs().machines[0].hourly == pytest.approx(2.4 / 730)
    machine.power = "stopped"
    assert world.costs().machines[0].hourly == pytest.approx(0.048 + 2.4 / 730), "stopped inside is paid"


def test_without_list_prices_hours_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.fault = lambda method, url, go: reply(500) if "prices.azure" in url else go()
    world.create()
    world.now += 3600
    [master] = world.costs().machines
    assert (master.hourly, master.whole) == (None, False) and master.hours >= 1
    world.fault = lambda method, url, go: go()
    world.now += 3600
    assert world.costs().machines[0].hourly is not None, "prices are asked for again"


# ---------------------------------------------------------------------- nat


def test_a_gateway_is_made_priced_used_by_nodes_and_removed(tmp_path: Path) -> None:
    world = World(tmp_path)
    text = "\n".join(world.plan(**GATEWAY))
    assert (
        "NAT gateway lab-nat: is made" in text and "quota Quota PublicIPAddresses: 3 of 3 are left; 1 after it" in text
    )
    assert "NAT gateway: $0.0450/hour, $32.85/month, and its address $0.0050/hour, $3.65/month" in text
    world.create(**GATEWAY)
    before = world.changes
    world.create(**GATEWAY)
    assert world.changes == before and len(world.azure.of(NAT)) == 1 and len(world.azure.of(IP)) == 2
    assert world.azure.of(ROUTES) == []
    gateway = next(one for one in world.costs().machines if one.name == "gateway")
    assert (gateway.state, gateway.hourly) == ("exists", pytest.approx(0.05))
    with pytest.raises(GrassError, match=r"network\.nat: was gateway when the network was made, and stays so"):
        world.create()
    world.delete()
    assert world.azure.empty()


def test_a_gateway_needs_a_second_address(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.azure.limits["PublicIPAddresses"] = 1
    with pytest.raises(InputError, match=r"1 public address is left of 1 .* and 2 are needed \(`network.nat: master`"):
        world.create(**GATEWAY)
    world.create()
    with pytest.raises(GrassError, match=r"network\.nat: was master when the network was made"):
        world.create(**GATEWAY)
