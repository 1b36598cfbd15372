"""Ports of a cluster's two HTTP servers: chosen once, at create, and kept.

Used by ``doctor``, ``layout`` and ``local_findings``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from pathlib import Path

import psutil

from grass.errors import ConflictError, InputError

LOWEST, HIGHEST = 61000, 65535
"""Range of ports, above the kernel's range for outgoing connections, so that a stopped cluster's ports stay free."""


def free(host: str, cluster_home: Path, taken: set[int]) -> int:
    """Return a free port. The search starts at a hash of the folder's path, so that clusters rarely collide."""
    count = HIGHEST - LOWEST + 1
    first = int.from_bytes(hashlib.sha256(os.fsencode(cluster_home)).digest()[:4], "big")
    for step in range(count):
        port = LOWEST + (first + step) % count
        if port not in taken and available(host, port):
            return port
    raise ConflictError(f"no port between {LOWEST} and {HIGHEST} is free on {host}; name one in the settings file")


def available(host: str, port: int) -> bool:
    """Return whether the port is free. Raises InputError: the machine does not have that address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the servers also set this option
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise InputError(_no_address(host)) from error
            return False
    return True


def check_address(host: str) -> None:
    """Check that a server at this address can be reached from this machine. Raises InputError."""
    try:
        with socket.create_server((host, 0)) as server, socket.create_connection(server.getsockname()[:2], 5):
            pass
    except OSError as error:
        raise InputError(_no_address(host)) from error


def _no_address(host: str) -> str:
    if host.startswith("127."):
        return f"{host} does not work here: set the loopback up (`ip link set lo up; ip addr add 127.0.0.1/8 dev lo`)"
    return f"{host} is not an address of this machine"


def holder(port: int) -> str:
    """Return the program that listens on the port, if this user has permission to know."""
    try:
        for connection in psutil.net_connections("tcp"):
            there = getattr(connection.laddr, "port", None)  # a closed connection has no address
            if connection.status == psutil.CONN_LISTEN and there == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        pass
    return "another program"
