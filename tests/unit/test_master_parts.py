"""The smallest parts of the master-agent, each by itself: timers, what is set aside, what a node is told."""

from __future__ import annotations

from typing import Any

import pytest

from grass.model.job import Component, GpuNeed, Job
from grass.model.lifecycle import NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.model.runtime import RuntimeName
from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.job_record import first_record
from grass.wire.keys import LaunchKey
from grass.wire.membership import Membership
from grass.wire.task_record import TaskRecord
from master.agent.agenda import Agenda
from master.agent.component_run import ComponentRun, Setback
from master.agent.desired import NodeChange, desired_attempt
from master.agent.fault_containment import check_later
from master.agent.node_run import NodeRun
from master.agent.planner_cache import PlannerCache
from master.agent.ports import free_ports
from master.agent.set_aside import FIRST_WAIT, MOST_WAIT, SetAsideWork, Work
from master.agent.state import Cluster, JobRun
from master.agent.victims import choose
from tests.support.templates import template

KEY = LaunchKey("j-1", "w")
OTHER = LaunchKey("j-2", "w")


def part(replicas: int = 3, **fields: Any) -> ComponentRun:
    return ComponentRun(Component("w", "x", replicas=replicas, **fields), replicas)


def placed(component: ComponentRun, count: int, node: str = "n1") -> ComponentRun:
    for _ in range(count):
        index = component.take_next()
        component.move(component.tasks[index], TaskState.ASSIGNED)
        component.tasks[index].node = node
    return component


# timers


def test_timers_come_in_the_order_of_their_times_with_all_that_they_are_about() -> None:
    agenda = Agenda()
    agenda.add(3.0, "plan")
    agenda.add(2.0, "restart", "j-1", "w", 4)
    agenda.add(1.0, "drain", "n1")
    assert agenda.wait(0.5, 9.0) == 0.5 and agenda.wait(0.0, 0.25) == 0.25 and agenda.wait(5.0, 9.0) == 0.0
    assert agenda.due(2.0) == [("drain", "n1", "", 0), ("restart", "j-1", "w", 4)]
    assert agenda.due(2.9) == [] and agenda.due(3.0) == [("plan", "", "", 0)]
    assert agenda.wait(0.0, 7.0) == 7.0


def test_of_several_checks_only_an_earlier_one_gets_a_timer() -> None:
    agenda, aside = Agenda(), SetAsideWork()
    for at in (5.0, 6.0, 5.0, 4.0):
        check_later(agenda, aside, at)
    assert aside.next_check == 4.0 and agenda.due(10.0) == [("retry", "", "", 0)] * 2


def test_a_tenth_of_the_ports_is_never_used() -> None:
    assert (free_ports(0), free_ports(800), free_ports(10_800), free_ports(11_000)) == (10_800, 10_000, 0, 0)


# what is set aside


def test_what_failed_is_tried_again_after_a_wait_and_once_something_has_changed() -> None:
    aside, work = SetAsideWork(), Work("plan", "j-1")
    left = aside.add(work, KeyError("x"), 100.0)
    assert (left.until, left.epoch, left.reason.details) == (100.0 + FIRST_WAIT, 0, {"failures": 1})
    assert left.reason.code is ReasonCode.SET_ASIDE
    assert left.reason.message.startswith("internal error while planning this job (KeyError: 'x'); set aside and tried")
    assert aside.get(work) is left and work in aside and aside
    assert aside.take_due(left.until) == []
    aside.epoch = 1
    assert aside.take_due(left.until - 0.1) == [] and aside.take_due(left.until) == [work]
    assert work not in aside and not aside and aside.get(work) is None


def test_the_wait_doubles_with_each_failure_until_the_work_is_forgotten() -> None:
    aside, work = SetAsideWork(), Work("settle", "j-1")
    waits = [aside.add(work, KeyError(), 0.0).until for _ in range(12)]
    assert waits[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT] and waits[-1] == MOST_WAIT
    aside.readmit(work)
    assert work not in aside and aside.add(work, KeyError(), 0.0).until == MOST_WAIT
    other = Work("plan", "j-2")
    aside.add(other, KeyError(), 0.0)
    aside.forget("j-1")
    aside.forget("j-1")
    assert work not in aside and other in aside and aside.add(work, KeyError(), 0.0).until == FIRST_WAIT


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (Work("settle", "j-1"), "checking whether this job has ended"),
        (Work("leave", "n1"), "draining node n1"),
        (Work("due", "j-1", "restart"), "running a timer (restart)"),
    ],
)
def test_a_user_reads_what_was_being_done(work: Work, text: str) -> None:
    assert f"while {text} (" in SetAsideWork().add(work, KeyError(), 0.0).reason.message


