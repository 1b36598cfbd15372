from __future__ import annotations

from typing import Any

import pytest

from grass.cli.operation_text import what
from grass.manifest import parse_job
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.wire import codec
from grass.wire.attempt_record import AttemptRecord
from grass.wire.codec import Form
from grass.wire.job_record import JOB_RECORD, JobRecord, first_record
from grass.wire.keys import TaskKey
from grass.wire.moment import Moment
from grass.wire.operation_record import OperationKind, OperationRecord, OperationState
from grass.wire.schedule_record import ScheduleRecord
from grass.wire.task_record import TaskRecord
from master.agent.node_run import NodeRun
from master.agent.records import node_record
from master.api.views import (
    attempt_view,
    counted_tasks,
    first_tasks,
    job_view,
    known_tasks,
    operation_view,
    schedule_view,
    task_views,
)
from master.api.why import on_silent_nodes, why_view

JOB = parse_job({"name": "j", "components": {"a": {"command": "x", "replicas": 3}, "b": {"command": "y"}}}).job
WAITS = {"code": "no-free-resources", "message": "waits for free resources", "details": {}}


def record(**changes: Any) -> JobRecord:
    """``components``: what differs from a component of which all tasks wait."""
    made = codec.builtins(first_record(JOB, job_id="j-1", user="ann", now=1.0))
    parts = {name: {**made["components"][name], **part} for name, part in changes.pop("components", {}).items()}
    return JOB_RECORD.convert({**made, **changes, "components": {**made["components"], **parts}})


def known(task: str, **fields: Any) -> dict[TaskKey, TaskRecord]:
    reason = fields.pop("reason", None)
    state = TaskState(fields.pop("state"))
    return {TaskKey.parse(task): TaskRecord(state, reason=_reason(reason) if reason else None, seq=7, **fields)}


def _reason(wire: dict[str, Any]) -> Reason:
    return Form[Reason](Reason).convert(wire)


def plain(view: Any) -> Any:
    """As JSON has it."""
    return codec.builtins(view)


def test_what_the_master_agent_keeps_for_itself_is_not_shown() -> None:
    assert {"outcome", "deadline"} & plain(job_view(record())).keys() == set()
    assert "seq" not in plain(task_views(record(), JOB, known("a.0", state="RUNNING"))[0])


def marked(of: type[Any], **fields: Any) -> Any:
    """Return a record whose fields are told apart."""
    return of(**{name: fields.get(name, f"the {name}") for name in of.__struct_fields__})


def test_each_field_of_a_view_that_its_record_has_is_the_records() -> None:
    task = marked(TaskRecord, state=TaskState.RUNNING, released=False)
    views = [
        (of_job := marked(JobRecord, state=JobState.RUNNING, outcome=None), job_view(of_job)),
        (of_operation := marked(OperationRecord, kind=OperationKind.RESTART), operation_view(of_operation)),
        (of_schedule := marked(ScheduleRecord), schedule_view(of_schedule)),
        (of_attempt := marked(AttemptRecord), attempt_view(TaskKey("a", 0), of_attempt, None)),
        (task, known_tasks(record(), {TaskKey("a", 0): task})[0]),
    ]
    for of, view in views:
        both = set(of.__struct_fields__) & set(view.__struct_fields__) - {"reason", "runs"}
        assert {name: getattr(view, name) for name in both} == {name: getattr(of, name) for name in both}


@pytest.mark.parametrize(
    ("state", "outcome", "result"),
    [
        ("RUNNING", None, None),
        ("STOPPING", ["SUCCEEDED", None, 0], "SUCCEEDED"),
        ("FAILED", None, "FAILED"),
    ],
)
def test_the_result_of_a_job_is_known_before_its_last_task_has_ended(
    state: str, outcome: list[object] | None, result: str | None
) -> None:
    assert plain(job_view(record(state=state, outcome=outcome)))["result"] == result


def test_tasks_without_a_record_wait_for_their_components_reason() -> None:
    waiting = record(components={"a": {"reason": WAITS}, "b": {"reason": None}}, reason=None)
    tasks = plain(task_views(waiting, JOB, known("a.1", state="RUNNING")))
    assert [(task["task"], task["state"], task["reason"]) for task in tasks] == [
        ("a.0", "PENDING", WAITS),
        ("a.1", "RUNNING", None),
        ("a.2", "PENDING", WAITS),
        ("b.0", "PENDING", None),
    ]


