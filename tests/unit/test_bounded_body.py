"""Answers of nodes that were taken over: too large, too slow, or no answers at all."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grass.api.node_link import read_body
from grass.config import ClusterConfig, Secrets
from grass.errors import ConflictError, NodeUnreachableError
from grass.model.lifecycle import NodeState
from grass.wire.node_api import NOTHING, STATUS
from grass.wire.node_record import NodeRecord
from master.node_calls.client import call_node

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """A server that answers one connection. Yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                try:
                    answer(peer)
                except OSError:
                    return  # the other side has heard enough

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def endless(peer: socket.socket) -> None:
    peer.sendall(HEAD)
    while True:
        peer.sendall(b" " * 65536)


def dripping(peer: socket.socket) -> None:
    peer.sendall(HEAD)
    pause = threading.Event()
    while not pause.wait(0.02):
        peer.sendall(b" ")


@pytest.mark.parametrize(("answer", "why"), [(endless, "more than 1MiB"), (dripping, "longer than 0.3 s")])
def test_a_body_ends_at_a_size_and_at_a_time(answer: Callable[[socket.socket], object], why: str) -> None:
    with answering(answer) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        with pytest.raises(OSError, match=why):
            read_body(connection.getresponse(), 0.3 if answer is dripping else 20.0, 1 << 20)
        connection.close()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"[]", NodeUnreachableError),
        (200, b"nonsense", NodeUnreachableError),
        (500, b"{}", NodeUnreachableError),
        (500, b'{"error": {"code": 1, "message": 2}}', NodeUnreachableError),
        (409, b'{"error": {"code": "conflict", "message": "it does not run"}}', ConflictError),
    ],
)
def test_an_answer_of_a_node_is_an_answer_or_an_error_of_grass(
    tmp_path: Path, status: int, body: bytes, error: type[Exception]
) -> None:
    config = ClusterConfig("lab", "test", str(tmp_path), str(tmp_path))
    Secrets(redis={}, node_token="t").save(config.home)
    with answering(lambda peer: peer.sendall(b"HTTP/1.1 %d x\r\n\r\n%b" % (status, body))) as port:
        record = NodeRecord(name="n1", state=NodeState.READY, address="127.0.0.1", api_port=port)
        with pytest.raises(error):
            call_node(config, record, STATUS, NOTHING)
