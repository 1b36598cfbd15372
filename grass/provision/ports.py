"""Ports of a cluster's two HTTP servers: chosen once, at create, and kept."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import psutil

from grass.errors import ConflictError

LOWEST, HIGHEST = 61000, 65535
"""Above the range from which the kernel takes ports for outgoing connections: a stopped cluster keeps its own."""


def free(host: str, cluster_home: Path, taken: set[int]) -> int:
    """A free port. The search begins where this folder's name says, so that clusters meet rarely."""
    count = HIGHEST - LOWEST + 1
    first = int.from_bytes(hashlib.sha256(os.fsencode(cluster_home)).digest()[:4], "big")
    for step in range(count):
        port = LOWEST + (first + step) % count
        if port not in taken and available(host, port):
            return port
    raise ConflictError(f"no port between {LOWEST} and {HIGHEST} is free on {host}; name one in the settings file")


def available(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def holder(port: int) -> str:
    """Who listens there, as far as this user may know."""
    try:
        for connection in psutil.net_connections("tcp"):
            there = getattr(connection.laddr, "port", None)  # a closed one has no address
            if connection.status == psutil.CONN_LISTEN and there == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except psutil.Error:
        pass
    return "another program"
