"""Ports of attempts whose first process is on this machine. Used by the kinds of runtimes, and ``node.agent.check``."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable

from grass.errors import ConflictError
from grass.node_config import NodeHome


def connection(hosts: Iterable[str], port: int, seconds: float) -> socket.socket:
    """Connect to the first of these hosts that answers within ``seconds``. Raises OSError."""
    why = OSError("no address")
    for host in dict.fromkeys(hosts):
        try:
            return socket.create_connection((host, port), seconds)
        except OSError as error:
            why = error
    raise why


def answers(hosts: Iterable[str], port: int) -> bool:
    """Return whether a program listens on this port of one of these hosts."""
    try:
        connection(hosts, port, 1.0).close()
    except OSError:
        return False
    return True


class HostReach:
    """A ``Reach`` through the ports of this machine."""

    def __init__(self, config: NodeHome, key: str, pid: Callable[[NodeHome, str], int]) -> None:
        """``pid`` finds the attempt's first process. Raises as it does, and ConflictError if the process has ended."""
        self._hosts = ("127.0.0.1", config.node.address)
        number = pid(config, key)
        try:
            self._process = os.pidfd_open(number)
        except ProcessLookupError as error:
            raise ConflictError(f"attempt {key} does not run now") from error
        try:
            if pid(config, key) != number:  # it has ended, and another process got its pid
                raise ConflictError(f"attempt {key} does not run now")
        except BaseException:
            self.close()
            raise

    def connect(self, port: int, seconds: float) -> socket.socket:
        return connection(self._hosts, port, seconds)

    def fileno(self) -> int:
        return self._process

    def close(self) -> None:
        os.close(self._process)
