"""`grass autoscale` over the double of Azure: machines are started, made and stopped by what waits and what is idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from grass.azure.autoscale import Need
from grass.errors import ConflictError, InputError, ManifestError, NotAllowedError, UnreachableError
from grass.manifest.azure_autoscale import Autoscale, Rule
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.provision.azure import autoscaler, nodes
from grass.provision.azure.autoscaler import AFTER_AN_ERROR, EVERY, Autoscaler, NodeNow
from grass.provision.azure.change import Member
from grass.provision.azure.kinds import kinds_of
from grass.provision.azure.lease import Lease
from grass.provision.provisioner import ScaleRequest
from grass.wire.cloud import CloudView
from tests.doubles.azure_arm import VM
from tests.support.azure_world import World, settings

B2S, B2MS = "Standard_B2s", "Standard_B2ms"
CORE = Resources(cpu=1000, memory=1 << 30)


@dataclass
class Scaling:
    """An autoscaler over ``world``. ``waiting``: tasks of one core each that no node has room for."""

    world: World
    rules: tuple[Rule, ...]
    most: float | None = None
    waiting: int = 0
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = self.world
        policy = Autoscale(self.rules, self.most)
        port = autoscaler.World(
            machines=lambda: nodes.record_of(world.session).nodes("lab"),
            nodes=lambda: {name: NodeNow(each.state, each.tasks, True, None) for name, each in world.members.items()},
            needs=lambda: [Need("job train", CORE, self.waiting)] if self.waiting else [],
            costs=world.costs,
            start=lambda names: list(world.start(*names).values()),
            stop=lambda names: list(world.stop(*names).values()),
            scale=lambda rule, total: nodes.scale(
                world.session, world.edges, ScaleRequest({rule.size: total}, spot=rule.spot), world._cluster()
            ),
            say=self.said.append,
            steady=lambda: world.now,
            wall=world.edges.wall,
        )
        self.scaler = Autoscaler(policy, kinds_of(world.session, world.edges, policy), port, world.session.folder)

    def look(self, later: float = EVERY) -> None:
        self.scaler.look()
        self.world.now += later

    def power(self) -> dict[str, str]:
        return {thing.name: thing.power for thing in self.world.azure.of(VM) if thing.name != "lab-master"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.azure.limits |= {"cores": 20, "standardBSFamily": 20}
    world.create()
    return world


def test_from_nothing_to_what_waits_and_back_to_nothing_that_is_on(world: World) -> None:
    scaling = Scaling(world, (Rule(B2S, 3, idle=600.0),))
    scaling.look()
    assert scaling.power() == {}
    scaling.waiting = 3
    scaling.look()
    assert scaling.power() == {"lab-b2s-1": "running", "lab-b2s-2": "running"}
    scaling.waiting = 0
    world.members = {"lab-b2s-1": Member(NodeState.READY, 2), "lab-b2s-2": Member(NodeState.READY)}
    scaling.look(700.0)
    scaling.look()
    assert scaling.power() == {"lab-b2s-1": "running", "lab-b2s-2": "deallocated"}, "the busy one stays"
    world.members["lab-b2s-1"] = Member(NodeState.READY)
    scaling.look(700.0)
    scaling.look()
    assert set(scaling.power().values()) == {"deallocated"}
    scaling.waiting = 1
    scaling.look()
    assert sorted(scaling.power().values()) == ["deallocated", "running"], "started again, and none made"
    assert scaling.said[-1].endswith(": starts, as job train waits")


def test_without_capacity_the_next_size_is_taken_and_the_first_is_tried_again_later(world: World) -> None:
    scaling = Scaling(world, (Rule(B2S, 1), Rule(B2MS, 1)))
    scaling.waiting = 1
    world.azure.without_capacity = {(B2S, zone) for zone in (None, "1", "2", "3")}
    scaling.look()
    assert scaling.power() == {} and any("AllocationFailed" in line for line in scaling.said)
    scaling.look()
    assert scaling.power() == {"lab-b2ms-1": "running"}
    world.azure.without_capacity = set()
    scaling.look()
    assert list(scaling.power()) == ["lab-b2ms-1"], "not before the cooldown"
    scaling.look(600.0)
    scaling.look()
    assert set(scaling.power()) == {"lab-b2ms-1", "lab-b2s-1"}


def test_a_quota_is_said_and_tried_again_later(world: World) -> None:
    world.azure.limits["cores"] = 2
    scaling = Scaling(world, (Rule(B2S, 3),), waiting=1)
    scaling.look()
    scaling.look()
    assert scaling.power() == {} and sum("but 0 of 2 are left" in line for line in scaling.said) == 1


def test_the_days_money_is_counted_from_midnight(world: World) -> None:
    scaling = Scaling(world, (Rule(B2S, 3),), most=1.0, waiting=1)
    world.now += 15.8 * 3600  # shortly before midnight
    scaling.look()
    assert len(scaling.power()) == 1, "what was spent before it was seen does not count"
    world.now += 0.5 * 3600
    scaling.waiting = 3
    scaling.look()
    assert len(scaling.power()) == 3, "another day"
    world.now += 9 * 3600
    world.members = {name: Member(NodeState.READY) for name in world.members}
    scaling.waiting = 0
    scaling.look()
    assert set(scaling.power().values()) == {"deallocated"}, "idle nodes stop at once"
    scaling.waiting = 2
    scaling.look()
    assert set(scaling.power().values()) == {"deallocated"}
    assert scaling.said[-1] == "Standard_B2s: not started; today's limit of $1 is used up"


def test_a_stop_that_was_interrupted_goes_on(world: World) -> None:
    scaling = Scaling(world, (Rule(B2S, 3, idle=600.0),), waiting=1)
    scaling.look()
    scaling.waiting = 0
    world.fault = lambda method, url, go: _cut() if "/deallocate" in url else go()
    scaling.look(700.0)
    scaling.look()
    assert "lab-b2s-1: not stopped: the connection was cut" in scaling.said[-1]
    assert world.members["lab-b2s-1"].state is NodeState.DRAINED
    world.fault = lambda method, url, go: go()
    scaling.look()
    assert scaling.power() == {"lab-b2s-1": "deallocated"}


def mine(holder: str, seconds: float, problem: str) -> CloudView:
    return CloudView(holder=holder)


def test_it_waits_while_somebody_else_does_it(world: World) -> None:
    scaling, told = Scaling(world, (Rule(B2S, 1),), waiting=1), []

    def tell(holder: str, seconds: float, problem: str) -> CloudView:
        told.append(holder)
        return CloudView(holder="the master" if len(told) < 3 else holder)

    class EnoughError(Exception):
        pass

    def sleep(seconds: float) -> None:
        if len(told) == 3:
            raise EnoughError

    with pytest.raises(EnoughError):
        autoscaler.run(scaling.scaler, sleep, Lease("me", tell), once=False)
    waits = [line for line in scaling.said if line.startswith("the master starts and stops nodes by itself")]
    assert len(waits) == 1 and set(scaling.power()) == {"lab-b2s-1"}
    with pytest.raises(ConflictError, match="the master starts and stops nodes by itself; one does it at a time"):
        told.clear()
        autoscaler.run(scaling.scaler, sleep, Lease("me", tell), once=True)


def _cut() -> None:
    raise UnreachableError("the connection was cut")


def test_it_goes_on_after_an_error_and_ends_without_a_login(world: World) -> None:
    scaling, waits = Scaling(world, (Rule(B2S, 1),)), []
    errors: Sequence[Exception] = [UnreachableError("away"), NotAllowedError("nobody is signed in")]
    raised = iter(errors)

    def fail() -> None:
        raise next(raised)

    object.__setattr__(scaling.scaler.world, "machines", fail)
    with pytest.raises(NotAllowedError):
        autoscaler.run(scaling.scaler, waits.append, Lease("me", mine), once=False)
    assert waits == [AFTER_AN_ERROR] and scaling.said == ["away; looking again in 60 s"]


def test_a_size_that_azure_does_not_have_is_refused(world: World) -> None:
    with pytest.raises(InputError, match=r"autoscale.sizes.Standard_Nothing: Azure has no such size in westeurope"):
        Scaling(world, (Rule("Standard_Nothing", 1),))


def test_the_settings_are_read_with_their_defaults() -> None:
    text = "{most_per_day: 5, sizes: {D2s_v3: {max: 4}, Standard_B2s: {min: 1, max: 2, idle: 5m, spot: true}}}"
    assert settings(autoscale=yaml.safe_load(text)).autoscale == Autoscale(
        (Rule("Standard_D2s_v3", 4, 0, 900.0), Rule("Standard_B2s", 2, 1, 300.0, True)), 5.0, 300.0
    )
    assert settings().autoscale is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "autoscale.sizes: is missing; it says for each size at least `max`"),
        ("{sizes: {B2s: {}}}", "autoscale.sizes.B2s.max: is missing; it is the most nodes of this size"),
        ("{sizes: {B2s: {max: 1, min: 2}}}", r"autoscale.sizes.B2s.min: must be at most max \(1\), got 2"),
        ("{sizes: {B2s: {max: 1, idel: 5m}}}", "autoscale.sizes.B2s.idel: unknown key"),
        ("{most_per_day: 0, sizes: {B2s: {max: 1}}}", "autoscale.most_per_day: must be dollars a day, above 0"),
        ("{sizes: {'a b': {max: 1}}}", "must be a size such as Standard_D2s_v3, got"),
    ],
)
def test_bad_settings_are_refused_with_the_path(text: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem):
        settings(autoscale=yaml.safe_load(text))
