"""Views as a person reads them: pure, from the documents of docs/reference/wire.md to lines."""

from __future__ import annotations

from typing import Any

import pytest

from grass.cli import amounts, job_plan, why
from grass.cli.attempt_text import earlier
from grass.cli.cluster_text import Overview, status_page
from grass.cli.events import event_lines
from grass.cli.job_columns import DEFAULT, no_jobs, ordered, rows, table_of
from grass.cli.job_text import job_line, job_page
from grass.cli.node_text import node_list, node_page
from grass.cli.schedule import schedule_list, schedule_page
from grass.model.amounts import show_span
from grass.model.daemons import DaemonState
from grass.model.feasibility import starts_with
from grass.model.isolation import Isolation
from grass.model.lifecycle import JobState, TaskState
from grass.wire.cloud import CloudView
from grass.wire.event_views import EventView
from grass.wire.job_views import WHY, JobView, TaskView
from grass.wire.node_views import NodeView
from grass.wire.status_views import StoreTrouble
from grass.wire.views import PLAN, SCHEDULE
from tests.support import sample_views
from tests.support.job_views import attempt_view, job_view, task_view

NOW = 1_000_000.0
WAITS = {
    "code": "no-free-resources",
    "message": "waits for free resources: local: 6 cpu short; n2: cordoned",
    "details": {},
}
EXIT_3 = {"code": "exit-code", "message": "worker.0 ended with code 3", "details": {}}


def job(**changes: Any) -> JobView:
    part = {"replicas": 5, "counts": {"RUNNING": 3, "SUCCEEDED": 2}, "reason": None}
    view = {
        "id": "digits-1a2b3c4d",
        "name": "digits",
        "user": "ada",
        "state": "RUNNING",
        "reason": None,
        "submitted": NOW - 90,
        "started": NOW - 80,
        "ended": None,
        "exit_code": None,
        "counts": {"RUNNING": 3, "SUCCEEDED": 2},
        "components": {"worker": part},
        "restarts": 0,
        "schedule": None,
        "rerun_of": None,
        "priority": 0,
        "held": None,
        "warnings": [],
        "dialect": "native",
        "tries": 0,
        "expires": None,
        "tags": {},
    }
    return job_view(**(view | changes))


def task(index: int, state: str, **changes: Any) -> TaskView:
    view = {
        "task": f"worker.{index}",
        "component": "worker",
        "index": index,
        "state": state,
        "attempt": 1,
        "node": "local",
        "exit_code": None,
        "signal": None,
        "reason": None,
        "started": NOW - 60,
        "ended": None,
        "ports": {},
        "restarts": 0,
        "pid": 4711,
    }
    return task_view(**(view | changes))


def test_a_job_list_has_one_line_per_job() -> None:
    assert table_of([job()], DEFAULT, NOW, None) == [
        "NAME    ID               STATE    TASKS     USER    AGE  REASON",
        "digits  digits-1a2b3c4d  RUNNING  2/5 done  ada   1m30s",
    ]


def test_a_queued_job_says_why_on_the_narrowest_terminal() -> None:
    queued = job(state="QUEUED", reason=WAITS, counts={"PENDING": 5}, started=None)
    for width in (60, 80, 200):
        shown = " ".join(word for line in table_of([queued], DEFAULT, NOW, width)[1:] for word in line.split())
        for word in WAITS["message"].split():
            assert word in shown


def test_a_running_job_says_why_a_part_of_it_waits() -> None:
    components = {"worker": {"replicas": 2, "counts": {"RUNNING": 1, "PENDING": 1}, "reason": WAITS}}
    assert f"worker: {WAITS['message']}" in table_of([job(components=components)], DEFAULT, NOW, None)[1]


def test_an_empty_list_says_how_to_see_more() -> None:
    assert "--all" in no_jobs(all_jobs=False, selected=False)
    assert table_of([], DEFAULT, NOW, 80, nothing=no_jobs(all_jobs=True, selected=False)) == ["no jobs"]
    assert no_jobs(all_jobs=True, selected=True) == "no such jobs"


