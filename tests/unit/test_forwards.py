"""Connections to a port of a task on its node, with real sockets."""

from __future__ import annotations

import socket
import threading

from node.api.forwards import Forward
from tests.support.waiting import wait_until


def test_a_forward_that_is_over_still_hands_out_the_last_words_and_can_be_closed() -> None:
    alive = threading.Event()
    alive.set()
    with socket.create_server(("127.0.0.1", 0)) as task:
        forward = Forward(("127.0.0.1",), task.getsockname()[1], alive.is_set)
        assert forward.send(1, 0, b"hello", end=False) == 5
        connection, _ = task.accept()
        with connection:
            assert connection.recv(5) == b"hello"
            connection.sendall(b"bye")
        alive.clear()
        wait_until(lambda: forward.over)
    chunks, following, over = forward.output(0)
    assert over and b"".join(data or b"" for _, data in chunks) == b"bye"
    assert forward.output(following) == ([], following, True)
    forward.close(1)
    forward.end()
