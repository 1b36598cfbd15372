"""Ports of the pod of an attempt, through the API server: nothing else leads into a namespace. Used by ``kind``."""

from __future__ import annotations

import os
import socket
import threading

from grass.errors import ConflictError, GrassError, NotFoundError, UnreachableError
from grass.kubernetes import ports
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.objects import POD, Pod
from node.runtime.kubernetes.judge import Runs, judge

_LOOK = 5.0
"""Seconds between two looks whether the attempt still runs."""


def running_pod(api: ApiServer, path: str, key: str) -> Pod:
    """Return the pod at ``path`` if its task runs. Raises NotFoundError, ConflictError, UnreachableError."""
    try:
        found = api.find(path, POD)
    except RefusedError as error:
        raise UnreachableError(str(error)) from error
    if found is None:
        raise NotFoundError(f"no attempt {key} on this node")
    if not isinstance(judge(found), Runs):
        raise ConflictError(f"attempt {key} does not run now")
    return found


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
            return ports.connect(self._api, self._path, port, seconds)
        except GrassError as error:
            raise OSError(str(error)) from error

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