# what a node is told


def test_of_two_changes_of_one_thing_in_a_round_the_node_is_told_the_last() -> None:
    change, attempt = NodeChange(), DesiredAttempt(1)
    change.put("a", attempt)
    change.remove_attempt("a")
    change.remove_attempt("b")
    change.put("b", attempt)
    assert (change.set, change.remove) == ({"b": attempt}, {"a": None})
    made = template()
    change.put_launch(KEY, made)
    change.membership[KEY] = Membership(1, 1, 1, 1, 1, 1, ())
    change.drop_launch(KEY)
    assert (change.launch, change.drop, change.membership) == ({}, {KEY: None}, {})
    change.drop_launch(OTHER)
    change.put_launch(OTHER, made)
    assert (change.launch, change.drop) == ({OTHER: made}, {KEY: None})
    change.remove_attempt("never there")
    change.put("new", attempt)


def test_a_change_goes_to_the_node_with_all_its_parts() -> None:
    member = Membership(1, 1, 1, 1, 1, 1, ())
    change = NodeChange(
        {KEY: template()}, {"a": DesiredAttempt(1)}, {"b": None}, {OTHER: None}, {"j": "x"}, {KEY: member}
    )
    assert change.wire() == DesiredChange(
        {"j-1/w": template()}, {"a": DesiredAttempt(1)}, ("b",), ("j-2/w",), {"j": "x"}, {"j-1/w": member}
    )


@pytest.mark.parametrize("name", ["launch", "set", "remove", "drop", "addresses", "membership"])
def test_a_change_with_any_part_is_one(name: str) -> None:
    assert not NodeChange()
    assert NodeChange(**{name: {"x": None}})


def test_an_attempt_is_told_its_place_in_the_order_its_ports_and_its_devices() -> None:
    task = TaskRecord(attempt=2, seq=7, ports={"p": 20_001}, gpus=((0, 500),))
    assert desired_attempt(task, 3.0) == DesiredAttempt(7, {"p": 20_001}, ((0, 500),), 3.0)
    assert desired_attempt(task, None).stop_grace is None


# the planner's input


def test_a_job_keeps_its_rank_for_as_long_as_it_has_a_reservation() -> None:
    cache = PlannerCache()
    cache.reserve(["a", "b"])
    assert cache.reserved == {"a": 1, "b": 2} and cache.stale_jobs == {"a": None, "b": None}
    cache.stale_jobs.clear()
    cache.reserve(["b", "c"])
    assert cache.reserved == {"b": 2, "c": 4} and cache.stale_jobs == {"a": None, "c": None}
    cache.stale_jobs.clear()
    cache.reserve(["b", "c"])
    assert cache.stale_jobs == {}
    cache.reserve([])
    assert cache.reserved == {}


def test_what_is_shown_to_the_planner_is_replaced_or_taken_away() -> None:
    cache = PlannerCache()
    cache.show_node("never there", None)
    cache.show_job("never there", None)
    cache.show_launch("never there", KEY, [])
    shown: Any = object()
    cache.show_node("n1", shown)
    cache.show_job("j-1", shown)
    cache.show_job("j-2", shown)
    cache.show_job("j-1", shown)  # a job that is shown again goes to the end
    cache.show_launch("n1", KEY, [shown])
    assert cache.nodes == {"n1": shown} and list(cache.queue) == ["j-2", "j-1"]
    assert cache.allocations == {("n1", KEY): [shown]}
    cache.show_node("n1", None)
    cache.show_job("j-1", None)
    cache.show_launch("n1", KEY, [])
    assert (cache.nodes, list(cache.queue), cache.allocations) == ({}, ["j-2"], {})


