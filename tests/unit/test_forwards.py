"""Connections to a port of a task on its node, with real sockets and processes."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from grass.errors import ConflictError, NotFoundError
from node.api.forwards import Forward
from node.runtime.registry import pid
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Stands for the first process of an attempt."""
    with subprocess.Popen(["sleep", "300"]) as running:
        try:
            yield running
        finally:
            running.kill()


def test_a_forward_ends_with_the_attempt_and_still_hands_out_the_last_words(process: subprocess.Popen[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as task:
        forward = Forward(("127.0.0.1",), task.getsockname()[1], os.pidfd_open(process.pid))
        assert forward.send(1, 0, b"hello", end=False) == 5
        connection, _ = task.accept()
        with connection:
            assert connection.recv(5) == b"hello"
            connection.sendall(b"bye")
        assert not forward.over
        process.kill()
        wait_until(lambda: forward.over)
    chunks, following, over = forward.output(0)
    assert over and b"".join(data or b"" for _, data in chunks) == b"bye"
    assert forward.output(following) == ([], following, True)
    forward.close(1)
    forward.end()


def test_a_forward_that_nobody_polls_ends(process: subprocess.Popen[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as task:
        forward = Forward(("127.0.0.1",), task.getsockname()[1], os.pidfd_open(process.pid), abandoned=0.0)
        wait_until(lambda: forward.over)
        forward.end()


def test_only_a_running_attempt_has_a_process() -> None:
    with ShepherdRun() as shepherd:
        shepherd.run(["/bin/true"], key="j-1/c.0/1")
        with pytest.raises(ConflictError, match="does not run now"):
            pid(shepherd.config, "j-1/c.0/1")
        with pytest.raises(NotFoundError, match="no attempt"):
            pid(shepherd.config, "j-1/c.0/2")