def test_columns_and_order_are_chosen() -> None:
    jobs = [job(name="b", priority=1), job(name="a", priority=2, tags={"team": "red", "x": ""})]
    assert rows(jobs, ("name", "tags", "exit"), NOW) == [["b", "-", "-"], ["a", "team=red,x=", "-"]]
    assert [one.name for one in ordered(jobs, "name")] == ["a", "b"]
    assert [one.name for one in ordered(jobs, "-priority")] == ["a", "b"]
    assert ordered(jobs, None) == jobs


def test_a_list_has_a_column_for_the_memory_of_devices() -> None:
    jobs = [job(usage={"gpu_memory": 3 << 30}), job(usage={"cpu": 1.0}), job()]
    assert rows(jobs, ("gpu-memory",), NOW) == [["3GiB"], ["-"], ["-"]]
    assert ordered(jobs, "-gpu-memory")[0] is jobs[0]


def test_the_table_of_tasks_shows_devices_and_bytes_only_if_a_task_has_used_any() -> None:
    plain = task(0, "RUNNING", usage={"cpu": 1.0, "memory": 1 << 20})
    assert "GPU" not in "\n".join(job_page(job(), [plain], 1, NOW, None))
    used = {"cpu": 2.0, "memory": 1 << 20, "gpu": 65.0, "gpu_memory": 3 << 30, "written": 1 << 20}
    busy = task(1, "RUNNING", usage=used)
    title, first, second = job_page(job(), [plain, busy], 2, NOW, None)[-3:]
    names = ["CPU", "MEMORY", "GPU", "GPU", "MEMORY", "WRITTEN", "PORTS", "REASON"]
    assert title.split()[-8:] == names
    assert first.split()[6:] == ["1.00s", "1MiB", "-", "-", "-", "-"]
    assert second.split()[-6:-1] == ["2.00s", "1MiB", "1m5s", "3GiB", "1MiB"]
    assert all(len(line) <= 60 for line in job_page(job(), [plain, busy], 2, NOW, 60))


def test_the_table_of_tasks_counts_gaps_in_logs_only_if_there_are_any() -> None:
    whole, torn = task(0, "SUCCEEDED"), task(1, "SUCCEEDED", log_gaps=2)
    assert "LOG GAPS" not in "\n".join(job_page(job(), [whole], 1, NOW, None))
    title, first, second = job_page(job(), [whole, torn], 2, NOW, None)[-3:]
    assert "LOG GAPS" in title
    assert (first.split()[-1], second.split()[-1]) == ("-", "2")


def test_a_list_says_how_many_jobs_it_leaves_out() -> None:
    lines = table_of([job()], DEFAULT, NOW, None, more=19_900)
    assert lines[-1] == "… and 19900 more jobs; --limit all shows them"
    assert lines[:-1] == table_of([job()], DEFAULT, NOW, None)
    assert table_of([], DEFAULT, NOW, None, more=3)[-1].startswith("… and 3 more jobs")


def test_progress_counts_failures_apart() -> None:
    def progress(state: JobState, **counts: int) -> str:
        return amounts.show_progress(state, {TaskState(name): count for name, count in counts.items()})

    assert progress(JobState.QUEUED, PENDING=5) == "5/5 pending"
    assert progress(JobState.RUNNING, PENDING=2, RUNNING=3) == "3/5 running"
    assert progress(JobState.RUNNING, SUCCEEDED=3000, RUNNING=2, PENDING=1998) == "3000/5000 done"
    assert progress(JobState.FAILED, SUCCEEDED=4, FAILED=1) == "4/5 done, 1 failed"
    assert progress(JobState.RUNNING, SUCCEEDED=9, FAILED=349, RUNNING=1) == "9/359 done, 349 failed"
    assert progress(JobState.STOPPED, STOPPED=2) == "0/2 done, 2 stopped"


def test_who_waits_reads_counts_and_the_reason_on_one_line() -> None:
    assert job_line(job()) == "digits: RUNNING, 3 running, 2 succeeded"
    failed = job(state="FAILED", reason=EXIT_3, counts={"FAILED": 1, "STOPPED": 4})
    assert job_line(failed) == "digits: FAILED, 1 failed, 4 stopped (worker.0 ended with code 3)"


def test_a_job_page_says_how_many_tasks_it_left_out() -> None:
    shown = [task(2, "FAILED", exit_code=3, reason=EXIT_3), task(1, "RUNNING")]
    lines = job_page(job(warnings=["image is ignored"]), shown, 3, NOW, 100)
    text = "\n".join(lines)
    assert text.index("worker.2") < text.index("worker.1")
    assert "… and 1 more tasks; --tasks all shows them" in lines
    assert lines[-1] == "warning: image is ignored"


