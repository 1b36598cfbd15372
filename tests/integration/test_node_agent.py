"""The node-agent as a process, over a real redis and a real shepherd; the test plays the master-agent."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from grass.store.embedded import NoRedisError, find_server
from grass.system import clock
from grass.wire.task_events import Ended, Ready, Started, Waiting
from grass.wire.version import PROTOCOL
from node.runtime.process.client import ask
from node.runtime.shepherd_messages import ListAttempts
from tests.support.example_run import free_port
from tests.support.examples import chosen
from tests.support.needs import missing, require_root
from tests.support.node_run import NodeRun
from tests.support.processes import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

ONE, TWO = "j-1/c.0/1", "j-1/c.1/1"


@pytest.fixture
def node() -> Iterator[NodeRun]:
    try:
        find_server()
    except NoRedisError as error:
        missing("redis", str(error))
    with NodeRun() as run:
        yield run


def keys(count: int) -> list[str]:
    return [f"j-1/c.{index}/1" for index in range(count)]


def ready(**check: Any) -> dict[str, Any]:
    return {"port": None, "command": None, "log": None, "timeout": 20.0, **check}


def test_it_says_hello_and_then_that_it_lives(node: NodeRun) -> None:
    node.wait(lambda: node.heartbeats > 0)
    [hello] = node.hellos
    assert hello.boot_id == clock.boot_id()
    assert hello.address == "127.0.0.1"
    assert hello.resources.cpu >= 1000 and hello.resources.memory > 1 << 20


def test_it_notes_the_nodes_that_were_removed_from_the_cluster(node: NodeRun) -> None:
    noted = node.config.node_dir / "revoked.json"
    for name, at in (("n8", clock.wall()), ("n9", clock.wall())):
        node.backend.apply([("XADD", node.keys.revoked, 10, "node", name, "at", f"{at:.3f}")])
        wait_until(lambda name=name: noted.exists() and name in noted.read_text(), what="the note")
    assert "n8" in noted.read_text()


def test_a_task_starts_runs_with_its_environment_ends_and_leaves_nothing(node: NodeRun) -> None:
    node.change(addresses={"j-1": "j.c.0 127.0.0.1 4000 params\n"})
    node.start("cat $GRASS_ADDRESSES; echo $GRASS_TASK $EPOCHS; exit 3", ONE, env={"EPOCHS": "5"})
    ended = node.ended(ONE)
    assert (ended.code, ended.signal, ended.reason) == (3, None, None)
    assert node.path(ONE, "stdout").read_text() == "j.c.0 127.0.0.1 4000 params\nj.c.0 5\n"
    assert ended.sizes == {"stdout": node.path(ONE, "stdout").stat().st_size, "stderr": 0}
    assert ended.started <= ended.at
    node.start("exit 0", "j-1/d.0/1", launch="j-1/d")
    node.ended("j-1/d.0/1")
    node.change(remove=[ONE, "j-1/d.0/1"], drop=["j-1/c", "j-1/d"])
    node.wait(lambda: ask(node.config.socket("shepherd"), ListAttempts()) == [])
    node.wait(lambda: not node.path("j-1/d.0/1", "stdout").exists())
    node.wait(lambda: not (node.config.node_dir / "jobs" / "j-1").exists())
    assert node.path(ONE, "stdout").exists()  # there is no collector: its log is not shipped yet


def test_an_attempt_that_failed_by_itself_says_why_without_secrets(node: NodeRun) -> None:
    node.start("echo saved; echo no login with $MY_TOKEN >&2; exit 3", ONE, env={"MY_TOKEN": "s3cr3t"})
    assert node.ended(ONE).cause == "no login with [REDACTED]"
    node.start("echo oops: error; exit 0", "j-1/d.0/1", launch="j-1/d")
    assert node.ended("j-1/d.0/1").cause == ""


def test_what_cannot_start_says_so(node: NodeRun) -> None:
    node.start(["no-such-program"], ONE)
    ended = node.ended(ONE)
    assert ended.code == 127 and ended.reason.code == "cannot-start"


def test_a_port_that_another_program_holds_is_said_to_be_taken(node: NodeRun) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        node.start("true", ONE, ports={"params": other.getsockname()[1]})
        ended = node.ended(ONE)
    assert ended.reason.code == "port-taken" and ended.started is None
    assert not node.path(ONE, "stdout").exists()


def test_ready_when_the_port_answers(node: NodeRun) -> None:
    port = free_port()
    script = """
