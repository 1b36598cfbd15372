"""What follows a run, on a real local cluster: reruns, stopped tasks, holds, priorities, output of earlier jobs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.cli.exits import Exit
from tests.integration.test_cli import PROGRAM, Grass, own_cluster, wait_for_line
from tests.support.waiting import wait_until
from tests.unit.test_notifications import receiving

SWEEP = """
name: {name}
fail_fast: false
components:
  run:
    replicas: 4
    resources: {{cpu: 0.1}}
    command: 'echo "attempt of $GRASS_INDEX of $GRASS_REPLICAS"; test -e {gate} || test $GRASS_INDEX != 2'
"""


@pytest.fixture(scope="module")
def grass() -> Iterator[Grass]:
    with own_cluster(4, "1GiB") as command:
        yield command


def start(grass: Grass, folder: Path, text: str) -> str:
    """Return the id of the job that was started."""
    path = folder / "job.yml"
    path.write_text(text)
    job_id: str = grass.json("job", "start", str(path))["id"]
    return job_id


def tasks(grass: Grass, job: str) -> dict[str, Any]:
    return {task["task"]: task for task in grass.json("job", "show", job)["tasks"]}


def answered_with_no(grass: Grass) -> str:
    """Return what `grass job delete pre-train` writes to a terminal whose user answers with no."""
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    command = [*PROGRAM, "job", "delete", "pre-train"]
    process = subprocess.Popen(command, env=grass.environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    with suppress(OSError):  # how the end of a terminal shows on Linux
        while piece := os.read(ours, 65536):
            written += piece
    os.close(ours)
    assert process.wait(timeout=20) == Exit.INTERRUPTED
    return " ".join(written.decode().split())


def test_what_failed_is_run_again_under_the_same_indexes(grass: Grass, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = start(grass, tmp_path, SWEEP.format(name="sweep", gate=gate))
    assert grass("job", "wait", first).returncode == 1
    gate.touch()
    second = grass.json("job", "rerun", "sweep", "--failed")["id"]
    assert grass("job", "wait", second).returncode == 0
    found = tasks(grass, second)
    assert {name: task["attempt"] for name, task in found.items()} == {"run.0": 0, "run.1": 0, "run.2": 1, "run.3": 0}
    assert found["run.0"]["reason"]["message"] == f"succeeded in run {first}"
    assert grass.good("job", "logs", second) == "run.2 | attempt of 2 of 4\n"
    assert f"Rerun of   {first}" in grass.good("job", "show", second)
    whole = grass.json("job", "rerun", first)["id"]
    assert grass("job", "wait", whole).returncode == 0
    assert all(task["attempt"] == 1 for task in tasks(grass, whole).values())


def test_a_rerun_that_cannot_be_is_refused_by_name(grass: Grass, tmp_path: Path) -> None:
    start(grass, tmp_path, "name: fine\ncomponents: {t: {command: 'true'}}\n")
    grass.good("job", "wait", "fine")
    for words, said in (
        (("rerun", "fine", "--failed"), "all of its tasks succeeded"),
        (("rerun", "nosuch"), "not found"),
        (("hold", "fine"), "only a queued job can be held"),
        (("release", "fine"), "not held"),
        (("set", "fine", "--priority", "5"), "is SUCCEEDED; its settings do not change any more"),
        (("set", "fine", "--priority", "-1"), "must be a whole number from 0 to 1000"),
        (("stop", "fine", "t.0"), "already SUCCEEDED"),
    ):
        refused = grass("job", *words)
        assert (refused.returncode, said in refused.stderr) == (2, True), (words, refused.stderr)


def test_single_tasks_are_stopped_and_the_others_go_on(grass: Grass, tmp_path: Path) -> None:
    part = "{replicas: 3, resources: {cpu: 0.1}, command: exec sleep 600, restart: {policy: always}}"
    job = start(grass, tmp_path, f"name: some\ncomponents:\n  w: {part}\n")
    with Client("local", home=grass.home) as client:
        wait_until(lambda: client.job(job).counts == {"RUNNING": 3})
        assert "no task w.7" in grass("job", "stop", "some", "w.7").stderr
        assert grass("job", "stop", "some", "w.0", "w.9").returncode == 2
        assert grass.good("job", "stop", "some", "w.1").split() == ["some", job, "w.1", "stops"]
        wait_until(lambda: client.job(job).counts == {"RUNNING": 2, "STOPPED": 1})
    assert tasks(grass, job)["w.1"]["state"] == "STOPPED"
    grass.good("job", "stop", "some")
    assert grass("job", "wait", "some").returncode == 1


def test_every_attempt_of_a_task_is_shown(grass: Grass, tmp_path: Path) -> None:
    part = "{command: 'exit 3', restart: {policy: on-failure, limit: 2, backoff: 0.1}, resources: {cpu: 0.1}}"
    start(grass, tmp_path, f"name: flaky\ncomponents:\n  t: {part}\n")
    assert grass("job", "wait", "flaky").returncode == 1
    page = grass.good("job", "show", "flaky")
    assert [line.split()[0] for line in page.splitlines() if line.startswith("t.0#")] == ["t.0#1", "t.0#2", "t.0#3"]
    found = grass.json("job", "show", "flaky")["attempts"]
    assert [(one["attempt"], one["exit_code"], one["reason"]["code"]) for one in found] == [
        (number, 3, "exit-code") for number in (1, 2, 3)
    ]


def test_a_report_has_all_about_a_job(grass: Grass, tmp_path: Path) -> None:
    part = "{command: 'exit 3', restart: {policy: on-failure, limit: 2, backoff: 0.1}, resources: {cpu: 0.1}}"
    written = f"name: reported  # the last trial\ncomponents:\n  t: {part}\n"
    start(grass, tmp_path, written)
    assert grass.good("job", "show", "reported", "--file") == written
    assert grass("job", "wait", "reported").returncode == 1
    path = tmp_path / "report.html"
    said = grass.json("report", "reported", "--to", str(path))
    text = path.read_text()
    assert said["bytes"] == path.stat().st_size
    for wanted in ("t.0#3", "task-restarts", "ended with exit code 3", "# the last trial", "Timeline"):
        assert wanted in text, wanted
    again = grass("report", "reported", "--to", str(path))
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert grass("report", "nosuch").returncode == 2


def test_events_are_selected_by_the_cluster(grass: Grass, tmp_path: Path) -> None:
    command = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 4"
    start(grass, tmp_path, f"name: fails\ncomponents: {{t: {{command: '{command}', resources: {{cpu: 0.1}}}}}}\n")
    following = grass.start("events", "--follow", "--job", "fails")
    wait_for_line(following, "job-running")
    (tmp_path / "go").touch()
    wait_for_line(following, "task-failed.*exit code 4")
    following.terminate()
    following.communicate(timeout=20)
    assert grass("job", "wait", "fails").returncode == 1
    kinds = [line.split()[2] for line in grass.good("events", "--job", "fails").splitlines()]
    assert kinds == ["job-submitted", "job-running", "task-failed", "job-failed"]
    table = [line.split(",") for line in grass.good("events", "--job", "fails", "-o", "csv").splitlines()]
    assert [row[:2] for row in table] == [
        ["time", "kind"],
        *([row[0], kind] for row, kind in zip(table[1:], kinds, strict=True)),
    ]
    assert "task fails.t.0: ended with exit code 4" in grass.good("events", "--kind", "task-*", "--tail", "1")
    assert grass.good("events", "--job", "fails", "--user", "nobody") == ""
    assert grass.good("events", "--job", "fails", "--since", "2100-01-01") == ""
    assert "node-agent-started" in grass.good("events", "--node", "local", "--kind", "node-*")
    assert grass("events", "--since", "yesterday").returncode == 2
    assert grass("events", "--tail", "-1").returncode == 2


def test_the_end_of_a_job_is_told_to_a_webhook_and_runs_a_command(grass: Grass, tmp_path: Path) -> None:
    with receiving(500, 200) as receiver:
        on_end = f"{{webhook: '{receiver.url}', secret: not to be shown, command: 'echo $GRASS_ENDED_STATE'}}"
        part = "{command: 'exit 7', resources: {cpu: 0.1}}"
        job = start(grass, tmp_path, f"name: ends\non_end: {on_end}\ncomponents: {{t: {part}}}\n")
        assert grass("job", "wait", job).returncode == 1
        assert grass("job", "wait", "ends-on-end").returncode == 0
        assert grass.good("job", "logs", "ends-on-end") == "FAILED\n"
        wait_until(lambda: len(receiver.got) == 2)
    [first, second] = [json.loads(body) for _, body in receiver.got]
    assert first == second and first["id"] == f"{job}:end"
    assert (first["job"]["state"], first["job"]["exit_code"]) == ("FAILED", 7)
    assert "not to be shown" not in grass.good("job", "show", job) + grass.good("job", "show", job, "-o", "json")


def test_several_jobs_are_waited_for(grass: Grass, tmp_path: Path) -> None:
    for name, command in (("quick", "true"), ("bad", "exit 2"), ("slow", "exec sleep 600")):
        start(grass, tmp_path, f"name: {name}\ncomponents: {{t: {{resources: {{cpu: 0.1}}, command: '{command}'}}}}\n")
    assert grass.json("job", "wait", "slow", "quick", "--any")["name"] == "quick"
    assert grass("job", "wait", "quick", "bad").returncode == 1
    late = grass("job", "wait", "quick", "slow", "--timeout", "0.3")
    assert late.returncode == 124 and "has not ended after 0.3 s; it goes on" in late.stderr
    assert grass("job", "wait", "slow", "nosuch", "--any").returncode == 2
    grass.good("job", "stop", "slow")
    both = grass("job", "wait", "quick", "slow", "--all", "-o", "json")
    assert both.returncode == 1
    assert [job["state"] for job in json.loads(both.stdout)] == ["SUCCEEDED", "STOPPED"]


def test_a_rule_is_run_now_paused_resumed_and_deleted(grass: Grass, tmp_path: Path) -> None:
    path = tmp_path / "rule.yml"
    path.write_text("name: rule\ncron: '@yearly'\njob: {components: {t: {resources: {cpu: 0.1}, command: 'true'}}}\n")
    grass.good("schedule", "start", str(path))
    run = grass.good("schedule", "run-now", "rule").strip()
    assert grass("job", "wait", run).returncode == 0
    assert grass.json("schedule", "show", "rule")["runs"][0]["state"] == "SUCCEEDED"
    assert run in grass.good("schedule", "show", "rule")
    assert grass.good("schedule", "pause", "rule") == "rule  PAUSED\n"
    assert "is PAUSED, not ACTIVE" in grass("schedule", "pause", "rule").stderr
    assert "SUCCEEDED" in grass.good("schedule", "list")
    assert grass.good("schedule", "resume", "rule") == "rule  ACTIVE\n"
    assert grass.good("schedule", "delete", "rule") == "rule  deleted\n"
    assert grass.good("schedule", "list") == "no schedules\n"
    assert grass("schedule", "run-now", "rule").returncode == 2


def test_a_held_job_waits_for_its_release(grass: Grass, tmp_path: Path) -> None:
    filler = start(grass, tmp_path, "name: filler\ncomponents: {t: {resources: {cpu: 4}, command: exec sleep 600}}\n")
    start(grass, tmp_path, "name: later\ncomponents: {t: {resources: {cpu: 4}, command: 'true'}}\n")
    assert grass.good("job", "hold", "later").endswith("held\n")
    assert grass.json("job", "set", "later", "--priority", "9")["priority"] == 9
    grass.good("job", "stop", filler)
    assert grass("job", "wait", filler).returncode == 1
    assert "held by" in grass.good("job", "why", "later")
    assert grass.good("job", "why", "later").count("starts after `grass job release later`") == 1
    grass.good("job", "release", "later")
    assert grass("job", "wait", "later").returncode == 0


def test_a_job_finds_the_output_of_the_run_that_it_waited_for(grass: Grass, tmp_path: Path) -> None:
    first = start(grass, tmp_path, "name: pre-train\ncomponents: {t: {command: 'echo 42 > $GRASS_OUTPUT/loss'}}\n")
    reads = "name: test\nafter: pre-train\ncomponents: {t: {command: 'cat $GRASS_AFTER_PRE_TRAIN_OUTPUT/loss'}}\n"
    start(grass, tmp_path, reads)
    assert grass("job", "wait", "test").returncode == 0
    assert grass.good("job", "logs", "test") == "42\n"
    again = grass.json("job", "rerun", "pre-train")["id"]
    assert grass("job", "wait", again).returncode == 0
    grass.good("job", "delete", again)
    said = answered_with_no(grass)
    assert f"{again} was deleted, and pre-train now means the older run {first}" in said
    assert "nothing was changed" in said
    view = grass.json("job", "show", "pre-train")
    assert (view["id"], view["newer_deleted"]) == (first, again)
    grass.good("job", "delete", "pre-train", "--yes")
    assert grass("job", "show", "pre-train").returncode == 2
