"""When a job has its result, how its components grow and shrink, and the records of both."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from msgspec import structs

from grass.model.ending import Clean, Ending, Enough
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.wire.gpu import GpuDevice
from grass.wire.job_record import ComponentRecord, CurrentOperation, JobRecord, Outcome, first_record
from grass.wire.moment import Moment
from grass.wire.node_record import DrainRecord, NodeRecord
from grass.wire.operation_record import GRASS, OperationKind, OperationRecord, OperationState
from grass.wire.task_record import TaskRecord
from grass.wire.usage import TaskTotals
from master.agent import job_end, sizing
from master.agent.agenda import Agenda
from master.agent.component_run import ComponentRun
from master.agent.node_run import DeviceRun, Drain, NodeRun
from master.agent.records import job_record, node_record
from master.agent.state import Cluster, JobRun
from master.agent.step import Limits, Step

NOW, WALL = 100.0, 1_000_000.0


def step(**more: Any) -> Step:
    return Step(Cluster(), Agenda(), Limits(), random.Random(1), NOW, WALL, "boot", **more)


def run_of(size: int = 3, ending: Ending | None = None, timeout: float | None = None, **of_part: Any) -> JobRun:
    part = Component("w", "x", replicas=size, **of_part)
    job = Job("j", {"w": part}, ("w",), ending=ending or Ending(), timeout=timeout)
    return JobRun.new(job, first_record(job, job_id="j-1", user="ann", now=5.0))


def with_states(run: JobRun, *states: TaskState) -> ComponentRun:
    part = run.components["w"]
    for index, state in enumerate(states):
        part.counts[TaskState.PENDING] -= 1
        part.counts[state] += 1
        part.tasks[index] = TaskRecord(state)
        part.next_index = index + 1
    return part


S, F, R, X = TaskState.SUCCEEDED, TaskState.FAILED, TaskState.RUNNING, TaskState.STOPPED


@pytest.mark.parametrize(
    ("rule", "states", "enough", "failed"),
    [
        (Enough.ALL, (S, S, S), True, False),
        (Enough.ALL, (S, S), False, False),
        (Enough.ALL, (S, F), False, True),
        (Enough.ANY, (R, S), True, False),
        (Enough.ANY, (R, F, F), False, False),
        (Enough.ANY, (F, F, X), False, True),
        (Enough.ANY, (X, X, X), False, False),
        (Enough.ANY, (F, F, S), True, False),
        (Enough.INDEX0, (S,), True, False),
        (Enough.INDEX0, (R, S, F), False, False),
        (Enough.INDEX0, (F, S), False, True),
        (Enough.INDEX0, (), False, False),
    ],
)
def test_a_component_has_its_result_by_its_rule(rule: Enough, states: Any, enough: bool, failed: bool) -> None:
    run = run_of(ending=Ending(enough={"w": rule}))
    part = with_states(run, *states)
    assert (job_end.enough(run, part), job_end.failed(run, part)) == (enough, failed)


def test_an_elastic_component_does_without_failed_tasks_while_enough_others_remain() -> None:
    run = run_of(4, min=2, max=4)
    part = with_states(run, F, S, F)
    assert (job_end.given_up(part), job_end.done_without(run, part), job_end.failed(run, part)) == (2, 2, False)
    part.counts[TaskState.PENDING] -= 1
    part.counts[S] += 1
    assert job_end.enough(run, part)
    part = with_states(run_of(4, min=2, max=4), F, F, F)
    assert (job_end.given_up(part), job_end.failed(run, part)) == (0, True)
    plain = run_of()
    assert job_end.done_without(plain, with_states(plain, F)) == 0
    lenient = run_of(ending=Ending(enough={"w": Enough.ANY}))
    assert job_end.done_without(lenient, with_states(lenient, F, F)) == 2


def test_new_tasks_count_for_the_result_once_they_are_members() -> None:
    run = run_of(3)
    part = with_states(run, S, S, S)
    part.joining = frozenset({2})
    assert job_end.enough(run, part)  # two of two members
    part.tasks[1].state = R
    part.counts[S] -= 1
    part.counts[R] += 1
    assert not job_end.enough(run, part)
    elastic = run_of(3, min=2, max=4)
    part = with_states(elastic, F, S, R)
    part.joining = frozenset({2})
    assert job_end.given_up(part) == 0


def test_time_limits_start_with_the_job_and_its_deadline_only_once() -> None:
    run, now = run_of(timeout=10.0, ending=Ending(deadline=30.0)), step()
    job_end.start_clock(now, run)
    assert (run.deadline, run.last_deadline) == (Moment(110.0, "boot"), Moment(130.0, "boot"))
    assert now.agenda.due(200.0) == [("deadline", "j-1", "", 0)] * 2
    assert job_end.must_end_by(run) == [110.0, 130.0] and job_end.time_limit(run) == 10.0
    again = step()
    again.now = 120.0
    job_end.start_clock(again, run)
    assert (run.deadline, run.last_deadline) == (Moment(130.0, "boot"), Moment(130.0, "boot"))
    assert again.agenda.due(200.0) == [("deadline", "j-1", "", 0)]
    free = run_of()
    job_end.start_clock(again, free)
    assert (free.deadline, free.last_deadline, job_end.must_end_by(free), job_end.time_limit(free)) == (
        None,
        None,
        [],
        None,
    )
    assert job_end.time_limit(run_of(ending=Ending(deadline=30.0))) == 30.0


@pytest.mark.parametrize(("at", "told"), [(109.9, None), (110.0, "time limit of 10 s"), (130.0, "deadline of 30 s")])
def test_a_job_is_told_which_limit_it_has_exceeded(at: float, told: str | None) -> None:
    run = run_of(timeout=10.0, ending=Ending(deadline=30.0))
    job_end.start_clock(step(), run)
    later = step()
    later.now = at
    reason = job_end.exceeded(later, run)
    assert (reason and (reason.code, reason.message)) == (told and (ReasonCode.TIMEOUT, f"exceeded its {told}"))
    assert job_end.exceeded(later, run_of()) is None


FAILED = Reason(ReasonCode.COMPONENT_FAILED, "w.0 failed")


@pytest.mark.parametrize(
    ("clean", "outcome", "go_on"),
    [
        (Clean.NONE, Outcome(JobState.SUCCEEDED, None, 0), True),
        (Clean.NONE, Outcome(JobState.FAILED, FAILED, 1), True),
        (Clean.NONE, Outcome(JobState.FAILED, Reason(ReasonCode.TIMEOUT, ""), 124), False),
        (Clean.NONE, Outcome(JobState.STOPPED, None, None), False),
        (Clean.NONE, None, False),
        (Clean.ALL, Outcome(JobState.SUCCEEDED, None, 0), False),
    ],
)
def test_tasks_go_on_after_the_result_only_if_the_job_says_so(
    clean: Clean, outcome: Outcome | None, go_on: bool
) -> None:
    run = run_of(ending=Ending(clean=clean))
    run.outcome = outcome
    assert job_end.lets_tasks_go_on(run) is go_on
    if outcome is not None:
        said = job_end.waiting_reason(run)
        text = f"{outcome.state.value.lower()}; tasks that still run go on, and the job ends with the last of them"
        assert said == (Reason(ReasonCode.JOB_ENDED, f"{text} (clean: none)") if go_on else outcome.reason)


def test_the_time_to_live_counts_from_the_result_and_logs_of_a_clean_job_go_soon() -> None:
    run = run_of(ending=Ending(ttl=50.0, clean=Clean.ALL))
    job_end.note_end(step(), run)
    assert (run.expires, run.logs_until) == (WALL + 50.0, WALL + job_end.LOGS_KEPT)
    run.expires = 7.0
    job_end.note_end(step(), run)
    assert run.expires == 7.0
    plain = run_of()
    job_end.note_end(step(), plain)
    assert (plain.expires, plain.logs_until) == (None, None) and not job_end.expired(step(), plain)
    for expires, over in ((WALL, True), (WALL + 0.1, False)):
        run.expires = expires
        assert job_end.expired(step(), run) is over


def test_logs_are_dropped_once_when_their_time_is_over() -> None:
    now, later, over = step(), run_of(), run_of()
    later.id, later.logs_until, over.logs_until = "j-2", WALL + 1, WALL
    now.cluster.jobs = {"j-1": over, "j-2": later, "j-3": run_of()}
    job_end.drop_logs(now)
    assert now.changes.logs_dropped == ["j-1"] and (over.logs_until, later.logs_until) == (None, WALL + 1)


# more and fewer tasks


def part_of(size: int, assigned: int) -> ComponentRun:
    part = run_of(size).components["w"]
    for _ in range(assigned):
        part.move(part.tasks[part.take_next()], TaskState.ASSIGNED)
    for task in part.tasks.values():
        task.attempt, task.node = 1, "n1"
    return part


def test_a_component_that_grows_fills_its_holes_first() -> None:
    part = part_of(4, 4)
    assert sizing.retire(part, 1) is part.tasks[1] and sizing.retire(part, 2) is not None
    assert (part.size, part.holes, part.leaving, part.on_node, part.next_index) == (2, {1, 2}, 2, 4, 4)
    for index in (1, 2):
        sizing.forget(part, index)
    part.leaving = 0
    sizing.extend(part, 1)
    assert (part.size, part.holes, part.requeued, part.startable) == (3, {2}, [1], 1)
    assert part.tasks[1] == TaskRecord(attempt=1)
    sizing.extend(part, 3)
    assert (part.size, part.holes, part.startable, part.counts[TaskState.PENDING]) == (6, set(), 4, 4)


def test_tasks_that_join_take_holes_and_then_new_indexes_and_are_no_members_yet() -> None:
    part = part_of(4, 3)
    sizing.retire(part, 1)
    sizing.forget(part, 1)
    assert sizing.join(part, 3) == [1, 4, 5]
    assert (part.size, part.holes, part.joining, part.next_index) == (6, set(), {1, 4, 5}, 6)
    assert (list(part.entering), part.requeued, part.counts[TaskState.PENDING]) == ([1, 4, 5], [3], 4)
    assert part.tasks[1].attempt == 1 and part.tasks[5] == TaskRecord()
    sizing.join_no_more(part, frozenset({4}))
    assert (list(part.entering), part.joining) == ([1, 5], {1, 5}) and isinstance(part.entering, deque)


def test_of_the_last_task_that_was_never_assigned_no_trace_remains() -> None:
    part = part_of(4, 2)
    assert sizing.retire(part, 3) is None
    assert (part.size, part.holes, part.counts[TaskState.PENDING], part.released) == (3, set(), 1, None)
    assert sizing.retire(part, 2) is None and (part.size, part.startable) == (2, 0)


def test_a_task_between_others_that_was_never_assigned_leaves_a_hole() -> None:
    part = part_of(5, 1)
    assert sizing.retire(part, 2) is None
    assert (part.size, part.holes, part.next_index, part.requeued) == (4, {2}, 3, [1])
    assert part.released == {2: TaskRecord(TaskState.STOPPED, released=True)} and 2 not in part.tasks
    assert (part.startable, part.counts[TaskState.PENDING], part.leaving) == (3, 3, 0)


def test_a_task_that_leaves_waits_for_nothing_and_serves_nobody() -> None:
    part = part_of(4, 3)
    part.tasks[0].ready, part.ready = True, 1
    assert sizing.retire(part, 0) is not None
    assert (part.ready, part.tasks[0].ready, part.tasks[0].released) == (0, False, True)
    part.move(part.tasks[1], TaskState.LOST)
    part.move(part.tasks[1], TaskState.PENDING)
    part.tasks[1].not_before, part.backoff = Moment(5.0, "b"), 1
    sizing.retire(part, 1)
    assert (part.backoff, part.released) == (0, {1: part.released[1]} if part.released else None)
    assert part.released is not None and part.released[1].not_before is None


def test_holes_at_the_end_are_none() -> None:
    part = part_of(4, 4)
    for index in (2, 3):
        sizing.retire(part, index)
    assert (part.size, part.holes, part.end, part.next_index, part.leaving) == (2, set(), 2, 2, 2)


def test_a_task_that_an_earlier_run_has_done_leaves_without_the_others() -> None:
    part = ComponentRun(Component("w", "x", replicas=3), 3, carried=((0, 1),))
    sizing.retire(part, 0)
    assert (part.size, part.holes, part.counts[S], part.tasks[1].released) == (2, {0}, 1, False)
    assert part.released == {0: TaskRecord(S, released=True)}
    part = ComponentRun(Component("w", "x", replicas=4), 4, carried=((1, 1),))
    sizing.materialise(part, 3)
    assert (part.skipped, part.next_index, part.requeued) == (0, 3, [0, 2])
    sizing.materialise(part, 2)
    assert part.next_index == 3


# records


def test_the_record_of_a_job_has_all_that_a_new_master_agent_needs() -> None:
    run = run_of(3)
    part = with_states(run, S, R)
    part.reason, part.generation, part.holes, part.joining = FAILED, 4, frozenset({5, 1}), frozenset({2, 0})
    part.slots, part.ran = 6, True
    run.state, run.reason, run.started, run.ended, run.exit_code = JobState.RUNNING, FAILED, 6.0, 7.0, 8
    run.restarts, run.schedule, run.warnings, run.outcome = 9, "s", ("a",), Outcome(JobState.FAILED, FAILED, 1)
    run.deadline, run.usage, run.met, run.tries = Moment(1.0, "b"), TaskTotals(cpu=1.0), frozenset({1, 0}), 10
    run.not_before, run.last_deadline, run.expires, run.logs_until = Moment(2.0, "b"), Moment(3.0, "b"), 11.0, 12.0
    run.awaited, run.held, run.rerun_of, run.delete, run.filed = {"a": "a-1"}, "bob", "j-0", True, 13
    ended = OperationRecord(
        id="o1",
        job_id="j-1",
        component="w",
        kind=OperationKind.SCALE,
        state=OperationState.ENDED,
        author="ann",
        filed=1.0,
    )
    repair = structs.replace(ended, id="r1", kind=OperationKind.REPLACE, state=OperationState.STARTING, author=GRASS)
    now = structs.replace(ended, id="o2", state=OperationState.STARTING, message="m")
    run.operations = {"o1": ended, "r1": repair, "o2": now}
    assert job_record(run) == JobRecord(
        id="j-1",
        name="j",
        user="ann",
        state=JobState.RUNNING,
        reason=FAILED,
        submitted=5.0,
        started=6.0,
        ended=7.0,
        exit_code=8,
        counts={TaskState.PENDING: 1, R: 1, S: 1},
        components={"w": ComponentRecord(3, {TaskState.PENDING: 1, R: 1, S: 1}, FAILED, 4, (1, 5), (0, 2), 6, True)},
        restarts=9,
        schedule="s",
        warnings=("a",),
        outcome=Outcome(JobState.FAILED, FAILED, 1),
        deadline=Moment(1.0, "b"),
        usage=TaskTotals(cpu=1.0),
        met=(0, 1),
        dialect=run.job.dialect,
        tries=10,
        not_before=Moment(2.0, "b"),
        last_deadline=Moment(3.0, "b"),
        expires=11.0,
        logs_until=12.0,
        awaited={"a": "a-1"},
        priority=run.job.priority,
        held="bob",
        rerun_of="j-0",
        delete=True,
        tags=run.job.tags,
        operations=13,
        operation=CurrentOperation("o2", OperationKind.SCALE, "w", OperationState.STARTING, "m"),
    )


def test_the_record_of_a_node_has_all_that_a_new_master_agent_needs() -> None:
    total, reason = Resources(4000, 8), Reason(ReasonCode.PROBE, "p")
    node = NodeRun(
        "n1",
        NodeState.READY,
        reason,
        "10.0.0.1",
        total,
        "1.0",
        7,
        (GpuDevice(0, "A100", 40),),
        boot="b",
        seen_wall=3.0,
        allocated=Resources(1000),
        devices={1: DeviceRun(quarantine="lost"), 0: DeviceRun()},
        labels={"a": "b"},
        path=("r1",),
        runtimes=("docker",),
        default_image="i",
        programs=("p",),
        versions={"kernel": "6"},
        digest="d",
        unfit=reason,
        conditions=(reason,),
        forgiven={0: 2},
        cordoned=True,
        drain=Drain("ann", Moment(9.0, "b"), True, "1.2.3.4"),
    )
    assert node_record(node) == NodeRecord(
        name="n1",
        state=NodeState.READY,
        reason=reason,
        address="10.0.0.1",
        resources=total,
        free=Resources(3000, 8),
        tasks=0,
        usage=node.usage,
        version="1.0",
        api_port=7,
        gpus=(GpuDevice(0, "A100", 40),),
        boot="b",
        seen=3.0,
        labels={"a": "b"},
        path=("r1",),
        runtimes=("docker",),
        default_image="i",
        programs=("p",),
        versions={"kernel": "6"},
        digest="d",
        cordoned=True,
        unfit=reason,
        conditions=(reason,),
        forgiven={0: 2},
        quarantine={1: "lost"},
        drain=DrainRecord("ann", Moment(9.0, "b"), True, "1.2.3.4"),
    )
    node.drain = None
    assert node_record(node).drain is None