def test_a_task_that_a_signal_ended_says_which() -> None:
    lines = job_page(job(), [task(0, "FAILED", signal=9, ports={"params": 4000})], 1, NOW, None)
    assert "signal 9" in lines[-1]
    assert "params=4000" in lines[-1]


def test_spans_have_two_units_and_are_never_negative() -> None:
    spans = [show_span(seconds) for seconds in (-5, 0.4, 59, 60, 90, 3600, 7260, 90000)]
    assert spans == ["0s", "0s", "59s", "1m", "1m30s", "1h", "2h1m", "1d1h"]


def test_why_has_a_paragraph_per_group_with_what_would_start_it() -> None:
    group = {
        "component": "worker",
        "state": "PENDING",
        "count": 4,
        "reason": WAITS,
        "next": "starts when a task ends",
    }
    answer = WHY.convert({"name": "digits", "id": "digits-1", "state": "RUNNING", "reason": None, "groups": [group]})
    assert why.page(answer, 50) == [
        "digits is RUNNING",
        "",
        "worker: 4 tasks PENDING",
        "  waits for free resources: local: 6 cpu short;",
        "  n2: cordoned",
        "  starts when a task ends",
    ]


def test_why_tells_node_by_node_what_the_message_does_not() -> None:
    groups = [
        {"count": 3, "why": "not enough memory", "nearest": "n2", "resource": "memory", "short": 3 << 29},
        {"count": 1, "why": "draining", "nearest": "n5"},
        {"count": 1, "why": "not enough cpu", "nearest": "n7", "resource": "cpu", "short": 500},
    ]
    details = {"nodes": groups, "starts_with": starts_with("memory", 24 << 30), "starts_in": 300.0}
    reason = {"code": "gang", "message": "gang starts together; n5: draining", "details": details}
    group = {"component": "w", "state": "PENDING", "count": 1, "reason": reason, "next": None}
    answer = WHY.convert({"name": "d", "id": "d-1", "state": "QUEUED", "reason": reason, "groups": [group]})
    assert why.page(answer, None) == [
        "d is QUEUED",
        "",
        "w: 1 task PENDING",
        "  gang starts together; n5: draining",
        "    3 nodes: not enough memory (nearest: n2, 1.5GiB short)",
        "    n7: 0.5 cpu short",
        "    starts now with 24GiB memory",
        "    starts within 5m, by the time limits of running jobs",
    ]


PLANNED: dict[str, Any] = {
    "name": "train",
    "reason": None,
    "components": {
        "server": {
            "replicas": 1,
            "at_once": 1,
            "depends_on": {},
            "nodes": [{"node": "n1", "count": 1, "devices": []}],
            "reason": None,
        },
        "worker": {
            "replicas": 8,
            "at_once": 4,
            "depends_on": {"server": "ready"},
            "nodes": [
                {"node": "n1", "count": 1, "devices": [[0, 500]]},
                {"node": "n2", "count": 2, "devices": [[0, 1000], [1, 1000]]},
            ],
            "reason": {"code": "no-free-resources", "message": "n3: 1 gpu short", "details": {}},
        },
    },
    "evictions": [{"job": "sweep", "count": 2}, {"job": None, "count": 1}],
    "warnings": [],
}


def test_a_plan_shows_where_each_component_would_go_and_why_the_rest_would_wait() -> None:
    assert job_plan.page(PLAN.convert(PLANNED), None) == [
        "train would start once the tasks being preempted for it have ended",
        "",
        "COMPONENT  TASKS  NODE  GPUS     REASON",
        "server         1  n1    -",
        "worker         1  n1    0 (0.5)  once server is ready",
        "worker         2  n2    0,1      once server is ready",
        "worker         1  -     -        n3: 1 gpu short",
        "worker         4  -     -        at most 4 run at once",
        "",
        "It would preempt 2 tasks of sweep, 1 task of a job of another user (lower priority, preemptible).",
    ]