def test_the_cache_notes_what_is_stale_and_what_was_said_when() -> None:
    cache = PlannerCache()
    cache.node_changed("n1")
    cache.job_changed("j-1")
    cache.launch_changed("n1", KEY)
    assert (cache.stale_nodes, cache.stale_jobs) == ({"n1": None}, {"j-1": None})
    assert cache.stale_launches == {("n1", KEY): None}
    cache.note_worded("j-1", "w", 3.0)
    cache.note_worded("j-1", "v", 4.0)
    cache.note_worded("j-2", "w", 5.0)
    cache.forget_job("j-1", ["w", "v", "never worded"])
    assert cache.worded_at == {("j-2", "w"): 5.0}
    cache.postpone()
    assert cache.postponed
    cache.plan_begins(7.0)
    assert (cache.planned_at, cache.postponed) == (7.0, False)
    cache.refill(["n1", "n2"])
    cache.refilled("n1")
    cache.refilled("n1")
    cache.reviewed_all(8.0)
    cache.reword(True)
    assert (cache.refilling, cache.reviewed_at, cache.rewording) == ({"n2": None}, 8.0, True)


# a component


def test_tasks_start_requeued_ones_first_then_in_order_then_new_members() -> None:
    component = placed(part(3), 2)
    for index in (1, 0):
        component.move(component.tasks[index], TaskState.LOST)
        component.put_back(index)
    component.size, component.joining = 4, frozenset({3})
    component.entering.append(3)
    component.tasks[3], component.skipped = TaskRecord(), 1
    component.take_back(1)
    assert [component.take_next() for _ in range(2)] == [0, 2]
    assert component.take_next() == 3


def test_what_an_earlier_run_has_done_is_neither_pending_nor_started() -> None:
    component = ComponentRun(Component("w", "x", replicas=5), 5, carried=((0, 1), (3, 3)))
    assert (component.counts[TaskState.SUCCEEDED], component.counts[TaskState.PENDING]) == (3, 2)
    assert (component.skipped, component.startable, component.end) == (3, 2, 5)
    assert [component.take_next(), component.take_next()] == [2, 4]
    assert component.startable == 0


def test_a_component_starts_no_more_at_once_than_its_parallelism() -> None:
    component = placed(part(5, parallelism=2), 1)
    assert component.startable == 1
    placed(component, 1)
    assert component.startable == 0 and component.on_node == 2
    assert part(5).startable == 5 and part(5, parallelism=9).startable == 5


def test_a_component_that_starts_none_has_nothing_left_to_start() -> None:
    component = placed(part(4), 1)
    component.put_back(0)
    component.entering.append(3)
    component.start_none()
    assert (component.startable, component.requeued, list(component.entering), component.skipped) == (0, [], [], 0)


def test_a_task_that_a_user_stops_before_its_start_is_skipped() -> None:
    component = part(3)
    component.skip(1, TaskRecord(TaskState.STOPPED))
    assert (component.counts[TaskState.STOPPED], component.counts[TaskState.PENDING], component.skipped) == (1, 2, 1)
    assert [component.take_next(), component.take_next()] == [0, 2]


def test_a_removed_task_that_is_back_counts_its_attempts_on() -> None:
    component = part(2)
    component.released = {1: TaskRecord(TaskState.STOPPED, attempt=4, node="n1", restarts=2)}
    assert component.blank(1) == TaskRecord(attempt=4) and component.blank(0) == TaskRecord()


def test_the_tasks_that_are_missing_to_the_least_number_are_counted() -> None:
    component = placed(part(4, min=3, max=4), 1)
    assert (component.missing, component.too_few) == (2, True)
    placed(component, 2)
    assert (component.missing, component.too_few) == (0, False)
    component.move(component.tasks[0], TaskState.LOST)
    assert (component.missing, component.too_few) == (1, True)
    component.backoff = 1
    assert not component.too_few
    assert part(4).missing == 0


def test_a_component_stays_away_from_nodes_that_could_not_start_it() -> None:
    component = part(2, avoid=("n9",))
    assert component.demanded is component.shape
    component.setbacks = {"n2": Setback(1, 5.0), "n1": Setback(1, 6.0), "n3": Setback(2)}
    assert component.demanded.away_from == component.away_from == ("n1", "n2")
    assert component.demanded.avoid == ("n9",)
    component.avoid = "n4"
    assert component.demanded.avoid == ("n9", "n4")


