"""Ports of the pod of an attempt, through the API server: nothing else leads into a namespace. Used by ``kind``.

One websocket carries one connection: channel 0 is its data, channel 1 an error.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing, suppress

from grass.errors import ConflictError, GrassError, NotFoundError, UnreachableError
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.objects import POD, Pod
from node.runtime.kubernetes.channels import V4, Channels
from node.runtime.kubernetes.judge import Runs, judge

_DATA, _ERROR = 0, 1
_PORT_BYTES = 2
"""Each channel begins with the number of its port."""
_LOOK = 5.0
"""Seconds between two looks whether the attempt still runs."""
_PIECE = 1 << 16
_REFUSAL_SECONDS = 0.3
"""Seconds that a port which nobody listens on may take to say so. A connection that is open says nothing at first."""
_CERTAIN_SECONDS = 1.0
"""The same where a wrong answer does harm."""


def running_pod(api: ApiServer, path: str, key: str) -> Pod:
    """Return the pod at ``path`` if its task runs. Raises NotFoundError, ConflictError, UnreachableError."""
    try:
        found = api.get(path, POD)
    except RefusedError as error:
        if error.http == 404:
            raise NotFoundError(f"no attempt {key} on this node") from error
        raise UnreachableError(str(error)) from error
    if not isinstance(judge(found), Runs):
        raise ConflictError(f"attempt {key} does not run now")
    return found


def answers(api: ApiServer, path: str, port: int) -> bool:
    """Return whether a connection to a port of the pod is not refused. Raises GrassError."""
    query = [("ports", str(port))]
    with closing(Channels(api, f"{path}/portforward", query, [V4], _CERTAIN_SECONDS)) as channels:
        begun: set[int] = set()
        for channel, message in channels.receive():
            if channel in begun or len(message) > _PORT_BYTES:
                return channel == _DATA
            begun.add(channel)
        return channels.silent


class PodReach:
    """A ``Reach`` through port-forwarding. ``path``: of the pod in the API."""

    def __init__(self, api: ApiServer, path: str, key: str) -> None:
        self._api, self._path, self._key = api, path, key
        self._uid = running_pod(api, path, key).metadata.uid
        self._ended = os.eventfd(0, os.EFD_CLOEXEC)
        self._closed, self._lock = threading.Event(), threading.Lock()
        threading.Thread(target=self._watch, name="pod-reach", daemon=True).start()

    def connect(self, port: int, seconds: float) -> socket.socket:
        try:
            channels = Channels(self._api, f"{self._path}/portforward", [("ports", str(port))], [V4])
        except GrassError as error:
            raise OSError(str(error)) from error
        ours, theirs = socket.socketpair()
        answered = threading.Event()
        pump = _Pump(channels, theirs, answered)
        answered.wait(min(seconds, _REFUSAL_SECONDS))
        if pump.error:
            ours.close()
            raise OSError(pump.error)
        return ours

    def fileno(self) -> int:
        return self._ended

    def close(self) -> None:
        with self._lock:  # the number of a closed descriptor may soon be another one's
            self._closed.set()
            os.close(self._ended)

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK):
            try:
                there = running_pod(self._api, self._path, self._key).metadata.uid == self._uid
            except UnreachableError:
                continue
            except GrassError:
                there = False
            if not there:
                with self._lock:
                    if not self._closed.is_set():
                        os.eventfd_write(self._ended, 1)
                return


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
