"""The membership API in a pod: connections that go through standard input and output of a program there."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

import grass.task
from grass.task.library.python import grass_relay
from node.runtime.kubernetes.tunnel import Door, Tunnel
from tests.support.waiting import wait_until

PROGRAM = Path(grass.task.__file__).parent / "library" / "python" / "grass_relay.py"


class Streams:
    """A ``Pipe`` of a process on this machine, which stands for the API server between a pod and its agent."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._input, self._output = process.stdin, process.stdout

    def read(self, size: int = -1, /) -> bytes:
        return self._output.read1(size)  # type: ignore[attr-defined, no-any-return]

    def write(self, data: bytes, /) -> int:
        self._input.write(data)
        self._input.flush()
        return len(data)


class Pod(NamedTuple):
    path: str
    """Of the socket in the pod."""
    requests: list[bytes]
    """What arrived at the API."""
    process: subprocess.Popen[bytes]


def serve(listener: socket.socket, requests: list[bytes]) -> None:
    """Answer each request with its own text, as the API does: one for each connection."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            data = connection.recv(1 << 20)
            while b"END" not in data and data:
                data += connection.recv(1 << 20)
            requests.append(data)
            connection.sendall(b"you said " + data)


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    requests: list[bytes] = []
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "api"))
        listener.listen(64)
        threading.Thread(target=serve, args=(listener, requests), daemon=True).start()
        command = [sys.executable, PROGRAM, str(tmp_path / "pod")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            tunnel = Tunnel(Streams(process), Door(str(tmp_path / "api"), "secret-token"))
            thread = threading.Thread(target=tunnel.run)
            thread.start()
            wait_until((tmp_path / "pod").exists)
            yield Pod(str(tmp_path / "pod"), requests, process)
            assert process.stdin is not None
            process.stdin.close()
            thread.join(10)
            assert not thread.is_alive()
        listener.shutdown(socket.SHUT_RDWR)


def ask(pod: Pod, *pieces: bytes) -> bytes:
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(20)
        connection.connect(pod.path)
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while data := connection.recv(1 << 20):
            answer += data
        return answer


def test_a_request_gets_the_token_of_its_pod_whatever_it_says(pod: Pod) -> None:
    said = b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-another\r\nA: b\r\n\r\nEND"
    answer = ask(pod, said)
    wanted = b"GET / HTTP/1.1\r\nAuthorization: Bearer secret-token\r\nHost: x\r\nA: b\r\n\r\nEND"
    assert pod.requests == [wanted] and answer == b"you said " + wanted


def test_a_long_request_arrives_in_pieces_and_comes_back_whole(pod: Pod) -> None:
    body = b"x" * 300_000
    answer = ask(pod, b"PUT / HT", b"TP/1.1\r\nauthorization: a\r\n", b"\r\n", body, b"END")
    assert answer.endswith(body + b"END") and answer.count(b"uthorization") == 1


def test_many_connections_at_once_keep_apart(pod: Pod) -> None:
    answers: dict[int, bytes] = {}

    def one(number: int) -> None:
        answers[number] = ask(pod, b"GET /%d HTTP/1.1\r\n\r\n" % number, b"END")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(answers[number].startswith(b"you said GET /%d HTTP/1.1" % number) for number in range(40))


def test_what_is_no_request_reaches_nobody(pod: Pod) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.connect(pod.path)
        connection.sendall(b"no head")
    assert ask(pod, b"GET / HTTP/1.1\r\n\r\nEND") and len(pod.requests) == 1


def test_the_program_ends_when_the_agent_is_gone(tmp_path: Path) -> None:
    mine, other = socket.socketpair()
    with mine, other:
        relay = grass_relay.Relay(other.fileno(), other.fileno(), silence=0.05)
        relay.listen(str(tmp_path / "pod"))
        relay.run()  # returns, because nothing arrives
