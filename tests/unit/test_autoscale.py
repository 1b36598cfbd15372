"""When a component grows by itself, when it gives machines back, and when a growth is undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import parse_job
from grass.manifest.native_writer import component_document
from grass.model.autoscale import Autoscale
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.wire.job_record import ComponentRecord, JobRecord
from grass.wire.node_record import NodeRecord
from grass.wire.operation_record import GRASS, OperationKind, OperationRecord, OperationState, Outcome, ScaleRule
from master.autoscale.rates import Point
from master.autoscale.rules import Act, Decision, Idle, Key, Subject, decide
from master.autoscale.waiting import Waiter, waiter, waits

NOW = 100_000.0
KEY = Key("train-1", "w")
IDLE = {KEY: Idle(True, since=NOW - 300)}
TRAIN = Subject(
    *("train-1", "train", "w", Autoscale()),
    size=2,
    least=2,
    most=8,
    unit=2,
    resources=Resources(1000),
    since=NOW - 7200,
)
URGENT = Waiter("urgent-1", "urgent", "main", 10, "bob", {"cpu": 3000})


def only(subject: Subject, waiters: Sequence[Waiter] = (), idle: Any = IDLE, now: float = NOW) -> Decision:
    [decision] = decide([subject], waiters, idle, now)
    return decision


def operation(few: int, many: int, at: float, rule: ScaleRule | None = ScaleRule.GROW, **more: Any) -> OperationRecord:
    done = {"state": OperationState.ENDED, "outcome": Outcome.DONE, "ended": at, "author": GRASS, "number": int(at)}
    about: dict[str, Any] = {"id": f"{int(at):08x}", "job_id": "train-1", "component": "w", "filed": at - 20.0}
    sizes = {"kind": OperationKind.SCALE, "from_size": few, "to_size": many, "rule": rule}
    return OperationRecord(**{**about, **sizes, **done, **more})


def steps(rate: float, since: float, until: float, first: float = 0.0, every: float = 10.0) -> list[Point]:
    count = int((until - since) / every)
    return [Point(since + index * every, first + rate * index * every) for index in range(count)]


def grown(before: float, after: float, tasks: int = 1, ago: float = 900.0) -> Subject:
    """Return a component that grew from 2 to 4 tasks, with steps per second of each of the tasks that report."""
    at = NOW - ago
    reports = {
        f"w.{index}": [*steps(before, at - 1000, at), *steps(after, at + 20, NOW, before * 1000)]
        for index in range(tasks)
    }
    return replace(TRAIN, size=4, operations=(operation(2, 4, at),), reports=reports)


def test_it_grows_by_a_unit_once_machines_have_been_idle_and_nothing_waits() -> None:
    grows = only(TRAIN)
    assert (grows.act, grows.size, grows.rule) == (Act.SCALE, 4, ScaleRule.GROW)
    assert grows.why == "resources for 2 more have been idle"
    assert len(grows.id) == 8 and set(grows.id) <= set("0123456789abcdef")


@pytest.mark.parametrize(
    ("subject", "waiters", "idle", "act", "why"),
    [
        (TRAIN, (), {}, Act.ASK, "asks the planner whether 2 more fit"),
        (TRAIN, (), {KEY: Idle(False, "n1: 1 cpu short")}, Act.KEEP, "2 more do not fit now: n1: 1 cpu short"),
        (TRAIN, (), {KEY: Idle(True, since=NOW - 299)}, Act.KEEP, "2 more fit; grows once they have fitted for 5m"),
        (TRAIN, (), {KEY: Idle(True)}, Act.KEEP, "2 more fit; grows once they have fitted for 5m"),
        (TRAIN, (replace(URGENT, priority=0),), IDLE, Act.KEEP, "a job of priority 0 waits for resources"),
        (replace(TRAIN, size=8), (), IDLE, Act.KEEP, "has its largest size (`max` is 8)"),
        (replace(TRAIN, most=3), (), IDLE, Act.KEEP, "has its largest size (`max` is 3)"),
        (replace(TRAIN, runs=False), (), IDLE, Act.KEEP, "not all of its tasks run"),
        (replace(TRAIN, since=NOW - 540), (), IDLE, Act.KEEP, "grows in 1m at the earliest: its size stays for 10m"),
    ],
)
def test_it_stays_as_it_is_and_says_why(
    subject: Subject, waiters: Sequence[Waiter], idle: dict[Key, Idle], act: Act, why: str
) -> None:
    decision = only(subject, waiters, idle)
    assert (decision.act, decision.size, decision.rule) == (act, subject.size, None)
    assert why in decision.why


@pytest.mark.parametrize(("lacks", "size"), [({"cpu": 1000}, 6), ({"cpu": 3000}, 4), ({"cpu": 90_000}, 2)])
def test_it_gives_back_as_many_units_as_a_job_of_higher_priority_lacks(lacks: dict[str, int], size: int) -> None:
    back = only(replace(TRAIN, size=8), [replace(URGENT, lacks=lacks)])
    assert (back.act, back.rule, back.size) == (Act.SCALE, ScaleRule.GIVE_BACK, size)
    assert back.why == "a job of priority 10 waits for resources"


@pytest.mark.parametrize(
    "changed",
    [
        {"priority": 0},
        {"lacks": {"gpu": 1000}},
        {"lacks": {}},
        {"nodes": frozenset({"n9"})},
    ],
)
def test_it_gives_nothing_back_where_that_helps_nobody_of_higher_priority(changed: dict[str, Any]) -> None:
    large = replace(TRAIN, size=8, nodes=frozenset({"n1"}))
    assert only(large, [URGENT]).rule is ScaleRule.GIVE_BACK
    assert only(large, [replace(URGENT, **changed)]).act is Act.KEEP
    assert only(replace(TRAIN, size=2), [URGENT]).act is Act.KEEP


def test_of_several_the_one_of_lowest_priority_gives_back_first_and_not_more_than_is_missing() -> None:
    low, high = replace(TRAIN, size=4, job_id="a-1"), replace(TRAIN, size=8, priority=5, job_id="b-1")
    decisions = decide([high, low], [replace(URGENT, lacks={"cpu": 4000})], {}, NOW)
    assert [each.size for each in decisions] == [6, 2]
    assert [each.size for each in decide([high, low], [replace(URGENT, lacks={"cpu": 2000})], {}, NOW)] == [8, 2]


def test_what_leaves_already_is_not_given_back_twice() -> None:
    leaving = operation(8, 6, NOW, ScaleRule.GIVE_BACK, state=OperationState.DRAINING, outcome=None, ended=None)
    first, second = replace(TRAIN, size=6, operations=(leaving,)), replace(TRAIN, size=8, job_id="b-1", priority=1)
    decisions = decide([first, second], [replace(URGENT, lacks={"cpu": 2000})], {}, NOW)
    assert [each.act for each in decisions] == [Act.KEEP, Act.KEEP]
    assert decisions[0].why == f"operation {leaving.id} (scale) is not complete"


@pytest.mark.parametrize(
    ("state", "act"), [(OperationState.RESERVING, Act.CANCEL), (OperationState.STARTING, Act.CANCEL)]
)
def test_a_growth_that_is_not_complete_is_cancelled_for_a_job_of_higher_priority(
    state: OperationState, act: Act
) -> None:
    growth = operation(2, 4, NOW, state=state, outcome=None, ended=None)
    decision = only(replace(TRAIN, size=4, operations=(growth,)), [URGENT])
    assert (decision.act, decision.id) == (act, growth.id)
    own = replace(TRAIN, size=4, operations=(operation(2, 4, NOW, None, state=state, outcome=None, ended=None),))
    assert only(own, [URGENT]).act is Act.KEEP  # a user filed it


def test_one_component_grows_at_a_time_and_none_while_another_waits_for_its_resources() -> None:
    other = replace(TRAIN, job_id="b-1", priority=1)
    idle = {**IDLE, other.key: IDLE[KEY]}
    assert [each.act for each in decide([TRAIN, other], (), idle, NOW)] == [Act.KEEP, Act.SCALE]
    for state, act in ((OperationState.RESERVING, Act.KEEP), (OperationState.STARTING, Act.SCALE)):
        growth = operation(2, 4, NOW, state=state, outcome=None, ended=None)
        grows = replace(TRAIN, size=4, operations=(growth,))
        assert [each.act for each in decide([grows, other], (), idle, NOW)] == [Act.KEEP, act]


@pytest.mark.parametrize(
    ("subject", "undone"),
    [
        (grown(1.0, 2.0), False),  # one task reports for all: twice as many steps are a linear gain
        (grown(1.0, 1.6), False),
        (grown(1.0, 1.4), True),
        (grown(1.0, 0.8), True),
    ],
)
def test_a_growth_under_half_of_a_linear_gain_is_undone(subject: Subject, undone: bool) -> None:
    decision = only(subject)
    assert (decision.rule is ScaleRule.UNDO, decision.size) == ((True, 2) if undone else (False, 6))
    if undone:
        assert decision.why.startswith("2 tasks made 1 steps/s, 4 make ")


def test_steps_of_all_tasks_are_added_and_throughput_goes_before_steps() -> None:
    at = NOW - 900
    both = grown(1.0, 1.0, 2)
    late = {f"w.{index}": steps(1.0, at + 20, NOW) for index in (2, 3)}
    assert only(replace(both, reports={**both.reports, **late})).rule is ScaleRule.GROW
    assert "measures what 4 tasks gain over 2" in only(both).why  # of two, nothing is known yet
    flat = [Point(at - 500 + 10 * index, index, 50.0 if index < 50 else 60.0) for index in range(140)]
    decision = only(replace(both, reports={"w.0": flat}))
    assert (decision.rule, decision.size) == (ScaleRule.UNDO, 2)
    assert decision.why == "2 tasks made 50 throughput/s, 4 make 60 throughput/s: 20% of a linear gain"


def test_a_task_that_was_alone_may_report_for_itself_or_for_all() -> None:
    at = NOW - 900
    alone = {"w.0": [*steps(1.0, at - 1000, at), *steps(1.0, at + 20, NOW, 1000)]}
    two = replace(TRAIN, size=2, least=1, unit=1, operations=(operation(1, 2, at),), reports=alone)
    assert only(two).rule is ScaleRule.UNDO
    started = {**alone, "w.1": steps(1.0, NOW - 60, NOW)}
    assert "measures what 2 tasks gain" in only(replace(two, reports=started)).why
    both = {**alone, "w.1": steps(1.0, at + 20, NOW)}
    assert only(replace(two, reports=both)).rule is ScaleRule.GROW


def test_without_enough_reports_a_growth_is_neither_judged_nor_followed_by_another() -> None:
    assert "measures what 4 tasks gain" in only(grown(1.0, 0.1, ago=300)).why
    silent = replace(TRAIN, reports={"w.0": steps(1.0, NOW - 9000, NOW - 8000)})
    assert only(silent).why == "measures its present speed, before it grows"
    assert only(replace(silent, policy=Autoscale(gain=0.0))).rule is ScaleRule.GROW


def test_a_slow_step_is_waited_for() -> None:
    at = NOW - 4000
    reports = {"w.0": [*steps(0.001, at - 9000, at, every=1000.0), *steps(0.001, at + 100, at + 2100, 9.0, 1000.0)]}
    slow = replace(TRAIN, since=NOW - 90_000, size=4, operations=(operation(2, 4, at),), reports=reports)
    assert "measures what 4 tasks gain" in only(slow).why
    reports["w.0"].append(Point(at + 2100, 11.0))
    assert only(replace(slow, reports=reports)).rule is ScaleRule.UNDO


def test_what_gained_too_little_is_remembered_and_smaller_sizes_are_tried() -> None:
    undo = operation(6, 4, NOW - 5000, ScaleRule.UNDO, reason="6 tasks make 1 steps/s")
    four = only(replace(TRAIN, size=4, operations=(operation(4, 6, NOW - 6000), undo)))
    assert (four.act, four.why) == (Act.KEEP, "6 tasks gained too little before (6 tasks make 1 steps/s)")
    assert only(replace(TRAIN, size=2, operations=(undo,))).rule is ScaleRule.GROW


@pytest.mark.parametrize(("failures", "wait"), [(1, 1200), (2, 2400), (9, 600 * 64)])
def test_after_growths_that_do_not_succeed_it_waits_longer(failures: int, wait: float) -> None:
    failed = [operation(2, 4, NOW - wait, outcome=Outcome.TIMED_OUT) for _ in range(failures)]
    subject = replace(TRAIN, since=0.0, operations=tuple(failed))
    assert "did not succeed" in only(subject, now=NOW - 1).why
    assert only(subject).rule is ScaleRule.GROW


def test_a_growth_cancelled_for_others_makes_the_next_one_wait_no_longer() -> None:
    subject = replace(TRAIN, operations=(operation(2, 4, NOW - 600, outcome=Outcome.CANCELLED),))
    assert only(subject).rule is ScaleRule.GROW


def test_a_user_s_scaling_starts_the_wait_and_is_not_judged() -> None:
    by_hand = operation(2, 4, NOW - 100, None, author="ann")
    assert "grows in 8m20s at the earliest" in only(replace(TRAIN, size=4, operations=(by_hand,))).why
    before = grown(1.0, 0.5)
    own = replace(before, operations=(operation(2, 4, NOW - 900, None, author="ann"),))
    assert only(own).rule is ScaleRule.GROW


def test_the_same_decision_has_the_same_id_until_an_operation_was_filed() -> None:
    assert only(TRAIN).id == only(TRAIN, now=NOW + 60).id
    others = [replace(TRAIN, filed=1), replace(TRAIN, job_id="train-2"), replace(TRAIN, size=4)]
    ids = {only(each, idle={each.key: IDLE[KEY]}).id for each in [TRAIN, *others]}
    assert len(ids) == 4


# --- what waits


def record(code: ReasonCode | None, pending: int = 3, joining: tuple[int, ...] = (), **details: Any) -> JobRecord:
    reason = None if code is None else Reason(code, "waits", details)  # type: ignore[arg-type]
    part = ComponentRecord(pending, {TaskState.PENDING: pending}, reason, joining=joining)
    return JobRecord(
        id="u-1", name="u", user="ann", state=JobState.QUEUED, submitted=1.0, components={"main": part}, priority=10
    )


@pytest.mark.parametrize(
    ("code", "counts"),
    [
        (ReasonCode.NO_FREE_RESOURCES, True),
        (ReasonCode.GANG, True),
        (ReasonCode.BEHIND, True),
        (ReasonCode.SUBMITTED, True),
        (ReasonCode.PREEMPTING, True),
        (ReasonCode.QUOTA, False),
        (ReasonCode.CONSTRAINTS, False),
        (ReasonCode.TOO_LARGE, False),
        (ReasonCode.AFTER, False),
        (ReasonCode.DEPENDS_ON, False),
        (None, False),
    ],
)
def test_only_tasks_that_would_take_free_resources_wait_for_them(code: ReasonCode | None, counts: bool) -> None:
    assert list(waits(record(code))) == (["main"] if counts else [])
    assert list(waits(record(code, pending=0))) == []


def test_a_gang_that_no_empty_cluster_holds_keeps_nobody_from_growing() -> None:
    assert list(waits(record(ReasonCode.GANG, capacity=2, count=3))) == []


def test_new_tasks_of_a_growth_and_jobs_that_are_held_do_not_count() -> None:
    assert list(waits(record(ReasonCode.GANG, joining=(2,)))) == []
    held = record(ReasonCode.NO_FREE_RESOURCES)
    assert (
        list(waits(JobRecord(**{name: getattr(held, name) for name in held.__struct_fields__} | {"held": "a"}))) == []
    )


def test_what_a_job_lacks_is_what_nodes_are_short_of_for_the_tasks_that_do_not_fit() -> None:
    part = Component("main", "x", replicas=3, resources=Resources(2000, 1 << 30))
    spec = Job("u", {"main": part}, ("main",))
    short = [{"count": 1, "why": "not enough cpu", "nearest": "n1", "resource": "cpu", "short": 500}]
    assert waiter(record(ReasonCode.NO_FREE_RESOURCES, nodes=short), "main", spec, ()).lacks == {"cpu": 4500}
    assert waiter(record(ReasonCode.GANG, nodes=[], fitting=2), "main", spec, ()).lacks == {
        "cpu": 2000,
        "memory": 1 << 30,
    }
    assert waiter(record(ReasonCode.PREEMPTING), "main", spec, ()).lacks == {}
    assert waiter(record(ReasonCode.GANG), "main", None, ()).lacks == {}


def test_a_job_waits_for_the_nodes_that_its_labels_allow() -> None:
    part = Component("main", "x", where={"zone": ("a", "b")}, avoid=("n3",))
    spec = Job("u", {"main": part}, ("main",))
    zones = {"n1": "a", "n2": "c", "n3": "b"}
    nodes = [NodeRecord(name=name, state=NodeState.READY, labels={"zone": zone}) for name, zone in zones.items()]
    assert waiter(record(ReasonCode.NO_FREE_RESOURCES), "main", spec, nodes).nodes == frozenset({"n1"})


# --- the job file


def component(**keys: Any) -> Component:
    return parse_job({"name": "j", "components": {"w": {"command": "x", **keys}}}).job.components["w"]


def test_autoscale_is_a_policy_or_a_mapping_and_is_written_as_it_was_read() -> None:
    assert component(min=1, max=4, autoscale="opportunistic").autoscale == Autoscale()
    made = component(min=1, max=4, autoscale={"cooldown": "2m", "gain": 0.8})
    assert made.autoscale == Autoscale(cooldown=120.0, gain=0.8)
    assert component_document(made)["autoscale"] == {"policy": "opportunistic", "cooldown": "2m", "gain": 0.8}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"max": 4, "autoscale": "opportunistic"}, "components.w.autoscale: needs `min` and `max`, between which the "),
        ({"max": 4, "autoscale": {}}, "missing: `min`"),
        ({"min": 1, "max": 4, "autoscale": "greedy"}, 'autoscale: must be one of opportunistic; got "greedy"'),
        ({"min": 1, "max": 4, "autoscale": {"policy": "x"}}, "components.w.autoscale.policy: must be one of"),
        ({"min": 1, "max": 4, "autoscale": {"gain": 2}}, "components.w.autoscale.gain: must be from 0"),
        ({"min": 1, "max": 4, "autoscale": {"cooldown": "0.1s"}}, "components.w.autoscale.cooldown: must be from 1s"),
        ({"min": 1, "max": 4, "autoscale": {"memory": 1}}, "components.w.autoscale.memory: unknown key"),
        ({"min": 1, "max": 4, "autoscale": 3}, "components.w.autoscale: must be a mapping"),
        ({"min": 1, "max": 2, "framework": "torch", "autoscale": "opportunistic"}, "cannot be combined with torch"),
        ({"matrix": {"A": [1, 2]}, "autoscale": "opportunistic"}, "components.w.autoscale: needs `min` and `max`"),
    ],
)
def test_what_cannot_scale_by_itself_is_refused_with_its_path(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ManifestError) as refused:
        component(**keys)
    assert said in str(refused.value)
