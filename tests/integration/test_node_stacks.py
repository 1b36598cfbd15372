"""Stacks of real programs that stand still, through a real shepherd: by py-spy, by faulthandler, and without either."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.wire.finding import Cause
from grass.wire.stacks import ProcessStack, TaskStacks, grouped
from master.detection.cause import judge
from node.runtime import proc
from node.runtime.stacks.collect import collect
from tests.support import hanging
from tests.support.needs import require
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
KINDS = ("all_reduce", "all_reduce", "all_reduce", "endless_loop", "next_batch", "stopped", "deadlock", "on_share")
KEYS = [f"j-1/w.{index}/1" for index in range(len(KINDS))]


@pytest.fixture(scope="module")
def run() -> Iterator[ShepherdRun]:
    """One task of each kind, which stands still."""
    with ShepherdRun() as run:
        run.connect()
        for key, kind in zip(KEYS, KINDS, strict=True):
            run.launch(key, hanging.command(kind), PYTHONPATH=str(ROOT))
            run.start(key, key)
        for key in KEYS:
            run.started(key)
            wait_until(lambda key=key: "up" in run.stdout(key), seconds=30)  # type: ignore[misc]
        for task, state in (("w.5", "T"), ("w.7", "D")):  # soon after they said so
            wait_until(lambda task=task, state=state: tasks(run, None)[task].processes[0].state == state)  # type: ignore[misc]
        yield run


def tasks(run: ShepherdRun, programs: str | None) -> dict[str, TaskStacks]:
    return {task.task: task for task in collect(run.config, KEYS, programs).tasks}


def innermost(task: TaskStacks) -> str:
    return task.processes[0].main[0].partition(" ")[0]


def test_py_spy_shows_where_each_program_stands_and_equal_ones_are_one_group(run: ShepherdRun) -> None:
    folders = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    require(shutil.which("py-spy", path=folders) is not None, "py-spy")
    found = tasks(run, folders)
    assert [innermost(found[f"w.{index}"]) for index in range(4)] == [*["all_reduce"] * 3, "endless_loop"]
    assert found["w.3"].processes[0].state == "R"
    assert innermost(found["w.4"]).endswith("wait")  # Condition.wait, of the queue
    assert (found["w.5"].processes[0].state, innermost(found["w.5"])) == ("T", "stopped")
    assert found["w.7"].processes[0].state == "D"
    assert [len(group.members) for group in grouped(found.values())][-2:] == [1, 3]


def test_each_kind_of_hang_has_its_cause_and_accuses_who_hangs(run: ShepherdRun) -> None:
    found = tasks(run, None)
    others = [found[f"w.{index}"] for index in range(3)]
    dead = TaskStacks("w.8", 1, "local", (ProcessStack(1, "sh", "S", "do_wait"), ProcessStack(2, "python", "Z")))
    causes = {
        "w.3": Cause.STRAGGLER_CODE,
        "w.4": Cause.DATA_LOADER,
        "w.5": Cause.STRAGGLER_CODE,
        "w.6": Cause.STRAGGLER_CODE,
        "w.7": Cause.STORAGE,
        "w.8": Cause.DEAD_PEER,
    }
    for task, cause in causes.items():
        verdict = judge([*others, found.get(task, dead)], {})
        assert (verdict.cause, verdict.tasks) == (cause, (task,)), verdict.why
    assert judge(others, {}).cause is Cause.NETWORK, "all wait at the same line"


def test_a_program_that_reports_figures_writes_its_stacks_itself_where_there_is_no_py_spy(run: ShepherdRun) -> None:
    answer = collect(run.config, KEYS, "")
    assert answer.note.startswith("py-spy is not installed; install it")
    found = {task.task: task for task in answer.tasks}
    assert [innermost(found[f"w.{index}"]) for index in range(4)] == [*["all_reduce"] * 3, "endless_loop"]
    stopped = found["w.5"].processes[0]
    assert (stopped.state, stopped.threads) == ("T", ()), "it takes no signal"


def test_of_another_program_the_state_and_the_kernels_function_are_known(run: ShepherdRun) -> None:
    key = "j-1/shell.0/1"
    run.launch(key, ["/bin/sh", "-c", "sleep 100; true"])
    run.start(key, key)
    pid = run.started(key).pid
    assert pid is not None
    wait_until(lambda: [proc.stat(child) for child in proc.children(pid)], seconds=30)
    asleep = re.compile(rb"\d+ \(sleep\) S ")  # it has the name before it sleeps
    wait_until(lambda: asleep.match(proc.read(f"/proc/{proc.children(pid)[0]}/stat")), seconds=30)
    [task] = collect(run.config, [key]).tasks
    assert {process.command for process in task.processes} == {"sh", "sleep"}
    assert {process.state for process in task.processes} == {"S"}
    [missing] = collect(run.config, ["j-1/none.0/1"]).tasks
    assert missing.problem == "no attempt j-1/none.0/1 on this node" and not missing.processes


def test_where_the_kernel_does_not_permit_py_spy_the_setting_is_said_once(run: ShepherdRun, tmp_path: Path) -> None:
    refused = tmp_path / "py-spy"
    refused.write_text("#!/bin/sh\necho 'Permission Denied: Try running again with elevated permissions' >&2; exit 1\n")
    refused.chmod(0o755)
    answer = collect(run.config, KEYS, str(tmp_path))
    assert answer.note.startswith("py-spy may not look into the process; `kernel.yama.ptrace_scope = 0` (sysctl), and")
    assert innermost(answer.tasks[3]) == "endless_loop", "faulthandler says it"
    assert answer.tasks[5].processes[0].problem == "py-spy may not look into the process"
