"""Every request of `grass create`, `delete`, `node scale`, `stop` and `start` on Azure × every fault: what is left goes
on, or can be removed.

The property, after any cut: `create` again works, and `delete` leaves nothing, and touches nothing that is not Grass's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grass.errors import GrassError
from grass.model.lifecycle import NodeState
from grass.provision.provisioner import Powered, Scaled
from tests.doubles.azure_arm import IMAGE, IP, NIC, VM
from tests.support.azure_matrix import FAULTS, NAMES, PARTS, PASSES, SOME_NAMES, at, faulted, requests, run
from tests.support.azure_world import World

KEPT = ("theirs", "somebody-elses-vm")


def new_world(home: Path) -> World:
    world = World(home)
    world.azure.add("group", "", KEPT[0], {"location": "westeurope"})
    world.azure.add(VM, KEPT[0], KEPT[1], {"properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v3"}}})
    world.azure.limits["cores"] = 6
    return world


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder without a disk, on which hundreds of clusters would wait for it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def is_whole(world: World) -> bool:
    azure = world.azure
    mine = [thing for thing in azure.things.values() if thing.group == "grass-lab"]
    return len(mine) == 7 and [len(azure.of(type)) for type in (VM, NIC, IP)] == [2, 1, 1] and len(world.ready) >= 1


def nothing_is_left(world: World) -> bool:
    azure = world.azure
    azure._advance()
    return list(azure.groups) == [KEPT[0]] and [thing.name for thing in azure.things.values()] == [KEPT[1]]


@PARTS
@NAMES
def test_after_a_fault_at_any_request_create_goes_on_or_delete_leaves_nothing(
    name: str, part: int, memory: Path
) -> None:
    for number, world, failed, where in faulted(new_world, name, World.create, part, memory):
        if name in PASSES:
            assert failed is None or "ssh.from" in str(failed), where
        if isinstance(failed, GrassError) and failed.exit_code == 2:
            assert nothing_is_left(world) and not world.session.folder.exists(), where
        if number % 2:
            assert run(world, World.create) is None, where
            assert is_whole(world), where
        if world.session.folder.exists():
            assert run(world, World.delete) is None, where
        assert nothing_is_left(world) and not world.session.folder.exists(), where


@PARTS
@pytest.mark.parametrize("name", ["401", "quota", "killed after"])
def test_in_a_group_of_somebody_else_nothing_is_forgotten_after_a_fault(name: str, part: int, memory: Path) -> None:
    def create(world: World) -> None:
        world.create(cloud={"location": "westeurope", "resource_group": KEPT[0], "use_existing_group": True})

    for _, world, _, where in faulted(new_world, name, create, part, memory):
        if world.session.folder.exists():
            assert run(world, World.delete) is None, where
        assert nothing_is_left(world), where


@PARTS
@pytest.mark.parametrize("name", ["killed after", "cut after"])
def test_after_a_fault_while_a_machine_that_failed_is_replaced_nothing_is_doubled(
    name: str, part: int, memory: Path
) -> None:
    def create(world: World) -> None:
        world.azure.without_capacity = {("Standard_B2s", None)}
        world.create()

    for _, world, _, where in faulted(new_world, name, create, part, memory):
        assert run(world, create) is None and is_whole(world), where
        assert run(world, World.delete) is None and nothing_is_left(world), where


@PARTS
@NAMES
def test_after_a_fault_at_any_request_of_delete_the_same_command_removes_the_rest(
    name: str, part: int, memory: Path
) -> None:
    for _, world, failed, where in faulted(new_world, name, World.delete, part, memory, World.create):
        assert failed is None or world.session.folder.exists(), where
        assert name not in PASSES or failed is None, where
        if failed is not None:
            assert run(world, World.delete) is None, where
        assert nothing_is_left(world) and not world.session.folder.exists(), where


def grow(world: World) -> None:
    scale(world, 2)


def grow_spot(world: World) -> None:
    all_made(world.scale_spot({"Standard_B2s": 2}, or_regular=True))


def grow_gpus(world: World) -> None:
    all_made(world.scale(Standard_NC4as_T4_v3=2))


def shrink(world: World) -> None:
    scale(world, 1)


def scale(world: World, count: int) -> None:
    all_made(world.scale(Standard_B2s=count))


def all_made(found: Scaled) -> None:
    if failed := [str(one.error) for one in found.nodes if one.error is not None]:
        raise GrassError("\n".join(failed))


def with_a_master(world: World) -> None:
    world.azure.limits |= {"cores": 20, "standardBSFamily": 20}
    world.create()


def with_a_master_and_little_spot(world: World) -> None:
    with_a_master(world)
    world.azure.limits["lowPriorityCores"] = 2


def with_nodes(world: World) -> None:
    with_a_master(world)
    grow(world)


def turn_off(world: World) -> None:
    all_well(world.stop("lab-b2s-1", "lab-b2s-2"))


def turn_on(world: World) -> None:
    all_well(world.start("lab-b2s-1", "lab-b2s-2"))


def all_well(ended: dict[str, Powered]) -> None:
    if failed := [str(one.error) for one in ended.values() if one.error is not None]:
        raise GrassError("\n".join(failed))


def with_nodes_off(world: World) -> None:
    with_nodes(world)
    turn_off(world)


@PARTS
@SOME_NAMES
@pytest.mark.parametrize(
    ("act", "before", "power"), [(turn_off, with_nodes, "deallocated"), (turn_on, with_nodes_off, "running")]
)
def test_after_a_fault_at_any_request_of_stop_and_start_the_same_command_goes_on(
    act: Callable[[World], object], before: Callable[[World], object], power: str, name: str, part: int, memory: Path
) -> None:
    for number, world, failed, where in faulted(new_world, name, act, part, memory, before):
        assert name not in PASSES or failed is None, where
        assert run(world, act) is None, where
        nodes = [thing for thing in world.azure.of(VM) if "b2s" in thing.name]
        assert [thing.power for thing in nodes] == [power, power], where
        state = NodeState.STOPPED if power == "deallocated" else NodeState.READY
        assert {member.state for member in world.members.values()} == {state}, where
        if number % 2:
            assert run(world, World.delete) is None and nothing_is_left(world), where


@PARTS
@SOME_NAMES
@pytest.mark.parametrize(
    ("act", "before", "left"),
    [
        (grow, with_a_master, 2),
        (grow_gpus, with_a_master, 2),
        (shrink, with_nodes, 1),
        (grow_spot, with_a_master_and_little_spot, 2),
    ],
)
def test_after_a_fault_at_any_request_of_scale_it_goes_on_or_delete_leaves_nothing(
    act: Callable[[World], object], before: Callable[[World], object], left: int, name: str, part: int, memory: Path
) -> None:
    for number, world, failed, where in faulted(new_world, name, act, part, memory, before):
        assert name not in PASSES or failed is None, where
        if number % 2:
            assert run(world, act) is None, where
            nodes = [thing for thing in world.azure.of(VM) if thing.name.startswith(("lab-b2s", "lab-nc4as"))]
            assert len(nodes) == left == len(world.members), where
            assert [len(world.azure.of(type)) for type in (NIC, IP)] == [left + 1, 1], where
        assert run(world, World.delete) is None, where
        assert nothing_is_left(world) and not world.session.folder.exists(), where


@PARTS
@SOME_NAMES
def test_after_a_fault_at_any_request_of_an_image_the_same_command_builds_one_and_no_machine_stays(
    name: str, part: int, memory: Path
) -> None:
    for number in requests(new_world, memory / "whole", World.build_image, part, with_a_master):
        world = new_world(memory / str(number))
        with_a_master(world)
        at(world, number, FAULTS[name], for_good="killed" in name)
        failed = run(world, World.build_image)
        where = f"request {number}: {world.azure.asked[-1:]}: {failed}"
        assert name not in PASSES or failed is None, where
        assert run(world, World.build_image) is None, where
        assert [thing.name for thing in world.azure.of(VM) if thing.group == "grass-lab"] == ["lab-master"], where
        assert len(world.azure.of(NIC)) == 1 and world.azure.of(IMAGE), where
        if number % 2:
            assert run(world, World.delete) is None and nothing_is_left(world), where


def with_an_identity(world: World) -> None:
    world.create(autoscale={"on_master": True, "sizes": {"Standard_B2s": {"max": 1}}})


@PARTS
@SOME_NAMES
def test_after_a_fault_while_the_master_gets_an_identity_the_same_command_gives_it(
    name: str, part: int, memory: Path
) -> None:
    for number, world, failed, where in faulted(new_world, name, with_an_identity, part, memory, with_a_master):
        assert name not in PASSES or failed is None, where
        assert run(world, with_an_identity) is None, where
        [master] = [thing for thing in world.azure.of(VM) if thing.name == "lab-master"]
        assert master.body["identity"] == {"type": "SystemAssigned"} and world.autoscaler, where
        if number % 2:
            assert run(world, World.create) is None and world.autoscaler == "", where
            assert master.body["identity"] == {"type": "None"}, where
        assert run(world, World.delete) is None and nothing_is_left(world), where