def test_a_task_that_is_to_be_placed_again_waits_for_what_its_component_waits_for() -> None:
    drained = {"code": "drained", "message": "node n1 is being drained", "details": {}}
    late = {"code": "backoff", "message": "ended with exit code 1; restarts in 5 s", "details": {}}
    tasks = known("a.0", state="PENDING", reason=drained, not_before=None)
    tasks |= known("a.1", state="PENDING", reason=late, not_before=Moment(9.0, "boot"))
    waiting = record(components={"a": {"reason": WAITS}, "b": {"reason": None}}, reason=None)
    assert [task["reason"] for task in plain(task_views(waiting, JOB, tasks, "a"))] == [WAITS, late, WAITS]
    assert [plain(task)["reason"] for task, _ in counted_tasks(waiting, JOB, tasks)][:2] == [WAITS, late]


def test_tasks_that_never_began_are_stopped_once_the_job_has_ended() -> None:
    stopped = record(state="STOPPED", reason={"code": "user-stopped", "message": "stopped by ann", "details": {}})
    [task] = plain(task_views(stopped, JOB, {}, "b"))
    assert (task["state"], task["reason"]["message"]) == ("STOPPED", "stopped by ann")


def test_tasks_that_need_attention_come_first_and_only_those_asked_for_are_made() -> None:
    tasks = known("a.0", state="SUCCEEDED") | known("b.0", state="FAILED") | known("a.2", state="RUNNING")
    waiting = record(components={"a": {"reason": WAITS}, "b": {"reason": None}})
    found = [task.task for task in first_tasks(waiting, JOB, tasks, None, 3)]
    assert found == ["b.0", "a.1", "a.2"]
    assert [task.task for task in first_tasks(waiting, JOB, tasks, "a", 9)] == ["a.1", "a.2", "a.0"]
    assert first_tasks(waiting, JOB, tasks, None, 0) == []
    over = record(state="FAILED", reason=None)
    assert [task.task for task in first_tasks(over, JOB, tasks, "a", 9)] == ["a.2", "a.0", "a.1"]


def test_why_groups_tasks_that_wait_for_the_same_reason() -> None:
    waiting = record(components={"a": {"reason": WAITS}, "b": {"reason": None}})
    failed = {"code": "exit-code", "message": "exited with 3", "details": {}}
    tasks = known("a.1", state="FAILED", reason=failed) | known("b.0", state="RUNNING")
    answer = plain(why_view(waiting, JOB, counted_tasks(waiting, JOB, tasks)))
    assert [(group["component"], group["state"], group["count"]) for group in answer["groups"]] == [
        ("a", "FAILED", 1),
        ("a", "PENDING", 2),
    ]
    assert answer["groups"][0]["next"] is None
    assert answer["groups"][1]["next"] == "starts when enough resources are free, for example because tasks end"


def test_why_groups_tasks_that_failed_alike_whatever_the_numbers_and_names_the_first_of_how_many() -> None:
    swept = {"a": {"command": "x", "matrix": {"lr": [1, 2], "seed": [1, 2]}}}
    sweep = parse_job({"name": "j", "components": swept}).job
    made = first_record(sweep, job_id="j-1", user="ann", now=1.0)
    why = [{"code": "exit-code", "message": f"KeyError: {number} (t.py:3)", "details": {}} for number in range(4)]
    tasks = known("a.3", state="FAILED", reason=why[3]) | known("a.2", state="FAILED", reason=why[2])
    [group] = [each for each in why_view(made, sweep, counted_tasks(made, sweep, tasks)).groups if each.first]
    assert (group.count, group.of, group.first, group.common) == (2, 4, "a.2", "lr=2")
    assert str(group.reason) == "KeyError: 2 (t.py:3)"