def test_a_plan_begins_with_whether_the_job_would_start() -> None:
    server, worker = PLANNED["components"]["server"], PLANNED["components"]["worker"]
    waits = {"code": "after", "message": "waits until job b has ended", "details": {}}

    def first_line(**changes: Any) -> str:
        return job_plan.page(PLAN.convert({**PLANNED, "evictions": [], **changes}), None)[0]

    assert first_line() == "train would start in part: 4 of 5 tasks"
    assert first_line(components={"server": server}) == "train would start now"
    assert first_line(components={"worker": {**worker, "nodes": []}}) == "train would wait"
    assert first_line(reason=waits) == "train would not start now: waits until job b has ended"


def node(**changes: object) -> NodeView:
    fields: dict[str, object] = {
        "address": "127.0.0.1",
        "resources": {"cpu": 2000, "memory": 4 << 30, "gpu": 0},
        "free": {"cpu": 500, "memory": 1 << 30, "gpu": 0},
        "tasks": 3,
        "usage": {"cpu": 12.5, "memory": 1 << 30, "load": 0.5, "disk_free": 1 << 40},
        "version": "0.1.0",
        "seen": NOW - 1,
    }
    return sample_views.node("local", **fields | changes)


def test_a_node_list_shows_what_is_free_of_all() -> None:
    assert node_list([node()], NOW, None)[1].split() == [
        "local",
        "READY",
        "0.5/2",
        "1GiB/4GiB",
        "0/0",
        "3",
        "-",
        "-",
        "1s",
    ]


def test_a_node_page_shows_scratch_and_things_of_the_users_own() -> None:
    total = {"cpu": 2000, "memory": 4 << 30, "gpu": 1000, "disk": 8 << 30, "custom": {"licences": 4}}
    free = {"cpu": 500, "memory": 1 << 30, "gpu": 250, "disk": 1 << 30, "custom": {"licences": 1}}
    page = node_page(node(resources=total, free=free), NOW, None)
    shown = dict(line.split("  ", 1) for line in page if line.startswith("Free"))
    assert {name: value.strip() for name, value in shown.items()} == {
        "Free cpu": "0.5/2",
        "Free memory": "1GiB/4GiB",
        "Free gpu": "0.25/1",
        "Free scratch": "1GiB/8GiB",
        "Free licences": "1/4",
    }
    assert "Free licences  0/4" in node_page(node(resources=total, free={"cpu": 0, "memory": 0, "gpu": 0}), NOW, None)


def test_a_node_that_has_not_reported_yet_is_shown_too() -> None:
    new = node(state="JOINING", resources=None, free=None, usage=None, version=None, seen=None, address=None)
    assert node_list([new], NOW, 80)[1].split() == ["local", "JOINING", "-", "-", "-", "3", "-", "-"]
    assert node_page(new, NOW, 80)[0] == "Name         local"


def test_status_shows_daemons_even_when_the_api_does_not_answer() -> None:
    daemons = [DaemonState("redis", 12, "RUNNING", NOW), DaemonState("api", None, "FATAL", None)]
    view = Overview("local", "http://127.0.0.1:1", daemons, error="no answer")
    lines = status_page(view, NOW, 80)
    assert lines[2] == "API      no answer"
    assert [line.split()[:3] for line in lines[5:]] == [["redis", "12", "RUNNING"], ["api", "-", "FATAL"]]


def test_status_counts_jobs_by_state_and_lists_nodes() -> None:
    trouble = StoreTrouble("store-refuses-writes", "the store refuses writes: REASON")
    jobs = {JobState.RUNNING: 2, JobState.FAILED: 1}
    view = Overview("local", "u", [], [node()], jobs, trouble, Isolation.NONE)
    lines = status_page(view, NOW, 100)
    assert lines[2] == "Jobs       2 running, 1 failed"
    assert lines[3] == "Isolation  none: all tasks run under the account of the nodes' daemons; for a lab with one user"
    assert lines[4] == "Store      the store refuses writes: REASON; the agents wait and try again"
    assert lines[-1].startswith("local  READY")


@pytest.mark.parametrize(
    ("cloud", "said"),
    [
        (CloudView(holder="the master", until=NOW + 60), "Autoscaler  the master"),
        (CloudView(holder="the master", problem="it has no role"), "Autoscaler  the master: it has no role"),
        (CloudView(holder="the master", until=NOW - 60), ""),
    ],
)
def test_status_says_who_starts_and_stops_nodes(cloud: CloudView, said: str) -> None:
    lines = status_page(Overview("lab", "u", [], [node()], {}, cloud=cloud), NOW, 100)
    assert [line for line in lines if line.startswith("Autoscaler")] == ([said] if said else [])