def test_the_mean_of_durations_follows_new_ones_slowly() -> None:
    component = part()
    component.learn(10.0)
    assert component.mean == 10.0
    component.learn(20.0)
    assert component.mean == pytest.approx(11.0)


def test_the_shape_of_a_component_has_all_that_the_planner_has_to_know() -> None:
    spec = Component(
        "w",
        "x",
        resources=Resources(1000, 5, 2000),
        gpu=GpuNeed("A100", 7),
        ports=("p", "q"),
        where={"b": ("2",), "a": ("1", "3")},
        avoid=("n1",),
        runtime=RuntimeName.DOCKER,
        image="i",
    )
    shape = ComponentRun(spec, 1).shape
    assert (shape.resources, shape.gpu, shape.ports, shape.avoid) == (spec.resources, spec.gpu, 2, ("n1",))
    assert shape.where == (("a", ("1", "3")), ("b", ("2",)))
    assert (shape.runtime, shape.has_image, shape.not_in_pods, shape.share_helps) == (
        RuntimeName.DOCKER,
        True,
        "",
        False,
    )
    assert not part().shape.has_image and part(runtime=RuntimeName.PROCESS).shape.has_image


# which tasks leave


def victims(
    component: ComponentRun, count: int, *named: int, nodes: dict[str, tuple[str, ...]] | None = None
) -> list[int]:
    found = {name: NodeRun(name, NodeState.READY, path=path) for name, path in (nodes or {}).items()}
    return choose(Cluster(nodes=found), component, count, named)


def test_the_highest_indexes_leave_first_and_index_0_last() -> None:
    assert victims(placed(part(4), 4), 2) == [3, 2]
    assert victims(placed(part(4), 4), 3) == [3, 2, 1]
    assert victims(placed(part(3), 3), 1, 0) == [0]
    assert victims(placed(part(4), 4), 2, 1) == [3, 1]
    assert victims(part(3), 2) == [2, 1] and victims(part(3), 1, 0) == [0]


def test_tasks_leave_first_that_are_preempted_then_those_that_wait_then_those_that_failed_most() -> None:
    component = placed(part(5), 5)
    component.tasks[2].restarts = 1
    assert victims(component, 1) == [2]
    component.move(component.tasks[3], TaskState.LOST)
    assert victims(component, 1) == [3] and victims(component, 2) == [3, 2]
    component.tasks[1].preempted = Reason(ReasonCode.PREEMPTED, "")
    assert victims(component, 1) == [1] and victims(component, 2) == [3, 1]


def test_a_task_that_was_never_assigned_leaves_before_those_that_run() -> None:
    assert victims(placed(part(4), 3), 1) == [3]
    component = placed(part(4), 2)
    component.tasks[1].preempted = Reason(ReasonCode.PREEMPTED, "")
    assert victims(component, 1) == [1]


def test_tasks_that_are_done_do_not_leave_as_if_they_waited() -> None:
    component = placed(part(3), 3)
    for state in (TaskState.RUNNING, TaskState.SUCCEEDED):
        component.move(component.tasks[1], state)
    component.tasks[2].restarts = 1
    assert victims(component, 1) == [2]


def test_tasks_leave_where_fewest_of_the_component_are() -> None:
    component = placed(placed(part(5), 2, "n1"), 3, "n2")
    component.tasks[4].node = "n1"
    racks: dict[str, tuple[str, ...]] = {"n1": ("r1",), "n2": ("r2",)}
    assert victims(component, 1, nodes=racks) == [3]
    assert victims(component, 1) == [4]


def test_a_component_chooses_among_the_indexes_that_it_has() -> None:
    component = placed(part(4), 4)
    del component.tasks[2]
    component.size, component.holes = 3, frozenset({2})
    assert victims(component, 2) == [3, 1]


def test_a_run_is_made_with_all_that_its_record_says() -> None:
    job = Job("j", {"w": Component("w", "x", replicas=2)}, ("w",))
    record = first_record(job, job_id="j-1", user="ann", now=5.0, schedule="s")
    run = JobRun.new(job, record)
    assert (run.id, run.name, run.user, run.submitted, run.schedule) == ("j-1", "j", "ann", 5.0, "s")
    assert run.components["w"].size == 2 and run.job is job
