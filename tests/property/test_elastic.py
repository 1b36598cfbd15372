"""Random lives of elastic jobs: whatever happens, sizes stay within their bounds, and every operation ends."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grass.model.ending import Ending, JobRestart
from grass.model.framework import Framework, FrameworkName
from grass.model.job import Component, Condition, Job, Ready, Restart, RestartOn
from grass.model.lifecycle import JobState
from grass.model.resources import Resources
from grass.wire.keys import AttemptKey
from grass.wire.membership import Membership
from grass.wire.operation_record import OperationState
from master.agent.agenda import Agenda
from master.agent.recover import rebuild
from master.agent.step import Step
from tests.property.test_reactor import heal, restore
from tests.support.said import report
from tests.support.world import CALM, World

OFTEN = ["scale", "scale", "scale", "end", "ready", "ready", "advance", "advance"]
SELDOM = [
    "suspend",
    "resume",
    "restart",
    "replace",
    "cancel",
    "cut",
    "heal",
    "drain",
    "uncordon",
    "takeover",
    "drained",
]


class Fragile(World):
    """Its master-agent is killed after every commit that changed a record, and the next one rebuilds its memory from
    the store. Without a change, the next one would only do the same again."""

    fragile = False

    def round(self, step: Step | None = None) -> bool:
        step = step or self.step()
        before = self.records()
        busy = super().round(step)
        if self.fragile and (busy or self.records() != before):
            self.agenda = Agenda()
            self.cluster = rebuild(self.store.load(), self.agenda, self.now, self.boot, self.limits.usage_half_life)
            self.agenda.add(self.now, "nodes")
            self.agenda.add(self.now, "plan")
        return busy

    def records(self) -> list[dict[str, str]]:
        """Return what a memory is rebuilt from, without the desired state of nodes."""
        jobs = self.backend.hgetall(self.keys.jobs)
        of_jobs = [key(job_id) for job_id in jobs for key in (self.keys.tasks, self.keys.operations)]
        return [jobs, *map(self.backend.hgetall, [self.keys.nodes, *of_jobs])]


class Life:
    """One job with elastic components on four nodes. ``check`` runs after each event."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.world = Fragile(seed=seed)
        self.world.fragile = self.dice.random() < 0.5
        for number in range(1, 5):
            self.world.add_node(f"n{number}", cpu=2, path=["rack", f"s{number % 2}"])
        self.job = random_job(self.dice)
        self.job_id = self.world.submit(self.job)
        self.filed = 0
        self.seen: dict[tuple[str, int], Membership] = {}
        self.known: Counter[tuple[str, str]] = Counter()
        """Node and component → the generation that the node had last."""

    def anything(self) -> None:
        match event := self.dice.choice([*OFTEN * 2, *SELDOM]):
            case "scale":
                self.scale()
            case "suspend" | "resume" | "restart":
                self.file(event, **({} if event == "resume" else {"deadline": self.dice.choice([None, 0.0, 5.0])}))
            case "replace":
                task = f"{self.any_component().name}.{self.dice.randrange(6)}"
                self.file("replace", task=task, deadline=self.dice.choice([None, 0.0, 5.0, 60.0]))
            case "cancel":
                self.world.ticket("operation-cancel", job_id=self.job_id, id=f"o{self.dice.randint(1, self.filed + 1)}")
            case "end" | "ready" | "drained":
                self.attempt(event)
            case _:
                self.cluster(event)

    def any_component(self) -> Component:
        return self.dice.choice(list(self.job.components.values()))

    def scale(self) -> None:
        component = self.any_component()
        body: dict[str, Any] = {"component": component.name, "deadline": self.dice.choice([None, 0.0, 5.0, 60.0])}
        body["partial"] = self.dice.random() < 0.4
        match self.dice.randrange(3):
            case 0:
                body["size"] = self.dice.randint(-1, 10)
            case 1:
                body["delta"] = self.dice.randint(-4, 4)
            case _:
                body["remove"] = sorted({f"{component.name}.{self.dice.randrange(6)}" for _ in range(component.unit)})
        self.file("scale", **body)

    def file(self, kind: str, **body: Any) -> None:
        self.filed += 1
        self.world.ticket(kind, job_id=self.job_id, id=f"o{self.filed}", **body)

    def attempt(self, event: str) -> None:
        nodes = [node for node in self.world.nodes.values() if node.running and node.connected]
        if not nodes:
            return
        node = self.dice.choice(nodes)
        key = self.dice.choice(sorted(node.running))
        if event == "end":
            self.world.end(key, code=self.dice.choice([0, 1, 1, 137]))
            return
        node.store.report([report("tasks", {"events": [{"key": key, "event": event}]})])
        self.world.run()

    def cluster(self, event: str) -> None:
        node = self.dice.choice(list(self.world.nodes.values()))
        match event:
            case "advance":
                self.world.advance(self.dice.choice([1.0, 6.0, 40.0, 330.0]))
            case "cut":
                node.connected = False
            case "heal":
                heal(self.world)
            case "drain":
                self.world.ticket("node-drain", node=node.name, deadline=self.dice.choice([0.0, 30.0]))
            case "uncordon":
                self.world.ticket("node-uncordon", node=node.name)
            case "takeover":
                self.world.takeover()

    @property
    def state(self) -> JobState:
        return JobState(self.world.job("j")["state"])

    def check(self) -> None:
        view = self.world.job("j")
        for name, spec in self.job.components.items():
            part = view["components"][name]
            assert (spec.min or 1) <= part["replicas"] <= (spec.max or 10)
            assert part["replicas"] % spec.unit == 0
            scalings = [each for each in self.world.api.operations(self.job_id) if each.component == name]
            if part["joining"]:  # size and outcome agree: new tasks that are not members have their operation
                assert any(each.unfinished and each.added for each in scalings), (part, scalings)
        running = (
            AttemptKey.parse(key) for node in self.world.nodes.values() if node.connected for key in node.running
        )
        twice = [key for key, count in Counter(key.task for key in running).items() if count > 1]
        assert not twice, f"two live attempts of {twice}"
        for node in self.world.nodes.values():
            for name in self.job.components:
                if (membership := node.membership.get(f"{self.job_id}/{name}")) is not None:
                    self.check_membership(name, membership)
                    assert membership.generation >= self.known[node.name, name], "an old generation came again"
                    self.known[node.name, name] = membership.generation

    def check_planned(self) -> None:
        """Fail if another plan would change anything: then one was forgotten."""
        before = self.planned()
        self.world.plan_again()
        assert self.planned() == before

    def planned(self) -> tuple[object, ...]:
        view, operations = self.world.job("j"), self.world.api.operations(self.job_id)
        return view["counts"], self.world.running(), [(each.id, each.state) for each in operations]

    def check_membership(self, name: str, membership: Membership) -> None:
        known = self.seen.setdefault((name, membership.generation), membership)
        assert known.members == membership.members, f"generation {membership.generation} has two lists of members"
        assert [member.rank for member in membership.members] == list(range(len(membership.members)))
        assert len({member.task for member in membership.members}) == len(membership.members)
        paths = [self.world.nodes[member.node].about["path"] for member in membership.members]
        assert paths == sorted(paths)


