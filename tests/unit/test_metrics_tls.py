"""`/metrics` over TLS: real handshakes with certificates that are right, foreign, expired or missing."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from socketserver import ThreadingMixIn

import pytest

from grass.api.metrics_tls import load_context
from grass.errors import ManifestError
from grass.manifest.settings import parse_settings
from grass.model.metrics import MetricsListen
from master.api.metrics_tls import AT_ONCE, MetricsServer
from tests.support.certificates import NOW, Authority
from tests.support.waiting import wait_until


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def listen(authority: Authority) -> MetricsListen:
    return MetricsListen("127.0.0.1:0", *authority.issue("server"), clients=str(authority.path))


def answer(authorization: str, has_certificate: bool) -> tuple[int, str, bytes]:
    allowed = has_certificate or authorization == "Bearer right"
    return (200, "text/plain", b"grass_jobs 1\n") if allowed else (401, "text/plain", b"refused\n")


@contextmanager
def serving(listen: MetricsListen, retry: float = 0.05) -> Iterator[MetricsServer]:
    server = MetricsServer(listen, answer, retry)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ask(server: MetricsServer, authority: Authority, token: str = "", own: tuple[str, str] | None = None) -> int:
    """Return the status. Raises OSError if the handshake fails."""
    context = ssl.create_default_context(cafile=str(authority.path))
    if own is not None:
        context.load_cert_chain(*own)
    wait_until(lambda: server.port)
    connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=20)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        reply = connection.getresponse()
        assert (reply.read() == b"grass_jobs 1\n") is (reply.status == 200)
        return reply.status
    finally:
        connection.close()


def test_a_certificate_or_a_token_opens_the_page_and_nothing_else_does(
    authority: Authority, listen: MetricsListen, tmp_path: Path
) -> None:
    foreign = Authority(tmp_path, "foreign")
    with serving(listen) as server:
        assert ask(server, authority, own=authority.issue("prometheus")) == 200
        assert ask(server, authority, token="right") == 200
        assert ask(server, authority, token="wrong") == ask(server, authority) == 401
        for own in (foreign.issue("stranger"), authority.issue("old", days=-1)):
            with pytest.raises(OSError):
                ask(server, authority, own=own)
        with pytest.raises(ssl.SSLError, match=r"self-signed|unable to get local issuer"):
            ask(server, foreign)


def test_without_authorities_of_clients_a_certificate_opens_nothing(
    authority: Authority, listen: MetricsListen
) -> None:
    with serving(replace(listen, clients=None)) as server:
        assert ask(server, authority, own=authority.issue("prometheus")) == 401
        assert ask(server, authority, token="right") == 200


def test_silent_and_plain_peers_delay_no_scraper(authority: Authority, listen: MetricsListen) -> None:
    with serving(listen) as server:
        wait_until(lambda: server.port)
        with socket.create_connection(("127.0.0.1", server.port)), http_only(server.port) as answered:
            assert answered == b""
            assert ask(server, authority, token="right") == 200


@contextmanager
def http_only(port: int) -> Iterator[bytes]:
    """What a client gets that speaks no TLS."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            yield client.recv(100)
        except ConnectionError:
            yield b""