import os, socket, time
server = socket.create_server(("127.0.0.1", int(os.environ["GRASS_PORT_P"])))
time.sleep(100)
"""
    node.start([sys.executable, "-c", script], ONE, ports={"p": port}, ready=ready(port="p"))
    node.event(ONE, Ready)
    assert [type(each) for each in node.events if not isinstance(each, Waiting)] == [Started, Ready]


def test_ready_when_the_command_succeeds_in_the_tasks_own_place(node: NodeRun) -> None:
    node.start("sleep 0.1; touch up; sleep 100", ONE, ready=ready(command='test -e "$GRASS_SCRATCH/up" -a -e up'))
    node.event(ONE, Ready)


def test_ready_when_a_line_of_the_log_matches(node: NodeRun) -> None:
    node.start(
        "echo not yet; sleep 0.1; echo listening on 4000 >&2; sleep 100", ONE, ready=ready(log=r"listening on \d+$")
    )
    node.event(ONE, Ready)


@pytest.mark.parametrize(
    ("check", "failure"),
    [
        ({"command": ["nonesuch-check"]}, "its check cannot run nonesuch-check: No such file or directory"),
        ({"command": "exit 3"}, "its check ended with exit code 3"),
        ({"log": "up"}, "no line of its output matches its check"),
    ],
)
def test_why_it_is_not_ready_yet_is_told(node: NodeRun, check: dict[str, Any], failure: str) -> None:
    node.start("sleep 100", ONE, ready=ready(**check))
    reason = node.event(ONE, Waiting).reason
    assert (reason.code, reason.message) == ("not-ready", f"not ready yet: {failure}")


def test_what_does_not_get_ready_in_time_is_stopped(node: NodeRun) -> None:
    node.start("sleep 100", ONE, ready=ready(log="never", timeout=0.3))
    ended = node.ended(ONE)
    assert ended.signal == signal.SIGTERM
    assert (ended.reason.code, ended.reason.message) == (
        "timeout",
        "not ready after 0.3 s: no line of its output matches its check",
    )
    assert not node.of(ONE, Ready)


def test_an_expression_that_takes_for_ever_costs_its_task_only(node: NodeRun) -> None:
    check = ready(log="^(a+)+$", timeout=1.0)
    node.start(f"echo {'a' * 40}b; exec sleep 100", ONE, ready=check)
    ended = node.ended(ONE, 10)
    assert ended.reason.message.startswith("not ready after 1 s: ")
    node.start(f"echo {'a' * 40}b; exec sleep 100", "j-1/d.0/1", launch="j-1/d", ready={**check, "timeout": None})
    node.event("j-1/d.0/1", Started)
    before = node.heartbeats
    node.wait(lambda: node.heartbeats > before + 1)
    node.stop("j-1/d.0/1")
    assert node.ended("j-1/d.0/1", 5).signal == signal.SIGTERM


def test_a_check_ends_with_its_task_and_with_the_agent(node: NodeRun) -> None:
    one, two = (f"778{number}.{os.getpid()}" for number in range(2))

    def checks() -> list[str]:
        return [seconds for seconds in (one, two) if running("sleep", seconds)]

    node.start("exec sleep 100", ONE, ready=ready(command=f"sleep {one}; true"))
    node.start("exec sleep 100", "j-1/d.0/1", launch="j-1/d", ready=ready(command=f"sleep {two}; true"))
    node.wait(lambda: checks() == [one, two])
    node.stop(ONE)
    node.ended(ONE)
    node.wait(lambda: checks() == [two], 5)
    node.kill_agent()
    node.wait(lambda: not checks(), 5)
    node.start_agent()
    node.wait(lambda: checks() == [two])
    node.stop("j-1/d.0/1")
    node.ended("j-1/d.0/1")
    node.wait(lambda: not checks(), 5)


def test_a_task_that_is_over_its_time_limit_is_stopped(node: NodeRun) -> None:
    node.start("exec sleep 100", ONE, timeout=0.3)
    ended = node.ended(ONE)
    assert ended.signal == signal.SIGTERM
    assert ended.reason.message == "ran longer than its limit of 0.3 s"


def test_stopping_reaches_what_runs_and_what_waits(node: NodeRun) -> None:
    node.start("exec sleep 100", *keys(3), width=1)
    node.event(keys(3)[0], Started)
    node.stop(*keys(3))
    first, *others = [node.ended(key) for key in keys(3)]
    assert first.signal == signal.SIGTERM
    assert [(each.code, each.signal, each.started) for each in others] == [(None, None, None)] * 2


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A control group whose processes can be held in state D, where KILL does not reach them."""
    require_root()
    folder = Path("/sys/fs/cgroup/freezer") / f"grass-test-{os.getpid()}"
    if not folder.parent.is_dir():
        pytest.skip("needs the freezer of control groups version 1")
    folder.mkdir()
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    wait_until(lambda: not (folder / "cgroup.procs").read_text(), what="the end of what was frozen")
    folder.rmdir()


