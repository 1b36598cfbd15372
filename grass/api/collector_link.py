"""Connections to the log collector, by fluentd's forward protocol. Used by the shipper and by ``daemon_log``."""

from __future__ import annotations

import os
import select
import socket
from dataclasses import dataclass

import msgpack

from grass import tls
from grass.config import ClusterConfig
from grass.network_address import host_and_port, network_address
from grass.tls_files import MASTER, TlsFiles, identity
from grass.wire import handshake

CONNECT_SECONDS = 5.0
HELO_SECONDS = 5.0
"""Time for a collector that asks for the key to say so."""


@dataclass(frozen=True)
class TlsAddress:
    """Host and port of a collector that speaks TLS. ``files``: of this host."""

    host: str
    port: int
    files: TlsFiles
    cluster: str

    def __str__(self) -> str:
        return network_address(self.host, self.port)


Address = str | tuple[str, int] | TlsAddress
"""The path of a unix socket, or host and port."""


def collector_address(config: ClusterConfig) -> Address:
    """Return the collector's socket on this machine, or the host and port where nodes reach it."""
    if config.collector is None:
        return str(config.socket("collector"))
    host, port = host_and_port(config.collector)
    return TlsAddress(host, port, config.tls_files, config.name) if config.tls else (host, port)


def key_for(config: ClusterConfig, node_token: str) -> str:
    """Return the key that the node proves to the collector; empty if the collector does not ask for it."""
    return handshake.collector_key(node_token) if config.collector_asks else ""


def connect(address: Address, name: str, key: str, stop: int | None = None) -> socket.socket:
    """Connect, and prove over TCP that this is the node ``name``. Raises OSError, CertificateError.

    ``key``: empty if the collector does not ask for it, as a fluentd. ``stop``: a descriptor; once it is readable, the
    collector's greeting is not waited for.
    """
    if not isinstance(address, str):
        connection = _reach(address)
        try:
            if key:
                _greet(connection, name, key, stop)
        except BaseException:
            connection.close()
            raise
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def _reach(address: tuple[str, int] | TlsAddress) -> socket.socket:
    if isinstance(address, tuple):
        return socket.create_connection(address, timeout=CONNECT_SECONDS)
    plain = socket.create_connection((address.host, address.port), timeout=CONNECT_SECONDS)
    return tls.wrap(plain, address.files, identity(address.cluster, MASTER))


def _greet(connection: socket.socket, name: str, key: str, stop: int | None) -> None:
    """Prove that this node knows its key, once the collector asks for it."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    if stop is not None:
        poll.register(stop, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(HELO_SECONDS * 1000)}
    if not ready:
        raise TimeoutError(f"it did not ask for this node's key within {HELO_SECONDS:g} s")
    if connection.fileno() not in ready:
        raise InterruptedError("stopping")
    messages = msgpack.Unpacker(raw=True, max_buffer_size=handshake.LIMIT)
    try:
        nonce, salt = handshake.nonce_of(_receive(connection, messages)), os.urandom(16)
        connection.sendall(msgpack.packb(handshake.ping(name, salt, nonce, key)))
        handshake.check_pong(_receive(connection, messages), salt, nonce, key)
    except (ValueError, msgpack.UnpackException) as error:
        raise ConnectionError(f"it does not speak the forward protocol: {error}") from error


def _receive(connection: socket.socket, messages: msgpack.Unpacker) -> object:
    """Return the next message of the handshake."""
    while True:
        for message in messages:
            return message
        received = connection.recv(handshake.LIMIT)
        if not received:
            raise ConnectionResetError("it closed the connection during the handshake")
        messages.feed(received)