def test_a_schedule_list_shows_the_rule_and_the_reason() -> None:
    reason = {"code": "job-limit", "message": "2 jobs already run", "details": {}}
    fields = {
        "name": "nightly",
        "kind": "cron",
        "state": "ACTIVE",
        "user": "ada",
        "cron": "0 3 * * *",
        "time_zone": "UTC",
        "next": None,
        "last": None,
        "jobs": ["nightly-1", "nightly-2"],
        "reason": reason,
    }
    view = SCHEDULE.convert(fields)
    line = schedule_list([view], None)[1]
    assert "0 3 * * *" in line
    assert line.endswith("2 jobs already run")
    assert schedule_page(view, 80)[-1] == "Jobs       nightly-1, nightly-2"


def test_an_event_is_one_line_with_who_did_it() -> None:
    event = EventView(id="1-0", time=NOW, kind="job-stopped", user="ada", job="digits", message="asked\nto stop")
    [line] = event_lines(event, 40)
    assert line.endswith("job-stopped           digits  asked to stop (by ada)")


def test_a_node_page_shows_each_device_and_who_else_uses_it() -> None:
    gpus = [{"id": 0, "uuid": "GPU-1", "name": "NVIDIA A100", "memory": 40 << 30}]
    now = {"id": 0, "utilisation": 87, "memory_used": 10 << 30, "temperature": 61, "ecc": 2, "busy": "carol"}
    view = node(gpus=gpus, usage={"gpus": [now]}, labels={"rack": "a"}, path=["r1", "s2"], runtimes=["process"])
    lines = dict(line.split("  ", 1) for line in node_page(view, NOW, None))
    assert lines["Gpu 0"].strip() == (
        "NVIDIA A100, 10GiB of 40GiB, 87% busy, 61 °C, 2 ECC errors, used by carol, not by a task of this cluster"
    )
    assert lines["Labels"].strip() == "rack=a"
    assert lines["Topology"].strip() == "r1/s2"
    for path, note, shown in (
        (["r1"], "from topology_command", "r1 (from topology_command)"),
        ([], "topology_command printed nothing", "none: topology_command printed nothing"),
    ):
        facts = dict(line.split("  ", 1) for line in node_page(node(path=path, path_note=note), NOW, None))
        assert facts["Topology"].strip() == shown
    assert "gpu 0 is used by carol" in node_list([view], NOW, None)[1]


def test_a_device_in_quarantine_is_shown_with_the_reason_in_the_list_and_on_the_page() -> None:
    gpus = [{"id": 0, "uuid": "GPU-1", "name": "NVIDIA A100", "memory": 40 << 30}]
    view = node(gpus=gpus, usage={"gpus": []}, quarantine={"0": "GPU is lost"})
    assert node_list([view], NOW, None)[1].endswith("gpu 0 is in quarantine: GPU is lost")
    lines = dict(line.split("  ", 1) for line in node_page(view, NOW, None))
    assert lines["Gpu 0"].strip() == "in quarantine: GPU is lost, NVIDIA A100, 40GiB"


def test_a_node_whose_probe_failed_shows_what_failed() -> None:
    checks = [{"name": "share", "ok": False, "message": "cannot write to /srv/grass/lab"}]
    reason = {"code": "probe", "message": "its probe failed", "details": {"checks": checks}}
    page = node_page(node(state="JOINING", reason=reason), NOW, None)
    assert any("Failed: share" in line and "cannot write" in line for line in page)


def test_a_cordoned_node_says_so() -> None:
    assert "READY (cordoned)" in node_list([node(cordoned=True)], NOW, None)[1]


def test_attempts_that_are_not_kept_are_counted() -> None:
    base = {"node": "n1", "exit_code": 1, "signal": None, "reason": None, "started": 1.0, "ended": 2.0}
    kept = [attempt_view(**base, task=task, attempt=number) for task, number in (("w.0", 6), ("w.0", 7), ("w.1", 1))]
    assert earlier(kept, None)[-1] == "… and 5 earlier attempts, whose records are not kept; their output is in the log"
    assert "not kept" not in "".join(earlier(kept[2:], None))
