"""The API through SSH, where port 22 is all that is open: one SSH connection, a channel of it for each one of HTTP.

A channel is joined to one end of a socket pair by two threads, so that everything above it has an ordinary socket.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grass.api.keyring import Profile
    from grass.hosts.ssh import SshHost

_CHUNK = 1 << 16


class Tunnel:
    """Safe for several threads. Connects with the first connection that is asked for."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self._host: SshHost | None = None

    def close(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def open(self, host: str, port: int) -> socket.socket:
        """A socket to ``host:port`` as the master sees it. Raises HostUnreachableError, AccessRefusedError."""
        channel = self._ssh().open_channel(host, port)
        ours, theirs = socket.socketpair()
        ended = threading.Semaphore(0)

        def pump(receive: Callable[[int], bytes], send: Callable[[bytes], object], end: Callable[[], object]) -> None:
            _pump(receive, send, end)
            ended.release()

        def forth() -> None:
            pump(theirs.recv, channel.sendall, channel.shutdown_write)
            ended.acquire()  # by then the other direction has ended, too
            ended.acquire()
            channel.close()
            theirs.close()

        back = (channel.recv, theirs.sendall, lambda: theirs.shutdown(socket.SHUT_WR))
        threading.Thread(target=forth, daemon=True).start()
        threading.Thread(target=pump, args=back, daemon=True).start()
        return ours

    def _ssh(self) -> SshHost:
        from grass.environment import ssh_password
        from grass.hosts import Secret
        from grass.hosts.ssh import SshAccess, SshHost

        with self._lock:
            if self._host is None:
                way: dict[str, Any] = self._profile.tunnel or {}
                password = ssh_password()
                access = SshAccess(
                    way["address"], way["username"], way["port"], way["key"], Secret(password) if password else None
                )
                self._host = SshHost(access, Path(way["known_hosts"]))
            return self._host


def _pump(receive: Callable[[int], bytes], send: Callable[[bytes], object], end: Callable[[], object]) -> None:
    """Until the source ends or the target is gone; then ``end``."""
    with suppress(OSError, EOFError):
        while piece := receive(_CHUNK):
            send(piece)
    with suppress(OSError, EOFError):
        end()
