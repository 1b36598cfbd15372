"""Connections to a port of a task on its node, with real sockets and processes, and to a task that is elsewhere."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grass.errors import ConflictError, NotFoundError
from grass.wire.calls import ForwardInput
from node.api.forwards import Forward
from node.runtime.kind import Reach
from node.runtime.reach import HostReach
from node.runtime.registry import reach
from tests.support.shepherd_run import ShepherdRun, cluster_config
from tests.support.waiting import wait_until


class Elsewhere:
    """The ports of a task without a process of this machine: each connection is handed to ``accepted``."""

    def __init__(self) -> None:
        self._ended = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.accepted: list[socket.socket] = []

    def connect(self, port: int, seconds: float) -> socket.socket:
        ours, theirs = socket.socketpair()
        self.accepted.append(theirs)
        return ours

    def fileno(self) -> int:
        return self._ended

    def close(self) -> None:
        os.close(self._ended)

    def end(self) -> None:
        os.eventfd_write(self._ended, 1)


class Task:
    """A task that listens. ``end`` ends it."""

    def __init__(self, reach: Reach, port: int, accept: Callable[[], socket.socket], end: Callable[[], None]) -> None:
        self.reach, self.port, self.accept, self.end = reach, port, accept, end


@pytest.fixture(params=["on this machine", "elsewhere"])
def task(request: pytest.FixtureRequest) -> Iterator[Task]:
    if request.param == "elsewhere":
        elsewhere = Elsewhere()
        yield Task(elsewhere, 80, lambda: elsewhere.accepted[0], elsewhere.end)
        for each in elsewhere.accepted:
            each.close()
        return
    config = cluster_config(request.getfixturevalue("tmp_path"))
    with subprocess.Popen(["sleep", "300"]) as process, socket.create_server(("127.0.0.1", 0)) as server:
        try:
            here = HostReach(config, "j-1/c.0/1", lambda config, key: process.pid)
            yield Task(here, server.getsockname()[1], lambda: server.accept()[0], process.kill)
        finally:
            process.kill()


def test_a_forward_ends_with_the_attempt_and_still_hands_out_the_last_words(task: Task) -> None:
    forward = Forward(task.reach, task.port)
    assert forward.give(ForwardInput(connection=1, at=0, data=b"hello")) == 5
    with task.accept() as connection:
        assert connection.recv(5) == b"hello"
        connection.sendall(b"bye")
    assert not forward.over
    task.end()
    wait_until(lambda: forward.over)
    chunks, following, over = forward.read_after(0)
    assert over and b"".join(data or b"" for _, data in chunks) == b"bye"
    assert forward.read_after(following) == ([], following, True)
    forward.close(1)
    forward.end()


def test_a_forward_that_nobody_polls_ends_and_closes_what_it_watches(task: Task) -> None:
    forward = Forward(task.reach, task.port, abandoned=0.0)
    wait_until(lambda: forward.over)
    forward.end()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(task.reach.fileno())


def test_a_port_at_which_nothing_listens_is_refused() -> None:
    with ShepherdRun() as shepherd, socket.create_server(("127.0.0.1", 0)) as other:
        free = other.getsockname()[1]
        other.close()
        shepherd.connect()
        shepherd.launch("j-1/c", ["/bin/sleep", "100"])
        shepherd.start("j-1/c", "j-1/c.0/1")
        shepherd.started("j-1/c.0/1")
        forward = Forward(reach(shepherd.config, "j-1/c.0/1"), free)
        with pytest.raises(ConflictError, match=f"nothing answers on port {free} of the task: connection refused"):
            forward.give(ForwardInput(connection=1, at=0, data=b"hello"))
        forward.end()


def test_only_the_ports_of_a_running_attempt_are_reached() -> None:
    with ShepherdRun() as shepherd:
        shepherd.run(["/bin/true"], key="j-1/c.0/1")
        with pytest.raises(ConflictError, match="does not run now"):
            reach(shepherd.config, "j-1/c.0/1")
        with pytest.raises(NotFoundError, match="no attempt"):
            reach(shepherd.config, "j-1/c.0/2")


def test_a_process_that_got_the_pid_of_an_attempt_that_ended_is_not_taken_for_it(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "300"]) as process:
        try:
            answers = iter([process.pid, 1])
            before = len(list(Path("/proc/self/fd").iterdir()))
            with pytest.raises(ConflictError, match="does not run now"):
                HostReach(cluster_config(tmp_path), "j-1/c.0/1", lambda config, key: next(answers))
            assert len(list(Path("/proc/self/fd").iterdir())) == before
        finally:
            process.kill()
