"""An SSH tunnel to the API, for masters with only port 22 open. One SSH connection carries a channel per connection.

Two threads connect each channel to one end of a socket pair, so that the transport gets an ordinary socket. Used by
``transport``.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grass.api.keyring import Profile
    from grass.hosts.ssh import SshHost

_CHUNK = 1 << 16


class Tunnel:
    """One SSH connection, opened with the first socket. Safe for several threads."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self._host: SshHost | None = None

    def close(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def open(self, host: str, port: int) -> socket.socket:
        """Open a socket to ``host:port`` as seen from the master. Raises HostUnreachableError, AccessRefusedError."""
        channel = self._ssh().open_channel(host, port)
        ours, theirs = socket.socketpair()
        ended = threading.Semaphore(0)

        def pump(receive: Callable[[int], bytes], send: Callable[[bytes], object], end: Callable[[], object]) -> None:
            _pump(receive, send, end)
            ended.release()

        def forth() -> None:
            pump(theirs.recv, channel.sendall, channel.shutdown_write)
            ended.acquire()  # both directions have ended
            ended.acquire()
            channel.close()
            theirs.close()

        back = (channel.recv, theirs.sendall, lambda: theirs.shutdown(socket.SHUT_WR))
        threading.Thread(target=forth, daemon=True).start()
        threading.Thread(target=pump, args=back, daemon=True).start()
        return ours

    def _ssh(self) -> SshHost:
        from grass.hosts import Secret
        from grass.hosts.ssh import SshAccess, SshHost
        from grass.system.environment import ssh_password

        with self._lock:
            if self._host is None:
                way = self._profile.tunnel or {}
                password = ssh_password()
                access = SshAccess(
                    way["address"], way["username"], way["port"], way["key"], Secret(password) if password else None
                )
                self._host = SshHost(access, Path(way["known_hosts"]))
            return self._host


def _pump(receive: Callable[[int], bytes], send: Callable[[bytes], object], end: Callable[[], object]) -> None:
    """Copy until the source ends or the target is gone; then call ``end``."""
    with suppress(OSError, EOFError):
        while piece := receive(_CHUNK):
            send(piece)
    with suppress(OSError, EOFError):
        end()
