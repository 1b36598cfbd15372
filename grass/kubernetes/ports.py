"""Connections to ports of pods, through the API server. Used by ``grass.api.pod_tunnel`` and
``node.runtime.kubernetes.reach``.

One websocket carries one connection: channel 0 is its data, channel 1 an error.
"""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress

from grass.errors import UnreachableError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.channels import V4, Channels

_DATA, _ERROR = 0, 1
_PORT_BYTES = 2
"""Each channel begins with the number of its port."""
_PIECE = 1 << 16
_REFUSAL_SECONDS = 0.3
"""Seconds that a port which nobody listens on may take to say so. A connection that is open says nothing at first."""
_CERTAIN_SECONDS = 1.0
"""The same where a wrong answer does harm."""


def connect(api: ApiServer, pod: str, port: int, seconds: float) -> socket.socket:
    """Return a connection to a port of the pod with the path ``pod``. Raises GrassError; OSError: nobody listens there.

    ``seconds``: in which a refusal is waited for, at most.
    """
    channels = Channels(api, f"{pod}/portforward", [("ports", str(port))], [V4])
    ours, theirs = socket.socketpair()
    answered = threading.Event()
    pump = _Pump(channels, theirs, answered)
    answered.wait(min(seconds, _REFUSAL_SECONDS))
    if pump.error:
        ours.close()
        raise OSError(pump.error)
    return ours


def answers(api: ApiServer, pod: str, port: int) -> bool:
    """Return whether a connection to a port of the pod is not refused. Raises GrassError."""
    query = [("ports", str(port))]
    with closing(Channels(api, f"{pod}/portforward", query, [V4], _CERTAIN_SECONDS)) as channels:
        begun: set[int] = set()
        for channel, message in channels.receive():
            if channel in begun or len(message) > _PORT_BYTES:
                return channel == _DATA
            begun.add(channel)
        return channels.silent


class _Pump:
    """Moves data between a websocket and a socket, in threads. ``error``: why the port does not answer."""

    def __init__(self, channels: Channels, end: socket.socket, answered: threading.Event) -> None:
        self.error = ""
        self._channels, self._end, self._answered = channels, end, answered
        for run in (self._inward, self._outward):
            threading.Thread(target=run, name="pod-port", daemon=True).start()

    def _inward(self) -> None:
        begun: set[int] = set()
        for channel, message in self._channels.receive():
            data = message if channel in begun else message[_PORT_BYTES:]
            begun.add(channel)
            if not data:
                continue
            if channel == _ERROR:
                self.error = data.decode(errors="replace").strip()
                break
            self._answered.set()
            with suppress(OSError):
                self._end.sendall(data)
        self._answered.set()
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._channels.close()

    def _outward(self) -> None:
        with suppress(OSError, UnreachableError):
            while data := self._end.recv(_PIECE):
                self._channels.send(_DATA, data)
        self._channels.close()
        self._end.close()
