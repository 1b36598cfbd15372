"""The monitor's part over the real master-agent and planner: it grows, gives back, survives a kill, and files once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from grass.model.autoscale import Autoscale
from grass.model.job import Component, Job
from grass.model.resources import Resources
from grass.store.history_store import HistoryStore
from grass.store.previews import Previews
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.wire.codec import encode
from grass.wire.keys import AttemptKey
from grass.wire.operation_record import GRASS, OperationRecord, ScaleRule
from grass.wire.own_curves import INDEX, OwnCurve, OwnIndex, field
from master.autoscale.question import one_more_unit
from master.monitor.autoscaler import EVERY, Autoscaler
from tests.bench.autoscale import POLICIES, Cluster, drawn
from tests.support.world import World


class Elastic:
    """A cluster of eight cores with a job of one to six tasks, and the monitor's part that watches it."""

    def __init__(self, **more: Any) -> None:
        self.world = World()
        self.world.compares = False
        for name in ("n1", "n2"):
            self.world.add_node(name, cpu=4)
        keys: dict[str, Any] = {"min": 2, "max": 6, "unit": 2, "replicas": 2, "autoscale": Autoscale(cooldown=60.0)}
        self.job = Job("train", {"w": Component("w", "x", resources=Resources(1000), **(keys | more))}, ("w",))
        self.world.submit(self.job)
        self.records = Records(self.world.backend, self.world.keys)
        self.monitor = self.started()

    def started(self) -> Autoscaler:
        backend, keys = self.world.backend, self.world.keys
        history = HistoryStore(backend, keys)
        return Autoscaler(
            self.records, history, Tickets(backend, keys), Previews(backend, keys), lambda: self.world.wall
        )

    def run(self, seconds: float, kills: bool = False) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            if kills:
                self.monitor = self.started()
            self.monitor.turn()
            self.world.advance(EVERY, EVERY)

    def urgent(self, cpu: int, replicas: int = 1) -> str:
        part = Component("main", "x", replicas=replicas, resources=Resources(cpu))
        return self.world.submit(Job("urgent", {"main": part}, ("main",), priority=5))

    @property
    def size(self) -> int:
        record = self.records.run("train-1")
        assert record is not None
        return record.components["w"].replicas

    def operations(self) -> list[OperationRecord]:
        return self.records.operations("train-1")


def test_it_grows_on_idle_machines_until_its_largest_size() -> None:
    elastic = Elastic()
    elastic.run(55)
    assert elastic.size == 2
    elastic.run(220)
    assert elastic.size == 6
    filed = elastic.operations()
    assert [(each.rule, each.from_size, each.to_size, each.author) for each in filed] == [
        (ScaleRule.GROW, 2, 4, GRASS),
        (ScaleRule.GROW, 4, 6, GRASS),
    ]
    assert filed[1].filed - (filed[0].ended or 0.0) >= 60


def test_without_room_or_without_the_key_it_stays() -> None:
    full = Elastic()
    full.world.submit(Job("other", {"o": Component("o", "x", replicas=5, resources=Resources(1000))}, ("o",)))
    full.run(150)
    plain = Elastic(autoscale=None)
    plain.run(150)
    assert (full.operations(), plain.operations()) == ([], [])


def test_it_gives_back_what_a_job_of_higher_priority_lacks_and_grows_again_after_it() -> None:
    elastic = Elastic()
    elastic.run(220)
    urgent = elastic.urgent(3000)
    elastic.run(15)
    assert elastic.operations()[-1].rule is ScaleRule.GIVE_BACK
    assert [key for key in elastic.world.running() if key.startswith(urgent)]
    given = elastic.size
    elastic.run(120)
    assert (given, elastic.size) == (4, 4)  # what is left is too little for another unit
    elastic.world.end(f"{urgent}/main.0/1")
    elastic.run(220)
    assert elastic.size == 6


def test_a_monitor_that_is_killed_after_each_decision_gives_back_once() -> None:
    elastic = Elastic()
    elastic.run(220)
    elastic.urgent(3000)
    elastic.run(60, kills=True)
    steps = [(each.from_size, each.to_size) for each in elastic.operations()]
    assert [each.rule for each in elastic.operations()].count(ScaleRule.GIVE_BACK) == 1
    assert all(one[1] == two[0] for one, two in pairwise(steps))


def test_a_ticket_that_is_filed_again_is_one_operation() -> None:
    elastic = Elastic()
    elastic.run(220)
    elastic.urgent(3000)
    elastic.monitor.turn()
    elastic.started().turn()  # the first was killed; the master-agent has taken nothing yet
    tickets = elastic.world.backend.stream(elastic.world.keys.tickets, "0", 100_000)
    assert sum('"give-back"' in fields["body"] for _, fields in tickets) == 2
    elastic.run(30)
    assert [each.rule for each in elastic.operations()].count(ScaleRule.GIVE_BACK) == 1


def test_a_growth_that_gains_nothing_is_undone_and_not_tried_again() -> None:
    elastic = Elastic()
    curve, history = OwnCurve(), elastic.world.keys.job_history("train-1")
    for _ in range(200):
        for second in range(int(EVERY)):
            curve.add(curve.seen, 0.5, elastic.world.wall + second)
        elastic.world.backend.apply(
            [
                ("HSET", history, INDEX, encode(OwnIndex([("w.0", "loss")]))),
                ("HSET", history, field("w.0", "loss"), curve.pack()),
            ]
        )
        elastic.run(EVERY)
    rules = [(each.rule, each.from_size, each.to_size) for each in elastic.operations()]
    assert rules == [(ScaleRule.GROW, 2, 4), (ScaleRule.UNDO, 4, 2)]
    assert elastic.operations()[1].reason == "2 tasks made 1 steps/s, 4 make 1 steps/s: 0% of a linear gain"


@pytest.mark.parametrize("unit", [1, 2])
def test_the_planner_is_asked_for_a_unit_alone(unit: int) -> None:
    asked = one_more_unit(Elastic(unit=unit).job, "w")
    part = asked.components["w"]
    assert (part.replicas, part.min, part.max, part.autoscale, asked.priority) == (unit, None, None, None, 0)
    assert asked.gang == (("w",) if unit > 1 else ())


def test_attempts_go_on_while_the_size_changes() -> None:
    elastic = Elastic()
    elastic.run(220)
    elastic.urgent(3000)
    elastic.run(60)
    numbers = {AttemptKey.parse(key).attempt for key in elastic.world.running() if key.startswith("train-1/w.0/")}
    assert numbers == {1}


def test_over_a_trace_jobs_end_earlier_than_without_and_urgent_ones_wait_less_than_with_greed() -> None:
    traces = {policy: Cluster(16, drawn(16, 60, 0.7, 3), policy) for policy in POLICIES}
    waits, runs = {}, {}
    for policy, cluster in traces.items():
        cluster.run()
        assert len(cluster.ended) == 60 and all(job.least <= job.size <= job.most for job in cluster.ended)
        waits[policy] = sum(job.started - job.at for job in cluster.ended if job.priority)
        runs[policy] = sum(job.reports[-1].at - job.at for job in cluster.ended)
    assert runs["rules"] < 0.9 * runs["never"]
    assert waits["rules"] < waits["always"] / 2
    assert 0 < traces["rules"].restarts < traces["always"].restarts