def test_a_task_that_the_kernel_does_not_let_go_is_told_and_its_node_takes_no_others(
    freezer: Path, node: NodeRun
) -> None:
    node.start("sleep 100 & wait", ONE)
    child = node.event(ONE, Started).pid
    (freezer / "cgroup.procs").write_text(str(child))
    (freezer / "freezer.state").write_text("FROZEN")
    node.stop(ONE, grace=0.1)
    reason = node.event(ONE, Waiting).reason
    assert reason is not None and reason.code == "stuck"
    assert f"process {child} (sh) of a task does not end after KILL" in reason.message
    node.wait(lambda: [each.code for each in node.conditions] == ["stuck"])
    node.start("true", TWO)
    held = node.event(TWO, Waiting).reason
    assert held is not None and held.code == "stuck"
    (freezer / "freezer.state").write_text("THAWED")
    assert node.ended(ONE).signal == signal.SIGKILL
    node.wait(lambda: not node.conditions)
    assert node.ended(TWO).code == 0


def test_kill_9_of_the_agent_loses_no_end_and_starts_nothing_twice(node: NodeRun) -> None:
    command = "echo run; sleep 0.$((GRASS_INDEX * 4)); exit $((GRASS_INDEX + 1))"
    node.start(command, *keys(20))
    node.wait(lambda: {each.key for each in node.events} == set(keys(20)))
    node.kill_agent()
    node.start_agent()
    for index, key in enumerate(keys(20)):
        assert node.ended(key).code == index + 1
        assert node.path(key, "stdout").read_text() == "run\n"
    node.wait(lambda: len(node.hellos) == 2)


def test_kill_9_of_the_shepherd_under_an_array_is_not_noticed_by_the_master(node: NodeRun) -> None:
    node.start("echo run; exit 7", *keys(300), width=4)
    for done in (60, 150):
        node.wait(lambda done=done: sum(isinstance(each, Ended) for each in node.events) >= done)
        node.shepherd.kill_shepherd()
    for key in keys(300):
        ended = node.ended(key)
        assert (ended.code, ended.reason) == (7, None), key
        assert node.path(key, "stdout").read_text() == "run\n", key


def test_while_redis_is_away_the_node_goes_on_and_tells_it_all_afterwards(node: NodeRun) -> None:
    node.start("echo run; sleep 0.02; exit $((GRASS_INDEX % 50))", *keys(100), width=2)
    node.wait(lambda: len(node.events) > 10)
    node.redis.kill()
    shepherd = node.config.socket("shepherd")
    deadline = time.monotonic() + 30
    while sum(attempt.ended is not None for attempt in ask(shepherd, ListAttempts())) < 100:
        assert time.monotonic() < deadline
    node.redis.start()
    node.backend.close()
    node.backend = node.redis.backend("admin")
    for index, key in enumerate(keys(100)):
        assert node.ended(key).code == index % 50
        assert node.path(key, "stdout").read_text() == "run\n"
    node.start("exit 0", "j-1/d.0/1", launch="j-1/d")
    node.ended("j-1/d.0/1")


def test_changes_that_were_trimmed_before_they_were_read_are_made_up_for(node: NodeRun) -> None:
    node.start("sleep 100", ONE)
    node.event(ONE, Started)
    assert node.agent is not None
    node.agent.send_signal(signal.SIGSTOP)
    node.stop(ONE)
    for number in range(200):
        node.change(addresses={"j-9": f"{number}\n"})
    stream = node.keys.changes("local")
    entries = node.backend.stream(stream, "0", 1000)
    node.backend.apply([("XDEL", stream, *[entry_id for entry_id, _ in entries[:-10]])])
    node.agent.send_signal(signal.SIGCONT)
    assert node.ended(ONE).signal == signal.SIGTERM