def test_renewed_files_are_used_without_a_restart_and_wrong_ones_are_not(
    authority: Authority, listen: MetricsListen, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(listen) as server:
        assert ask(server, authority, token="right") == 200
        Path(listen.key).write_text("nonsense")
        assert ask(server, authority, token="right") == 200
        assert "the new files are not used: metrics.key" in caplog.text
        authority.issue("server")
        assert ask(server, authority, token="right") == 200


def test_the_page_is_as_closed_after_damaged_files_and_a_restart(
    authority: Authority, listen: MetricsListen, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "foreign").issue("stranger")
    clients = Path(listen.clients or "")
    whole = clients.read_bytes()
    with serving(listen):
        clients.write_text("nonsense")
    with serving(listen) as server:
        wait_until(lambda: server.trouble)
        assert server.port == 0, "it does not serve without the authority of its clients"
        clients.write_bytes(whole)
        assert ask(server, authority, token="wrong") == ask(server, authority) == 401
        with pytest.raises(OSError):
            ask(server, authority, own=stranger)
        assert ask(server, authority, own=authority.issue("prometheus")) == 200


def test_a_server_whose_files_come_late_starts_then(authority: Authority, listen: MetricsListen) -> None:
    key = Path(listen.key).read_bytes()
    Path(listen.key).unlink()
    with serving(listen) as server:
        wait_until(lambda: server.trouble)
        assert server.trouble == f"metrics.key: {listen.key}: cannot be read (No such file or directory)"
        Path(listen.key).write_bytes(key)
        assert ask(server, authority, token="right") == 200


def test_a_port_that_is_taken_is_said_with_its_setting(listen: MetricsListen) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serving(replace(listen, listen=f"127.0.0.1:{port}")) as server:
            wait_until(lambda: server.trouble)
            assert server.trouble.startswith(f"metrics.listen: 127.0.0.1:{port}: ")


def test_wrong_files_are_refused_with_the_path_of_the_setting(authority: Authority, listen: MetricsListen) -> None:
    other = authority.issue("other")
    locked = authority.issue("locked", password=b"secret")
    text = str(authority.folder / "text")
    Path(text).write_text("no PEM")
    wrong = {
        "metrics.certificate: /nowhere: cannot be read (No such file": replace(listen, certificate="/nowhere"),
        "metrics.clients: /nowhere: cannot be read": replace(listen, clients="/nowhere"),
        f"metrics.certificate: {text} has no certificate": replace(listen, certificate=text),
        f"metrics.key: {other[1]} is not a private key, or not that of {listen.certificate}": replace(
            listen, key=other[1]
        ),
        f"metrics.key: {text} is not a private key": replace(listen, key=text),
        f"metrics.key: {locked[1]}: is encrypted": replace(listen, certificate=locked[0], key=locked[1]),
        f"metrics.clients: {text} has no certificate": replace(listen, clients=text),
    }
    for said, each in wrong.items():
        with pytest.raises(ManifestError) as refused:
            load_context(each, NOW.timestamp())
        assert str(refused.value).startswith(said)
    for later, said in ((2 * 86_400, "expired at"), (-3 * 86_400, "is not valid before")):
        with pytest.raises(ManifestError, match=f"metrics.certificate: .*server.crt {said}"):
            load_context(listen, NOW.timestamp() + later)


@pytest.mark.parametrize(
    ("metrics", "path"),
    [
        ({"listen": "0.0.0.0:9465", "certificate": "/c"}, "metrics.key"),
        ({"listen": "9465", "certificate": "/c", "key": "/k"}, "metrics.listen"),
        ({"listen": "0.0.0.0:99999", "certificate": "/c", "key": "/k"}, "metrics.listen"),
        ({"listen": "0.0.0.0:9465", "certificate": "c", "key": "/k"}, "metrics.certificate"),
        ({"listen": "0.0.0.0:9465", "certificate": "/c", "key": "/k", "ca": "/x"}, "metrics.ca"),
        ("0.0.0.0:9465", "metrics"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_their_path(metrics: object, path: str) -> None:
    with pytest.raises(ManifestError) as refused:
        parse_settings({"mode": "local", "metrics": metrics})
    assert path in [problem.path for problem in refused.value.problems]


def test_settings_name_the_address_and_the_files() -> None:
    document = {"listen": "[::]:9465", "certificate": "/c", "key": "/k", "clients": "/ca"}
    assert parse_settings({"mode": "local", "metrics": document}).metrics == MetricsListen(
        "[::]:9465", "/c", "/k", "/ca"
    )


def test_scrapers_come_in_again_after_threads_could_not_be_started(
    authority: Authority, listen: MetricsListen, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[object] = []

    def no_thread(_server: object, *request: object) -> None:
        refused.append(request)
        raise RuntimeError("can't start new thread")

    with serving(listen) as server:
        wait_until(lambda: server.port)
        with monkeypatch.context() as without:
            without.setattr(ThreadingMixIn, "process_request", no_thread)
            for _ in range(AT_ONCE):
                with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
                    assert peer.recv(1) == b""
        assert len(refused) == AT_ONCE
        assert ask(server, authority, token="right") == 200
