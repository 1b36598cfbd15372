"""The collector over TCP: who may send what, with the real sender of the node-agent and with attackers' bytes."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgpack
import pytest

from grass.api.collector_link import TlsAddress
from grass.api.daemon_log import Shipping
from grass.model.lifecycle import NodeState
from grass.wire import handshake
from grass.wire.attempt_record import AttemptRecord, field_of
from grass.wire.codec import encode
from grass.wire.daemon_line import tag_of
from grass.wire.keys import TaskKey
from master.collector.listener import OF_ADDRESS
from master.collector.owners import MOST_FOREIGN
from node.agent.forward import Link, Signal
from tests.support.certificates import answer, client_of, cluster_files
from tests.support.collector_run import JOB, KEYS, Collector, block, key_of, send
from tests.support.waiting import wait_until


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    made = Collector(tmp_path)
    yield made
    made.close()


@pytest.fixture
def stop() -> Iterator[Signal]:
    signal = Signal()
    yield signal
    signal.close()


def test_a_node_sends_what_its_attempt_prints(collector: Collector, stop: Signal) -> None:
    assert send(collector, stop, "n1", f"grass.{JOB}.worker.0", block(2, "genuine\n"))
    assert "genuine" in collector.text()


def test_over_tls_a_node_sends_as_itself_and_neither_as_another_nor_in_plain_text(tmp_path: Path, stop: Signal) -> None:
    files = cluster_files(tmp_path / "files", "test", "n1", "n2")
    foreign = cluster_files(tmp_path / "foreign", "test", "n1")
    expired = files.add(tmp_path / "expired", "n1", days=40)
    collector = Collector(tmp_path, files)
    try:
        tag = f"grass.{JOB}.worker.0"
        large = "x" * 300_000 + "\n"
        own, forged = files.nodes["n1"], block(2, "FORGED", len(large) + 5)
        assert send(collector, stop, "n1", tag, block(2, large), block(2, "last\n", len(large)), files=own)
        for other in (files.nodes["n2"], foreign.nodes["n1"], expired):
            assert not send(collector, stop, "n1", tag, forged, files=other)
        with socket.create_connection(collector.address, timeout=5) as plain:
            plain.sendall(msgpack.packb(handshake.ping("n1", b"salt", b"nonce", key_of("n1"))))
            with contextlib.suppress(ConnectionResetError):
                assert b"PONG" not in plain.recv(4096)
        assert collector.dropped.counts["handshake refused"] == 4
        shipping = Shipping(tag_of("n1", "node-agent"), TlsAddress(*collector.address, own, "test"), "n1", key_of("n1"))
        for number in range(3):
            shipping.emit(logging.LogRecord("test", logging.INFO, "", 1, f"entry {number}", None, None))
        wait_until(lambda: all(f"entry {number}" in journal_text(collector) for number in range(3)))
        shipping.close()
        authority = own.authority.read_bytes()
        own.authority.unlink()
        assert not send(collector, stop, "n1", tag, forged, files=own)
        own.authority.write_bytes(authority)
        assert send(collector, stop, "n1", tag, block(2, "again\n", len(large) + 5), files=own)
        assert "last" in collector.text() and "again" in collector.text() and "FORGED" not in collector.text()
    finally:
        collector.close()


def test_a_flood_of_idle_connections_costs_the_collector_no_memory_and_a_node_gets_through(
    tmp_path: Path, stop: Signal
) -> None:
    files = cluster_files(tmp_path / "files", "test", "n1")
    collector = Collector(tmp_path, files)
    try:
        before, tag = resident(), f"grass.{JOB}.worker.0"
        with contextlib.ExitStack() as flood:
            for number in range(800):
                peer = flood.enter_context(socket.create_connection(collector.address, 5, ("127.0.0.2", 0)))
                if number % 2:
                    with contextlib.suppress(OSError):  # it may be closed by now
                        peer.sendall(b"\x16\x03\x01\x02\x00")  # the handshake begins, and goes no further
            assert send(collector, stop, "n1", tag, block(2, "genuine\n"), files=files.nodes["n1"])
            assert "genuine" in collector.text()
            assert 0 < collector.server.unproved <= OF_ADDRESS
            assert resident() - before < 128 << 20
        wait_until(lambda: collector.server.unproved == 0, what="no newcomers")
    finally:
        collector.close()


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_connections_of_nodes_are_no_newcomers(tmp_path: Path, stop: Signal) -> None:
    collector = Collector(tmp_path)
    try:
        link = Link(collector.address, stop.descriptor, "n1", key_of("n1"))
        assert link.connected()
        with contextlib.ExitStack() as flood:
            for _ in range(2 * OF_ADDRESS):  # from the address of the node, too
                flood.enter_context(socket.create_connection(collector.address, 5))
            wait_until(lambda: collector.server.unproved == OF_ADDRESS, what="newcomers at their limit")
            assert link.exchange([(f"grass.{JOB}.worker.0", [block(2, "genuine\n")])])
        link.close()
    finally:
        collector.close()


def test_a_node_sends_nothing_to_a_collector_whose_certificate_has_expired(
    tmp_path: Path, stop: Signal, caplog: pytest.LogCaptureFixture
) -> None:
    files = cluster_files(tmp_path / "files", "test", "n1")
    files.renew_master(days=500)
    collector = Collector(tmp_path, files)
    try:
        tag, own = f"grass.{JOB}.worker.0", files.nodes["n1"]
        assert not send(collector, stop, "n1", tag, block(2, "early\n"), files=own)
        assert "certificate has expired" in caplog.text and collector.text() == ""
    finally:
        collector.close()


def test_the_collector_refuses_a_node_that_speaks_tls_1_2_or_shows_no_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = cluster_files(tmp_path / "files", "test", "n1")
    collector = Collector(tmp_path, files)
    try:
        old = client_of(files.nodes["n1"], ssl.TLSVersion.TLSv1_2)
        assert "HELO" in answer(collector.address, client_of(files.nodes["n1"]))
        for client, why in ((old, "UNSUPPORTED_PROTOCOL"), (client_of(None), "PEER_DID_NOT_RETURN_A_CERTIFICATE")):
            assert "HELO" not in answer(collector.address, client)
            wait_until(lambda why=why: f"handshake refused (TLS: {why})" in caplog.text)
    finally:
        collector.close()


@pytest.mark.parametrize(
    ("node", "key"), [("n1", "guess"), ("n1", ""), ("n2", key_of("n1")), ("stranger", None), ("", "")]
)
def test_who_does_not_know_the_key_of_a_node_of_the_cluster_is_refused(
    collector: Collector, stop: Signal, node: str, key: str | None
) -> None:
    assert not send(collector, stop, node, f"grass.{JOB}.worker.0", block(2, "FORGED"), key=key)
    assert collector.text() == ""


def test_a_node_that_has_left_is_refused(collector: Collector, stop: Signal) -> None:
    collector.put_node("n1", NodeState.LEFT)
    assert not send(collector, stop, "n1", f"grass.{JOB}.worker.0", block(2, "FORGED"))


def test_records_without_a_handshake_are_refused(collector: Collector) -> None:
    with socket.create_connection(collector.address, timeout=5) as connection:
        record = {"attempt": 2, "stream": "stdout", "offset": 0, "time": 1.0, "text": "FORGED"}
        connection.sendall(msgpack.packb([f"grass.{JOB}.worker.0", [[1, record]], {"chunk": "a"}]))
        received = b""
        while data := connection.recv(4096):
            received += data
    assert b"ack" not in received
    assert collector.text() == ""


def test_a_recorded_handshake_is_worth_nothing(collector: Collector) -> None:
    salt = os.urandom(16)
    old = handshake.ping("n1", salt, b"an earlier nonce", key_of("n1"))
    with socket.create_connection(collector.address, timeout=5) as connection:
        connection.sendall(msgpack.packb(old))
        messages = msgpack.Unpacker(raw=True)
        while data := connection.recv(4096):
            messages.feed(data)
    _, answer = list(messages)
    assert answer[:2] == [b"PONG", False]


def test_a_node_cannot_write_for_attempts_of_others_nor_hide_their_lines(collector: Collector, stop: Signal) -> None:
    tag = f"grass.{JOB}.worker.0"
    assert send(collector, stop, "n2", tag, block(2, "FORGED", offset=10**15), block(1, "FORGED"), block(3, "FORGED"))
    assert send(collector, stop, "n2", "grass.no-such-job.worker.0", *[block(1, "FORGED")] * 50)
    assert send(collector, stop, "n1", tag, block(2, "genuine\n"))
    assert "genuine" in collector.text()
    assert not list(collector.logs.rglob("no-such-job*"))
    assert not any("FORGED" in path.read_text() for path in collector.logs.rglob("*.jsonl"))
    assert collector.dropped.counts["not an attempt of this node"] == 53
    assert collector.suspects() == []


def test_a_node_that_goes_on_is_told_to_the_master_agent_once(collector: Collector, stop: Signal) -> None:
    blocks = [block(2, "FORGED")] * (2 * MOST_FOREIGN)
    assert send(collector, stop, "n2", f"grass.{JOB}.worker.0", *blocks)
    assert collector.suspects() == ["n2"]


def test_an_earlier_attempt_is_believed_of_the_node_that_ran_it(collector: Collector, stop: Signal) -> None:
    tag = f"grass.{JOB}.worker.0"
    earlier = AttemptRecord(1, "n2", 1, None, None, 1.0, 2.0)
    collector.backend.apply([("HSET", KEYS.attempts(JOB), field_of(TaskKey("worker", 0), 1), encode(earlier))])
    assert send(collector, stop, "n2", tag, block(1, "late\n"))
    assert send(collector, stop, "n1", tag, block(1, "FORGED"))
    assert "late" in collector.text()
    assert "FORGED" not in collector.text()


def test_the_probe_of_a_node_writes_its_own_block_only(collector: Collector, stop: Signal) -> None:
    assert send(collector, stop, "n1", "grass.grass-probe.n1.0", block(1, "a node joins\n"))
    assert send(collector, stop, "n1", "grass.grass-probe.n2.0", block(1, "FORGED"))
    assert "joins" in collector.text("n1.0", "grass-probe")
    assert collector.text("n2.0", "grass-probe") == ""


def test_a_collector_that_does_not_know_the_key_gets_no_logs(stop: Signal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def answer() -> None:
            connection, _ = impostor.accept()
            with connection:
                connection.sendall(msgpack.packb(handshake.helo(b"nonce")))
                _, salt, _ = handshake.ping_of(msgpack.unpackb(connection.recv(4096), raw=True))
                connection.sendall(msgpack.packb(handshake.pong(salt, b"nonce", "guess")))
                received.append(connection.recv(4096))

        received: list[bytes] = []
        thread = threading.Thread(target=answer)
        thread.start()
        link = Link(impostor.getsockname(), stop.descriptor, "n1", "key")
        assert not link.connected()
        thread.join(10)
    assert received == [b""]


@pytest.mark.parametrize(("key", "sent"), [("key", "PING"), ("", "grass.j.w.0")])
def test_whether_the_key_is_proved_is_a_matter_of_settings_and_not_of_time(key: str, sent: str, stop: Signal) -> None:
    """The collector greets late: a node with a key waits for it, and a node without one sends at once."""
    with socket.create_server(("127.0.0.1", 0)) as collector, ThreadPoolExecutor(1) as pool:
        link = Link(collector.getsockname(), stop.descriptor, "n1", key)
        sending = pool.submit(lambda: link.connected() and link.exchange([("grass.j.w.0", [block(1, "line")])]))
        connection, _ = collector.accept()
        with connection:
            if key:
                assert select.select([connection], [], [], 1.0)[0] == []  # longer than any pause of a slow collector
                connection.sendall(msgpack.packb(handshake.helo(b"nonce")))
            first = msgpack.unpackb(connection.recv(4096), raw=False, unicode_errors="replace")
        assert first[0] == sent
        assert not sending.result(20)


def test_the_digest_is_that_of_the_specification() -> None:
    expected = hashlib.sha512(b"salt" + b"n1" + b"nonce" + b"key").hexdigest()
    assert handshake.digest(b"salt", "n1", b"nonce", "key") == expected


@pytest.mark.parametrize("node", ["n2", None])
def test_daemons_of_a_node_log_as_that_node_only(collector: Collector, node: str | None) -> None:
    own = Shipping(tag_of("n1", "node-agent"), collector.address, "n1", key_of("n1"))
    forger = Shipping(tag_of(node, "node-agent"), collector.address, "n1", key_of("n1"))
    for shipping, text in ((forger, "FORGED"), (own, "genuine")):
        shipping.emit(logging.LogRecord("test", logging.INFO, "", 1, text, None, None))
    wait_until(lambda: collector.dropped.counts["not a daemon of this node"] == 1)
    wait_until(lambda: "genuine" in journal_text(collector))
    for shipping in (forger, own):
        shipping.close()
    assert "FORGED" not in journal_text(collector)


def test_daemons_that_do_not_know_their_nodes_key_log_nothing(collector: Collector) -> None:
    stranger = Shipping(tag_of("n1", "node-agent"), collector.address, "n1", "guess")
    stranger.emit(logging.LogRecord("test", logging.INFO, "", 1, "FORGED", None, None))
    wait_until(lambda: collector.dropped.counts["handshake refused"] >= 1)
    stranger.close()
    assert journal_text(collector) == ""


def journal_text(collector: Collector) -> str:
    return "".join(path.read_text() for path in collector.daemons.glob("*.jsonl"))
