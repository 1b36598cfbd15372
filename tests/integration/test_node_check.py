"""The ladder of a check over the real program that measures, as processes of this machine, with faults between them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec import structs

import grass.task
from grass.api.check_run import measure
from grass.api.check_session import program
from grass.checks.judge import judge
from grass.model.beside import holder
from grass.system import clock
from grass.wire.checks import HeldNode, Measurements, ProbeAnswer, ProbeRequest
from grass.wire.codec import Form, encode

PROGRAM = Path(grass.task.__file__).parent / "node_check.py"
ANSWER: Form[ProbeAnswer] = Form(ProbeAnswer)
PATIENCE = 1.0
"""Seconds for a pair."""


class Measuring:
    """The program, and what changes the requests that it gets."""

    def __init__(self, change: Callable[[ProbeRequest], ProbeRequest] = lambda request: request) -> None:
        self._change = change
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: ProbeRequest, seconds: float) -> ProbeAnswer:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(encode(self._change(request)) + "\n")
        self.process.stdin.flush()
        return ANSWER.decode(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@contextmanager
def silent_port() -> Iterator[int]:
    """Yield a port where connections are accepted and never answered, as behind a link that drops all packets."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield int(listener.getsockname()[1])


def measured(broken: set[frozenset[str]], paths: Mapping[str, tuple[str, ...]], level: int = 2) -> Measurements:
    """Check nodes of which some pairs do not reach each other. ``paths``: of all nodes."""
    addresses = {name: f"127.0.0.{at + 1}" for at, name in enumerate(paths)}
    names = {address: name for name, address in addresses.items()}
    with ExitStack() as stack:
        port = stack.enter_context(silent_port())

        def cut(request: ProbeRequest) -> ProbeRequest:
            if request.do == "meet" and frozenset((names[request.peer], names[request.address])) in broken:
                return structs.replace(request, peer="127.0.0.1", port=port)
            return request

        sessions = {name: Measuring(cut) for name in paths}
        for each in sessions.values():
            stack.callback(each.close)
        nodes = [HeldNode(name, "n0.0", addresses[name], path, 0, False) for name, path in paths.items()]
        return measure(nodes, sessions, level, clock.wall, pair_seconds=PATIENCE)  # type: ignore[arg-type]


def pairs_of(node: str, others: str) -> set[frozenset[str]]:
    return {frozenset((node, other)) for other in others if other != node}


def told(broken: set[frozenset[str]], paths: dict[str, tuple[str, ...]]) -> tuple[dict[str, str], str]:
    """Check, and return the bad nodes with their faults, and what is said of all. Times count as equal: others use this
    machine meanwhile."""
    found = measured(broken, paths)
    alone = tuple(structs.replace(each, times={}) for each in found.alone)
    pairs = tuple(structs.replace(each, times=(1.0,) if each.times else ()) for each in found.pairs)
    verdicts = judge(Measurements(alone, pairs), paths)
    bad = {each.node: each.fault for each in verdicts.nodes if each.state == "bad"}
    return bad, " ".join((*verdicts.between, *verdicts.unknown))


def test_a_link_that_drops_everything_is_found_between_real_processes() -> None:
    bad, said = told({frozenset("ab")}, dict.fromkeys("abc", ()))
    assert not bad and "link(a, b): a and b: no answer within 1 s" in said


@pytest.mark.nightly  # test_a_link_that_drops_everything_is_found_between_real_processes
@pytest.mark.parametrize(
    ("broken", "nodes", "bad", "words"),
    [(pairs_of("c", "abd"), "abcd", {"c": "nic"}, ""), ({frozenset("ab")}, "ab", {}, "cannot tell, needs a witness")],
)
def test_other_faults_are_found_between_real_processes(
    broken: set[frozenset[str]], nodes: str, bad: dict[str, str], words: str
) -> None:
    found, said = told(broken, dict.fromkeys(nodes, ()))
    assert found == bad and words in said


@pytest.mark.nightly  # test_a_link_that_drops_everything_is_found_between_real_processes
def test_a_node_alone_measures_levels_0_and_1_in_time() -> None:
    node = Measuring()
    try:
        before = clock.steady()
        looked = node.ask(ProbeRequest("look", "127.0.0.1"), 5)
        looking = clock.steady() - before
        loaded = node.ask(ProbeRequest("load"), 20)
        loading = clock.steady() - before - looking
    finally:
        node.close()
    assert not looked.problems and looked.figures["disk write MiB/s"] > 0 and abs(looked.clock - clock.wall()) < 30
    assert isinstance(loaded.times, dict) and {len(rounds) for rounds in loaded.times.values()} == {2}
    assert loaded.times.keys() == {"matrix", "copy"} and loaded.model
    assert looking < 3 and loading < 15


def test_a_task_holds_a_node_as_long_as_the_program_beside_it(tmp_path: Path) -> None:
    environment = {**os.environ, "GRASS_SCRATCH": str(tmp_path)}
    with subprocess.Popen(
        program(), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as measuring:
        assert measuring.stdin is not None and measuring.stdout is not None
        with subprocess.Popen(holder(stays=1), env=environment, start_new_session=True) as task:
            measuring.stdin.write(encode(ProbeRequest("look", "127.0.0.1")) + "\n")
            measuring.stdin.flush()
            assert not ANSWER.decode(measuring.stdout.readline()).failed
            assert task.poll() is None, "it began first, and waits"
            os.killpg(measuring.pid, signal.SIGKILL)  # as if the client were gone
            assert task.wait(20) == 0
            os.killpg(task.pid, signal.SIGKILL)  # what would end it if no command came


def test_an_address_that_is_not_the_nodes_and_missing_devices_are_faults_and_nonsense_is_answered() -> None:
    node = Measuring()
    try:
        looked = node.ask(ProbeRequest("look", "203.0.113.7", devices=2), 5)
        failed = node.ask(ProbeRequest("meet"), 5)
    finally:
        node.close()
    texts = {problem.cause: problem.text for problem in looked.problems}
    assert texts["host"].startswith("nothing can be reached at its own address 203.0.113.7")
    assert "gpu" in texts and failed.failed
