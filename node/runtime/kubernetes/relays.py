"""The membership API in pods. Nothing leads from a pod to its agent, so the agent runs a program in the container of
the task (``grass_relay``), whose standard input and output carry the connections of the task.

A task in a pod has no token: whoever may read the namespace would see it. The agent knows which pod it is connected to,
and puts the token of that attempt into each request. Used by ``runtime``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing

from grass.backoff import Backoff
from grass.errors import GrassError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.command import PodCommand
from node.runtime.kubernetes.job_files import API, FOLDER, RELAY
from node.runtime.kubernetes.judge import TASK
from node.runtime.kubernetes.tunnel import Door, Tunnel

_ALIVE = 5.0
"""Seconds between signs of life."""
_LASTS = 86_400.0
"""Seconds after which a connection is made anew."""
_CANNOT_RUN = (126, 127)
_FIRST_RETRY, _LONGEST_RETRY = 0.5, 10.0

log = logging.getLogger(__name__)


class Relays:
    """``open`` and ``close`` return at once. ``unable`` is called, in a thread, with the key of an attempt in whose
    image the program cannot run, and what it said."""

    def __init__(self, api: ApiServer, unable: Callable[[str, str], None]) -> None:
        self._api = api
        self._unable = unable
        self._relays: dict[str, _Relay] = {}
        self._stopping = threading.Event()
        self._alive: threading.Thread | None = None

    def open(self, key: str, pod_path: str, door: Door) -> None:
        """Serve the API in the pod of an attempt, unless that is done already."""
        if key in self._relays:
            return
        if self._alive is None:
            self._alive = threading.Thread(target=self._keep_alive, name="pod-api-alive", daemon=True)
            self._alive.start()
        relay = self._relays[key] = _Relay(self._api, pod_path, door)
        threading.Thread(target=self._serve, args=(key, relay), name="pod-api", daemon=True).start()

    def close(self, key: str) -> None:
        if (relay := self._relays.pop(key, None)) is not None:
            relay.stop()

    def stop(self) -> None:
        self._stopping.set()
        for key in list(self._relays):
            self.close(key)

    def _serve(self, key: str, relay: _Relay) -> None:
        if why := relay.serve():
            self._unable(key, why)

    def _keep_alive(self) -> None:
        """Send signs of life."""
        while not self._stopping.wait(_ALIVE):
            for relay in list(self._relays.values()):
                relay.beat()


class _Relay:
    def __init__(self, api: ApiServer, pod_path: str, door: Door) -> None:
        self._api, self._path, self._door = api, pod_path, door
        self._stopping = threading.Event()
        self._command: PodCommand | None = None
        self._tunnel: Tunnel | None = None

    def serve(self) -> str:
        """Serve until ``stop``. Return why that is not possible; empty otherwise."""
        retry = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        while not self._stopping.is_set():
            try:
                with closing(PodCommand(self._api, self._path, TASK, _ARGV, _LASTS, given=True)) as command:
                    if self._carried(command):
                        retry.reset()
                    code = command.code()
            except GrassError as error:
                log.debug("%s: the membership API does not reach it now: %s", self._path, error)
            else:
                if code in _CANNOT_RUN:
                    return command.said or f"exit code {code}"
                log.debug("%s: the membership API is cut off (%s): %s", self._path, code, command.said)
            self._stopping.wait(retry.next())
        return ""

    def stop(self) -> None:
        self._stopping.set()
        if self._command is not None:
            self._command.close()

    def beat(self) -> None:
        if self._tunnel is not None:
            self._tunnel.beat()

    def _carried(self, command: PodCommand) -> bool:
        """Serve until the connection ends. Return whether it was used."""
        tunnel = self._tunnel = Tunnel(command, self._door)
        self._command = command
        if self._stopping.is_set():
            command.close()
        tunnel.run()
        self._tunnel = self._command = None
        return tunnel.used


_ARGV = ["python3", f"{FOLDER}/{RELAY}", API]