def test_sigterm_ends_the_agent_and_not_the_tasks(node: NodeRun) -> None:
    node.start("until [ -e go ]; do sleep 0.02; done; exit 5", ONE)
    node.event(ONE, Started)
    node.end_agent()
    [running] = ask(node.config.socket("shepherd"), ListAttempts())
    assert running.ended is None
    node.start_agent()
    (node.path(ONE, "scratch") / "go").touch()
    assert node.ended(ONE).code == 5


def test_when_the_machine_shuts_down_the_master_learns_it_first_and_no_task_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = tmp_path / "systemctl"  # in place of the machine's, which does not shut down
    says.write_text("#!/bin/sh\necho stopping\n")
    says.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with NodeRun() as node:
        node.start("trap 'echo saved; exit 0' TERM; echo begun; while true; do sleep 0.1; done", ONE)
        node.wait(lambda: node.path(ONE, "stdout").exists() and "begun" in node.path(ONE, "stdout").read_text())
        assert node.agent is not None
        node.agent.terminate()
        node.wait(lambda: [each.code for each in node.conditions] == ["shutdown"])
        ended = node.ended(ONE)
        assert ended.reason.code == "node-stopped"
        assert node.path(ONE, "stdout").read_text() == "begun\nsaved\n"
        assert node.agent.wait(15) == 0


def test_what_the_master_does_not_want_any_more_is_stopped(node: NodeRun) -> None:
    node.start("exec sleep 100", ONE)
    node.event(ONE, Started)
    node.end_agent()
    node.change(remove=[ONE], drop=["j-1/c"])
    node.start_agent()
    node.wait(lambda: ask(node.config.socket("shepherd"), ListAttempts()) == [])
    node.wait(lambda: not node.path(ONE, "stdout").exists())


def test_an_array_of_thousands_of_tiny_tasks(node: NodeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """From the order to the last report, two at a time; and what that costs. 5000 with ``--long``."""
    count = chosen(5000)
    assert node.agent is not None
    node.wait(lambda: bool(node.hellos))
    agent, shepherd = psutil.Process(node.agent.pid), psutil.Process(node.shepherd.shepherd_pid())
    before = [sum(each.cpu_times()[:2]) for each in (agent, shepherd)]
    began = clock.steady()
    node.start(["/bin/true"], *keys(count), width=2)
    done: set[str] = set()
    while len(done) < count:
        node.take()
        done |= {each.key for each in node.events if isinstance(each, Ended) and each.code == 0}
        assert all(each.code == 0 for each in node.events if isinstance(each, Ended))
        node.events.clear()
        assert clock.steady() - began < 60
    seconds = clock.steady() - began
    cost = [sum(each.cpu_times()[:2]) - was for each, was in zip((agent, shepherd), before, strict=True)]
    memory = agent.memory_full_info().pss >> 20
    with capsys.disabled():
        print(f"\nnode-agent and shepherd: {count / seconds:.0f} tasks/s; ", end="")
        print(
            f"{cost[0] * 1e6 / count:.0f} + {cost[1] * 1e6 / count:.0f} µs of CPU a task; node-agent {memory} MiB PSS"
        )
    assert memory < 60


def test_a_master_whose_words_this_version_cannot_read_is_told_what_it_speaks_and_changes_nothing(
    node: NodeRun,
) -> None:
    node.start("exec sleep 1000", ONE)
    node.event(ONE, Started)
    node.wait(lambda: len(node.hellos) == 1)
    template = node.backend.hgetall(node.keys.launch("local"))
    node.backend.apply([("HSET", node.keys.launch("local"), "j-9/c", '{"words": "of another protocol"}')])
    node.kill_agent()
    node.start_agent()
    node.wait(lambda: len(node.hellos) == 2)
    assert node.hellos[1].protocol == PROTOCOL
    node.backend.apply([("HDEL", node.keys.launch("local"), "j-9/c")])
    assert node.backend.hgetall(node.keys.launch("local")) == template
    node.start("exit 4", "j-2/c.0/1", launch="j-2/c")
    assert node.ended("j-2/c.0/1").code == 4
    assert not node.of(ONE, Ended)


def test_an_attempt_that_the_agent_cannot_prepare_ends_alone(node: NodeRun) -> None:
    node.defect = "IndexError: tuple index out of range"
    node.start("true", "j-1/c.5/1", entries=["the entry of task 0"])
    reason = node.ended("j-1/c.5/1").reason
    assert reason is not None and "internal error of the node-agent (IndexError" in reason.message
    node.start("echo fine", "j-2/c.0/1", launch="j-2/c")
    assert node.ended("j-2/c.0/1").code == 0