def random_job(dice: random.Random) -> Job:
    """Return a job of one or two components, maybe a gang, that may start again as a whole after a failure."""
    names = dice.choice([("w",), ("w", "v")])
    components = {name: random_component(dice, name) for name in names}
    gang = names if dice.random() < 0.3 else ()
    if len(names) > 1 and not gang and dice.random() < 0.3:
        condition = dice.choice([Condition.RUNNING, Condition.READY])
        components["v"] = replace(components["v"], depends_on={"w": condition})
    ending = Ending(restart=JobRestart(dice.choice([0, 2, 1000]), dice.choice([0.0, 5.0])))
    return Job("j", components, names, timeout=None, gang=gang, ending=ending)


def random_component(dice: random.Random, name: str) -> Component:
    unit = dice.choice([1, 1, 2])
    least = dice.choice([None, unit, 2 * unit])
    return Component(
        name,
        "x",
        replicas=2 * unit,
        min=least,
        max=4 * unit,
        unit=unit,
        resources=Resources(1000),
        ports=("p",),
        ready=dice.choice([None, Ready(port="p")]),
        restart=Restart(RestartOn.ON_FAILURE, dice.choice([None, 0, 1]), 1.0),
        framework=dice.choice([None, Framework(FrameworkName.TORCHRUN)]),
        grace=1.0,
    )


@settings(max_examples=100 if settings.get_current_profile_name() == "new" else 5, deadline=None)
@given(st.integers(0, 2**32))
def test_sizes_stay_within_bounds_and_every_operation_ends(seed: int) -> None:
    life = Life(seed)
    for _ in range(15):
        if life.state.ended:
            break
        with life.world.one_round():
            for _ in range(life.dice.choice([1, 1, 2, 4])):
                life.anything()
        life.check()
        life.check_planned()
    restore(life.world)
    life.world.advance(400, CALM)
    life.check()
    for each in life.world.api.operations(life.job_id):
        if each.unfinished and each.state is not OperationState.WAITING:  # what has begun goes on for a limited time
            assert each.deadline is not None and each.deadline.at > life.world.now, each
    life.world.ticket("stop", id=life.job_id)
    life.world.advance(5)
    assert life.state.ended
    assert not [each for each in life.world.api.operations(life.job_id) if each.unfinished]
    assert not life.world.running()
