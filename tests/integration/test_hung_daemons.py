"""Daemons of a node that hang, by a real SIGSTOP: each is restarted or named, and no task is harmed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grass.config import Secrets
from grass.node_config import NodeConfig, NodeHome
from grass.wire.task_events import Ended, Started, Waiting
from node.runtime import proc
from node.runtime.process.client import Patience, ProcessRuntime
from tests.integration.test_node_api import TOKEN, _status
from tests.support.example_run import free_port
from tests.support.examples import chosen
from tests.support.node_run import NodeRun
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

ONE, TWO = "j-1/c.0/1", "j-2/c.0/1"
SHORT = Patience(ask=0.2, name=1.0, kill=3.0)
SHORTEST = Patience(ask=0.1, name=0.3, kill=0.8)


@pytest.fixture
def patience() -> Patience:
    return SHORT


@pytest.fixture
def shepherd(patience: Patience) -> Iterator[ShepherdRun]:
    with ShepherdRun() as run:
        run.runtime.close()
        run.runtime = ProcessRuntime(run.config.socket("shepherd"), patience)
        run.connect()
        yield run


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def go(path: Path) -> str:
    """A script that ends with 7 once the file is there."""
    return f"until [ -e {path} ]; do sleep 0.05; done; echo done; exit 7"


def state(pid: int) -> str:
    stat = proc.stat(pid)
    return stat.state if stat else ""


def test_a_shepherd_that_hangs_is_named_then_killed_and_its_tasks_end_with_their_own_codes(
    shepherd: ShepherdRun,
) -> None:
    flag = shepherd.folder / "flag"
    shepherd.launch("j-1/c", sh(go(flag)))
    shepherd.start("j-1/c", ONE)
    pid = shepherd.started(ONE).pid
    assert shepherd.runtime.trouble() is None
    hung = shepherd.shepherd_pid()
    os.kill(hung, signal.SIGSTOP)
    shepherd.wait(lambda: shepherd.runtime.trouble() is not None)
    assert state(hung) == "T"
    shepherd.relist()
    assert shepherd.shepherd_pid() != hung
    assert shepherd.runtime.trouble() is None
    assert shepherd.known[ONE].pid == pid
    flag.touch()
    assert shepherd.ended(ONE).code == 7
    assert shepherd.stdout(ONE) == "done\n"


def test_a_task_that_ends_while_the_shepherd_hangs_keeps_its_exit_code(shepherd: ShepherdRun) -> None:
    flag = shepherd.folder / "flag"
    shepherd.launch("j-1/c", sh(go(flag)))
    shepherd.start("j-1/c", ONE)
    pid = shepherd.started(ONE).pid
    assert pid is not None
    os.kill(shepherd.shepherd_pid(), signal.SIGSTOP)
    flag.touch()
    wait_until(lambda: state(pid) == "Z", what="the end of the task")
    assert shepherd.ended(ONE).code == 7


def test_a_guard_that_was_stopped_together_with_the_shepherd_starts_the_next_one(shepherd: ShepherdRun) -> None:
    shepherd.launch("j-1/c", ["/bin/sleep", "100"])
    shepherd.start("j-1/c", ONE)
    pid = shepherd.started(ONE).pid
    for each in (shepherd.guard_pid(), shepherd.shepherd_pid()):
        os.kill(each, signal.SIGSTOP)
    shepherd.relist()
    assert (shepherd.known[ONE].pid, shepherd.known[ONE].ended) == (pid, None)


def test_a_stopped_guard_goes_on_when_its_shepherd_is_gone(shepherd: ShepherdRun) -> None:
    shepherd.launch("j-1/c", ["/bin/sleep", "100"])
    shepherd.start("j-1/c", ONE)
    pid, gone = shepherd.started(ONE).pid, shepherd.shepherd_pid()
    os.kill(shepherd.guard_pid(), signal.SIGSTOP)
    os.kill(gone, signal.SIGKILL)
    shepherd.wait(lambda: shepherd.runtime.trouble() is not None)
    shepherd.relist()
    assert shepherd.runtime.trouble() is None and shepherd.shepherd_pid() != gone
    assert (shepherd.known[ONE].pid, shepherd.known[ONE].ended) == (pid, None)


def test_more_callers_than_a_hung_shepherd_has_room_for_do_not_block_its_client(shepherd: ShepherdRun) -> None:
    hung = shepherd.shepherd_pid()
    os.kill(hung, signal.SIGSTOP)
    path = str(shepherd.config.socket("shepherd"))
    callers = []
    for _ in range(200):
        caller = socket.socket(socket.AF_UNIX)
        caller.setblocking(False)
        callers.append(caller)
        try:
            caller.connect(path)
        except BlockingIOError:
            break
    else:
        pytest.fail("the queue of the shepherd's socket has no end")
    late = ProcessRuntime(shepherd.config.socket("shepherd"), SHORT)
    assert late.receive() == []
    wait_until(lambda: late.receive() == [] and late.trouble() is not None, what="the late client's trouble")
    late.close()
    for caller in callers:
        caller.close()
    shepherd.relist()


@pytest.mark.alone  # it has less than a second for each answer
@pytest.mark.parametrize("patience", [SHORTEST])
def test_a_shepherd_that_is_busy_but_answers_is_left_alone(shepherd: ShepherdRun) -> None:
    before, count = shepherd.shepherd_pid(), chosen(6000)
    shepherd.launch("j-1/c", ["/bin/true"])
    keys = [f"j-1/c.{index}/1" for index in range(count)]
    shepherd.start("j-1/c", *keys)
    shepherd.wait(lambda: sum(each.ended is not None for each in shepherd.known.values()) == count, 60)
    assert shepherd.shepherd_pid() == before


def test_a_node_whose_shepherd_hangs_says_so_holds_tasks_back_and_goes_on_by_itself() -> None:
    with NodeRun() as node:
        node.start("exec sleep 1000", ONE)
        pid = node.event(ONE, Started).pid
        hung = node.shepherd.shepherd_pid()
        os.kill(hung, signal.SIGSTOP)
        node.wait(lambda: [each.code for each in node.conditions] == ["runtime"], 30)
        assert "the shepherd of this node does not answer" in node.conditions[0].message
        node.start("exit 3", TWO, launch="j-2/c")
        assert node.event(TWO, Waiting).reason.code == "runtime"
        assert node.ended(TWO, 40).code == 3
        node.wait(lambda: not node.conditions)
        assert state(pid) in ("S", "R")
        assert not node.of(ONE, Ended)


def test_a_worker_of_the_node_api_server_that_hangs_is_replaced(tmp_path: Path) -> None:
    port = free_port()
    config = NodeHome(
        name="x", mode="local", home=str(tmp_path), runtime_dir=str(tmp_path), node=NodeConfig(api_port=port)
    )
    config.save()
    Secrets(redis={}, node_token=TOKEN).save(config.home)
    daemon = subprocess.Popen([sys.executable, "-m", "node.api", str(config.path)])
    try:
        wait_until(lambda: _status(port) is not None, what="the first answer")
        [worker] = psutil.Process(daemon.pid).children()
        os.kill(worker.pid, signal.SIGSTOP)
        wait_until(lambda: not worker.is_running(), seconds=50, what="the end of the hung worker")
        wait_until(lambda: _status(port) is not None, what="the next answer")
    finally:
        daemon.kill()
        daemon.wait()
