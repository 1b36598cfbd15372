"""Readiness checks that hang, and expressions that need exponential time: real processes, in seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from grass.model.job import Ready
from grass.system import clock
from node.agent import check as checks
from node.agent.check import Check
from node.agent.readiness import WORKERS, Readiness
from tests.support.processes import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(60)


class Said:
    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def __call__(self, what: str, key: str, failure: str) -> None:
        self.said.append((what, key, failure))

    def failure(self, what: str, key: str, seconds: float = 20) -> str:
        found: list[str] = []
        wait_until(lambda: found.extend(each for *said, each in self.said if said == [what, key]) or found, seconds)
        return found[0]


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def readiness(said: Said) -> Iterator[Readiness]:
    before = psutil.Process().children()  # other tests may have a server
    made = Readiness(said)
    yield made
    made.stop()
    for thread in threading.enumerate():
        if thread.name in {"readiness", "child-programs"}:
            thread.join(5)
            assert not thread.is_alive()
    assert set(psutil.Process().children()) <= set(before)


def check(key: str, folder: Path, timeout: float | None = 20.0, **ready: Any) -> Check:
    command = ready.get("command")
    return Check(
        key=key,
        ready=Ready(timeout=timeout, **ready),
        since=clock.steady(),
        address="127.0.0.1",
        ports={},
        outputs=[str(folder / "stdout"), str(folder / "stderr")],
        argv=["/bin/sh", "-c", command] if command else [],
        env=dict(os.environ),
        cwd=str(folder),
    )


@pytest.mark.parametrize(
    "log", [r"port \d+$", "(?i)LISTENING", r"listening on p\w+ 4000\z", "\N{CHECK MARK}. up", r"^\x{2713}", "^(l|i)+st"]
)
def test_an_expression_finds_its_line_while_it_grows(
    readiness: Readiness, said: Said, tmp_path: Path, log: str
) -> None:
    stdout = tmp_path / "stdout"
    stdout.write_bytes(b"not \xff yet\nlis")
    one = check("one", tmp_path, log=log)
    readiness.watch(one)
    wait_until(lambda: one.failed == checks.NO_MATCH)
    with stdout.open("a", encoding="utf-8") as file:
        file.write("tening on port 4000\n\N{CHECK MARK}  up\n")
    assert said.failure("ready", "one") == ""


@pytest.mark.parametrize("log", ["^(a+)+$", "(a|aa)+$", "(.*a){20}$"])
def test_an_expression_that_explodes_elsewhere_takes_no_time(tmp_path: Path, log: str) -> None:
    (tmp_path / "stdout").write_text("a" * 60_000 + "b\n")
    began = time.thread_time()
    one = check("slow", tmp_path, log=log)
    assert one.failure(checks.ChildPrograms()) == checks.NO_MATCH
    assert time.thread_time() - began < 1
    with (tmp_path / "stdout").open("a") as file:
        file.write("b\n" + "a" * 30 + "\n")
    assert one.failure(checks.ChildPrograms()) == ""


def test_an_output_that_its_task_began_anew_is_read_anew(tmp_path: Path) -> None:
    one = check("one", tmp_path, log="^up$")
    (tmp_path / "stdout").write_text("a first line\n")
    for more in ("a shorter one\n", "another that is a good deal longer than the one before it\n", "same"):
        assert one.failure(checks.ChildPrograms()) == checks.NO_MATCH
        (tmp_path / "stdout").write_text(more)
    assert one.failure(checks.ChildPrograms()) == checks.NO_MATCH
    (tmp_path / "stdout").write_text("up\r\n")
    assert one.failure(checks.ChildPrograms()) == ""


@pytest.mark.parametrize("pieces", [["A" * 300_000 + "up\nno\n"], ["A" * 70_000, "up", "up\n", "no"]])
def test_the_end_of_a_long_line_is_no_line(tmp_path: Path, pieces: list[str]) -> None:
    one = check("one", tmp_path, log="^(up)+$")
    for piece in pieces:
        with (tmp_path / "stdout").open("a") as file:
            file.write(piece)
        assert one.failure(checks.ChildPrograms()) == checks.NO_MATCH
    with (tmp_path / "stdout").open("a") as file:
        file.write("\nup")
    assert one.failure(checks.ChildPrograms()) == ""


def test_what_a_command_leaves_in_its_group_ends_with_it(readiness: Readiness, said: Said, tmp_path: Path) -> None:
    readiness.watch(check("one", tmp_path, command="sleep 7775 & true"))
    assert said.failure("ready", "one") == ""
    wait_until(lambda: not running("sleep", "7775"), 5)


def test_what_is_no_expression_any_more_is_said(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text("a line\n")
    failure = check("one", tmp_path, log="(?=up)").failure(checks.ChildPrograms())
    assert failure == "its check is not a valid regular expression: invalid perl operator: (?="


def test_commands_that_hang_delay_nobody_and_are_given_up_in_time(
    readiness: Readiness, said: Said, tmp_path: Path
) -> None:
    for number in range(20):
        readiness.watch(check(f"hangs-{number}", tmp_path, command="sleep 7771; true"))
    readiness.watch(check("well", tmp_path, command="true"))
    assert said.failure("ready", "well") == ""
    assert said.said == [("ready", "well", "")]
    for number in range(20):  # before the command's own limit, which would be said
        readiness.watch(check(f"late-{number}", tmp_path, timeout=1.5, command="sleep 7777; true"))
    for number in range(20):
        assert said.failure("not-ready", f"late-{number}") == "its check has not ended yet"
    wait_until(lambda: not running("sleep", "7777"))


def test_however_many_commands_hang_a_log_is_looked_at(readiness: Readiness, said: Said, tmp_path: Path) -> None:
    for number in range(WORKERS + 1):
        readiness.watch(check(f"hangs-{number}", tmp_path, command="exec sleep 7776"))
    wait_until(lambda: len(running("sleep", "7776")) == WORKERS)
    (tmp_path / "stdout").write_text("up\n")
    readiness.watch(check("well", tmp_path, log="up"))
    assert said.failure("ready", "well") == ""
    assert said.said == [("ready", "well", "")]


def test_a_dropped_check_is_killed_with_all_that_it_started(readiness: Readiness, said: Said, tmp_path: Path) -> None:
    readiness.watch(check("one", tmp_path, command="sleep 7772; true"))
    wait_until(lambda: bool(running("sleep", "7772")))
    readiness.drop("one")
    wait_until(lambda: not running("sleep", "7772"), 5)
    assert said.said == []


def test_stop_kills_what_checks_run(readiness: Readiness, tmp_path: Path) -> None:
    readiness.watch(check("one", tmp_path, command="sleep 7773; true"))
    wait_until(lambda: bool(running("sleep", "7773")))
    readiness.stop()
    wait_until(lambda: not running("sleep", "7773"), 5)


def test_a_check_of_an_agent_that_comes_late_is_tried_all_the_same(
    readiness: Readiness, said: Said, tmp_path: Path
) -> None:
    late = check("late", tmp_path, timeout=10.0, command="sleep 0.2")
    late.since -= 1000
    readiness.watch(late)
    assert said.failure("ready", "late") == ""


def test_checks_end_with_an_agent_that_is_killed() -> None:
    script = """
from node.agent.child_programs import ChildPrograms
check = ChildPrograms().start(["sh", "-c", "sleep 7774; true"])
print(flush=True)
check.wait(100)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None and agent.stdout.readline()
        wait_until(lambda: bool(running("sleep", "7774")))
        agent.send_signal(signal.SIGKILL)
    wait_until(lambda: not running("sleep", "7774"), 5)


def test_a_program_that_still_runs_is_killed_with_what_it_started_when_its_programs_are_closed() -> None:
    programs = checks.ChildPrograms()
    started = programs.start(["sh", "-c", "sleep 60 & wait"], stdin=subprocess.DEVNULL)
    programs.close()
    assert started.wait(10) == -signal.SIGKILL
