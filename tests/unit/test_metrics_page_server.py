"""The server of the page of metrics: a page that cannot be made ends no server."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from grass.wire.api_figures import ApiFigures, KeptAnswer
from grass.wire.codec import encode
from master.monitor.page_server import PageServer


def nothing() -> KeptAnswer:
    return KeptAnswer({})


def test_a_page_that_fails_is_logged_and_the_next_one_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pages: list[Exception | bytes] = [KeyError("a figure"), b"# EOF\n"]

    def page(_: ApiFigures) -> bytes:
        made = pages.pop(0)
        if isinstance(made, Exception):
            raise made
        return made

    server = PageServer(tmp_path / "m.sock", page, nothing)
    server.start()
    try:
        assert [ask(tmp_path / "m.sock") for _ in range(2)] == [b"", b"# EOF\n"]
    finally:
        server.stop()
    assert "a page of metrics failed" in caplog.text


def test_pages_are_served_again_once_there_are_file_descriptors_again(tmp_path: Path) -> None:
    server = PageServer(tmp_path / "m.sock", lambda _: b"# EOF\n", nothing)
    server.start()
    try:
        with unconnected() as first, unconnected() as second:
            with no_new_descriptors():
                question(first, tmp_path / "m.sock")  # answered if the server waits already: then it has a descriptor
                question(second, tmp_path / "m.sock")
                second.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    second.recv(100)
            for each in (first, second):
                each.settimeout(20)
                assert each.recv(100) == b"# EOF\n"
    finally:
        server.stop()


@contextmanager
def no_new_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def unconnected() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def question(client: socket.socket, path: Path) -> None:
    client.connect(str(path))
    client.sendall(encode(ApiFigures()).encode() + b"\n")


def ask(path: Path) -> bytes:
    with unconnected() as client:
        question(client, path)
        return b"".join(iter(lambda: client.recv(4096), b""))
