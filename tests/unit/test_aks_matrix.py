"""Every request of `grass create`, `delete`, `node scale`, `stop` and `start` of `mode: k8s/aks` × every fault.

The property, after any cut: `create` again works, and `delete` leaves nothing, and touches nothing that is not Grass's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grass.errors import GrassError
from grass.provision.provisioner import RunsAlreadyError
from tests.doubles.azure_aks import BALANCER, CLUSTER, REGISTRY
from tests.doubles.azure_arm import VM
from tests.support.aks_world import World
from tests.support.azure_matrix import NAMES, PARTS, PASSES, SOME_NAMES, faulted, run

KEPT = ("theirs", "somebody-elses-vm")


def new_world(home: Path) -> World:
    world = World(home)
    world.azure.add("group", "", KEPT[0], {"location": "westeurope"})
    world.azure.add(VM, KEPT[0], KEPT[1], {"properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v3"}}})
    return world


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def is_whole(world: World) -> bool:
    azure = world.azure
    there = [len(azure.of(type)) for type in (CLUSTER, REGISTRY, BALANCER)]
    return there == [1, 1, 1] and len(azure.groups) == 3 and len(world.aks.roles) <= 1 and len(world.joined) >= 1


def nothing_is_left(world: World) -> bool:
    azure = world.azure
    azure._advance()
    mine = [*world.aks.pools, *world.aks.roles]
    return not mine and list(azure.groups) == [KEPT[0]] and [each.name for each in azure.things.values()] == [KEPT[1]]


def without_rights(world: World) -> None:
    world.aks.may_assign = False
    world.create()


@PARTS
@NAMES
def test_after_a_fault_at_any_request_create_goes_on_or_delete_leaves_nothing(
    name: str, part: int, memory: Path
) -> None:
    for number, world, failed, where in faulted(new_world, name, World.create, part, memory):
        if name in PASSES:
            assert failed is None or "kubernetes.from" in str(failed), where
        if isinstance(failed, GrassError) and failed.exit_code == 2:
            assert nothing_is_left(world) and not world.session.folder.exists(), where
        if number % 2:
            assert run(world, World.create) is None, where
            assert is_whole(world), where
        if world.session.folder.exists():
            assert run(world, World.delete) is None, where
        assert nothing_is_left(world) and not world.session.folder.exists(), where


@PARTS
@SOME_NAMES
def test_after_a_fault_while_a_secret_stands_in_for_a_right_nothing_is_lost(name: str, part: int, memory: Path) -> None:
    for _, world, _, where in faulted(new_world, name, without_rights, part, memory):
        assert run(world, without_rights) is None and is_whole(world), where
        assert world.provided[-1][1].login and world.joined[-1].namespaces[0].pull_secrets, where
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
    all_made(world, D8s_v5=1, E4s_v5=1)


def shrink(world: World) -> None:
    all_made(world, D8s_v5=0, E4s_v5=1)


def all_made(world: World, **wanted: int) -> None:
    if failed := [str(one.error) for one in world.scale(**wanted).nodes]:
        raise GrassError("\n".join(failed))


def with_pools(world: World) -> None:
    world.create()
    grow(world)


@PARTS
@SOME_NAMES
@pytest.mark.parametrize(("act", "before", "left"), [(grow, World.create, 1), (shrink, with_pools, 0)])
def test_after_a_fault_at_any_request_of_scale_it_goes_on_or_delete_leaves_nothing(
    act: Callable[[World], object], before: Callable[[World], object], left: int, name: str, part: int, memory: Path
) -> None:
    for number, world, failed, where in faulted(new_world, name, act, part, memory, before):
        assert name not in PASSES or failed is None, where
        if number % 2:
            assert run(world, act) is None, where
            assert world.aks.counts() == {"system": 1, "d8sv5": left, "e4sv5": 1}, where
        assert run(world, World.delete) is None and nothing_is_left(world), where


def turn_on(world: World) -> None:
    try:
        world.start()
    except RunsAlreadyError:
        return


def stopped(world: World) -> None:
    with_pools(world)
    world.stop()


@PARTS
@SOME_NAMES
@pytest.mark.parametrize(
    ("act", "before", "power"), [(World.stop, with_pools, "Stopped"), (turn_on, stopped, "Running")]
)
def test_after_a_fault_at_any_request_of_stop_and_start_the_same_command_goes_on(
    act: Callable[[World], object], before: Callable[[World], object], power: str, name: str, part: int, memory: Path
) -> None:
    for number, world, failed, where in faulted(new_world, name, act, part, memory, before):
        assert name not in PASSES or failed is None, where
        assert run(world, act) is None, where
        assert world.aks.cluster().power == power and world.runs == (power == "Running"), where
        assert world.aks.counts() == {"system": 1, "d8sv5": 1, "e4sv5": 1}, where
        if number % 2:
            assert run(world, World.delete) is None and nothing_is_left(world), where
