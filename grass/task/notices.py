"""Notices inside a task: ``grass.notice()`` says that the task will be stopped soon, so that it can save its work.

This file needs nothing but Python 3.8 and may be copied into a program or an image that has no Grass. Used by programs
of users.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Notice:
    """Why the task is stopped, and until when it may save its work: seconds since the epoch."""

    reason: str
    until: float

    @property
    def seconds(self) -> float:
        """How long there is left."""
        return max(0.0, self.until - time.time())

    def done(self) -> None:
        """Say that the work is saved: the task is stopped now. Raises OSError if the node's agent is away."""
        connection = _Connection(os.environ["GRASS_API"])
        try:
            headers = {"Authorization": "Bearer " + os.environ["GRASS_TOKEN"], "Content-Type": "application/json"}
            connection.request("POST", "/v1/done", "{}", headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise OSError(answer.read().decode())
        finally:
            connection.close()


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def notice() -> Optional[Notice]:
    """Return the notice that this task has got; None: it has none. It costs a look at a file: call it at each step.

    Raises ValueError if the file is damaged."""
    try:
        with open(os.environ["GRASS_EVENTS"], encoding="utf-8") as file:
            lines = file.readlines()
    except (KeyError, FileNotFoundError):
        return None
    for line in reversed(lines):
        if line.endswith("\n"):
            found = json.loads(line)
            return Notice(found["reason"], found["until"])
    return None