@pytest.mark.parametrize("code", ["unschedulable", "namespace-quota", "not-started"])
def test_a_task_whose_pod_waits_says_why_although_it_has_a_node(code: str) -> None:
    reason = {"code": code, "message": "kube-scheduler finds no machine", "details": {}}
    tasks = known("a.0", state="ASSIGNED", reason=reason)
    [group] = [
        each for each in plain(why_view(record(), JOB, counted_tasks(record(), JOB, tasks)))["groups"] if each["reason"]
    ]
    assert (group["state"], group["reason"]) == ("ASSIGNED", reason) and group["next"].startswith("starts when ")


def test_tasks_on_a_silent_node_are_among_the_reasons() -> None:
    silent = NodeRun("n1", NodeState.SILENT, Reason(ReasonCode.NODE_LOST, "silent for 9 s; its tasks go on"))
    nodes = [node_record(silent), node_record(NodeRun("n2", NodeState.READY))]
    tasks = {**known("a.0", state="RUNNING", node="n1"), **known("a.1", state="RUNNING", node="n2")}
    found = why_view(record(), JOB, on_silent_nodes(counted_tasks(record(), JOB, tasks), nodes))
    [group] = [group for group in plain(found)["groups"] if group["state"] == "RUNNING"]
    assert (group["count"], group["reason"]["message"]) == (1, "node n1: silent for 9 s; its tasks go on")
    assert group["next"] == "its state is known again once the node is heard; see `grass node list`"
    lost = known("a.0", state="FAILED", node="n1", reason={"code": "node-lost", "message": "m", "details": {}})
    [group] = [
        each for each in plain(why_view(record(), JOB, counted_tasks(record(), JOB, lost)))["groups"] if each["reason"]
    ]
    assert (group["state"], group["next"]) == ("FAILED", None)


@pytest.mark.parametrize(
    ("needs", "advice"), [(4000, "starts when other tasks"), (4001, "cannot start: request less, or ask an admin")]
)
def test_a_job_that_needs_more_than_its_quota_is_told_that_waiting_does_not_help(needs: int, advice: str) -> None:
    reason = {"code": "quota", "message": "m", "details": {"resource": "cpu", "quota": 4000, "needs": needs}}
    held = record(components={"a": {"reason": reason}, "b": {"reason": reason}})
    groups = plain(why_view(held, JOB, counted_tasks(held, JOB, {})))["groups"]
    assert all(group["next"].startswith(advice) for group in groups)


def test_a_running_task_that_is_not_ready_is_among_the_reasons() -> None:
    late = {"code": "not-ready", "message": "not ready yet: nothing listens", "details": {}}
    tasks = known("a.1", state="RUNNING", reason=late)
    groups = plain(why_view(record(), JOB, counted_tasks(record(), JOB, tasks)))["groups"]
    [group] = [group for group in groups if group["state"] == "RUNNING"]
    assert (group["component"], group["count"], group["next"] is None) == ("a", 1, False)


def test_every_reason_to_wait_says_what_would_end_the_wait() -> None:
    waiting = [
        "submitted",
        "job-limit",
        "no-nodes",
        "too-large",
        "no-free-resources",
        "depends-on",
        "backoff",
        "parallelism",
    ]
    for code in waiting:
        assert ReasonCode(code)
        reason = {"code": code, "message": "m", "details": {}}
        held = record(components={"a": {"reason": reason}, "b": {"reason": reason}})
        groups = plain(why_view(held, JOB, counted_tasks(held, JOB, {})))["groups"]
        assert all(group["next"] for group in groups)


def test_a_replacement_names_its_task_also_if_it_was_rejected() -> None:
    filed = OperationRecord(
        id="o1", job_id="j-1", kind=OperationKind.REPLACE, author="ann", filed=1.0, component="w", named=("w.1",)
    )
    assert operation_view(filed).added == ("w.1",)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"size": 3}, "scale w → 3"),
        ({"delta": -1}, "scale w -1"),
        ({"named": ("w.1", "w.4")}, "scale w -2"),
        ({"size": 3, "from_size": 1, "to_size": 3, "state": OperationState.STARTING}, "scale w 1 → 3"),
    ],
)
def test_a_scaling_that_waits_shows_what_was_asked_for(asked: dict[str, Any], shown: str) -> None:
    filed = OperationRecord(
        id="o1", job_id="j-1", kind=OperationKind.SCALE, author="ann", filed=1.0, component="w", **asked
    )
    assert what(operation_view(filed)) == shown
