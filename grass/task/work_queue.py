"""Work queues inside a task: ``grass.queue("shards")``. Items are leased, done, and given out again if a task fails.

This file needs nothing but Python 3.8 and may be copied into a program or an image that has no Grass. Used by programs
of users.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

_MARGIN = 15.0
_AGAIN = 0.2
_PATIENCE = 50.0
"""Seconds for which a step is repeated while daemons are away. The master knows a repetition for longer."""
_WAIT = 30.0


class QueueError(RuntimeError):
    """A step was refused. ``status``: as in HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Item:
    """An item that this task holds. ``tries``: how often it was given out, with this time."""

    queue: Queue
    lease: str
    name: str
    value: str
    tries: int

    def ack(self) -> bool:
        """It is done: remove it. False: this task did not hold it any more, and another one may do it, too."""
        return bool(self.queue.finish([self]))

    def retry(self) -> bool:
        """Give it back. It is given out again, unless all tries are used up."""
        return bool(self.queue.finish([self], "retry"))

    def bury(self) -> bool:
        """It cannot be done: keep it with the dead letters."""
        return bool(self.queue.finish([self], "dead"))

    def extend(self, seconds: float | None = None) -> bool:
        """Hold it for so long from now (None: as the queue says)."""
        step: dict[str, object] = {"step": "extend", "lease": self.lease, "names": [self.name], "seconds": seconds}
        return bool(self.queue.step(step)["names"])


class Queue:
    """A work queue of the user whose job this is. Safe to share among threads: each step has a connection of its own.

    Steps raise QueueError, and OSError if the node or the master is away for long.
    """

    def __init__(self, name: str, path: str | None = None, token: str | None = None) -> None:
        try:
            self._path = path or os.environ["GRASS_API"]
            self._token = token or os.environ["GRASS_TOKEN"]
        except KeyError:
            raise RuntimeError("GRASS_API is not set; grass.queue() works only inside a task of Grass") from None
        self.name = name

    def put(self, values: Iterable[str | tuple[str, str]]) -> list[str]:
        """Append values, or pairs of name and value. Return the names of those that were added: a name that is in the
        queue already is not put again. At most 1,000 at once."""
        pairs = [(None, each) if isinstance(each, str) else each for each in values]
        items = [{"name": name, "value": value} for name, value in pairs]
        return list(self.step({"step": "put", "items": items, "id": _id()})["names"])

    def get(self, count: int = 1, wait: float = 0.0, seconds: float | None = None) -> list[Item]:
        """Lease up to ``count`` items for ``seconds`` (None: as the queue says). Wait for the first one."""
        until, request = time.monotonic() + wait, _id()
        while True:
            left = min(_WAIT, max(0.0, until - time.monotonic()))
            step = {"step": "get", "count": count, "wait": left, "seconds": seconds, "id": request}
            answer = self.step(step, left)
            if answer["items"] or time.monotonic() >= until:
                return [
                    Item(self, answer["lease"], each["name"], each["value"], each["tries"]) for each in answer["items"]
                ]

    def items(self, wait: float = 0.0, seconds: float | None = None) -> Iterator[Item]:
        """Yield one item after another. End once no item is ready and none is leased, and nothing came for ``wait``
        seconds. Items of other tasks are waited for: they come back if those fail."""
        idle = time.monotonic()
        while True:
            found = self.get(wait=min(_WAIT, max(1.0, wait)), seconds=seconds)
            yield from found
            counts = self.counts() if not found else None
            if counts is None or counts["leased"] or counts["ready"]:
                idle = time.monotonic()
            elif time.monotonic() - idle >= wait:
                return

    def finish(self, items: Sequence[Item], how: str = "ack") -> list[str]:
        """End the leases of several items: ``ack``, ``retry`` or ``dead``. Return the names of those that were held."""
        done: list[str] = []
        for lease in dict.fromkeys(item.lease for item in items):
            names = [item.name for item in items if item.lease == lease]
            done += self.step({"step": "finish", "lease": lease, "names": names, "how": how, "id": _id()})["names"]
        return done

    def counts(self) -> dict[str, int]:
        """Return how many items are ``ready``, ``leased``, ``dead`` and ``done``."""
        answer = self.step({"step": "look"})
        return {name: answer[name] for name in ("ready", "leased", "dead", "done")}

    def create(self, lease: float = 600.0, tries: int = 3) -> None:
        """Make the queue; nothing changes if it exists with these settings."""
        self.step({"step": "create", "lease": lease, "tries": tries})

    def snapshot(self, name: str) -> None:
        """Keep all items that are not done, as of now, with a checkpoint of this name."""
        self.step({"step": "snapshot", "name": name})

    def restore(self, name: str) -> None:
        """Replace all items by those of a snapshot. What tasks held before is ready again."""
        self.step({"step": "restore", "name": name, "id": _id()})

    def delete(self) -> None:
        self.step({"step": "delete", "id": _id()})

    def step(self, step: dict[str, object], wait: float = 0.0) -> Any:
        """Carry out a step of the API. Repeat it while nobody answers."""
        until = time.monotonic() + wait + _PATIENCE
        while True:
            try:
                return self._call(step, wait)
            except (OSError, http.client.HTTPException, ValueError):
                if time.monotonic() > until:
                    raise
            except QueueError as error:
                if error.status != 503 or time.monotonic() > until:
                    raise
            time.sleep(_AGAIN)

    def _call(self, step: dict[str, object], wait: float) -> Any:
        connection = _Connection(self._path, wait + _MARGIN)
        try:
            headers = {"Authorization": "Bearer " + self._token, "Content-Type": "application/json"}
            with contextlib.suppress(BrokenPipeError):  # the answer says why it was refused before its end
                connection.request("POST", "/v1/queues/" + quote(self.name, safe=""), json.dumps(step), headers)
            answer = connection.getresponse()
            decoded = json.loads(answer.read().decode())
        finally:
            connection.close()
        if answer.status != 200:
            raise QueueError(answer.status, decoded["error"]["message"])
        return decoded["queue"]


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def queue(name: str, *, create: bool = False, of_job: bool = False, lease: float = 600.0, tries: int = 3) -> Queue:
    """Return a work queue. ``create``: make it, unless it exists. ``lease``: seconds.

    ``of_job``: one of this run of the job, which is made now and removed with the job. Raises QueueError.
    """
    found = Queue(os.environ.get("GRASS_JOB_ID", "") + ":" + name if of_job else name)
    if create or of_job:
        found.create(lease, tries)
    return found


def _id() -> str:
    return uuid.uuid4().hex
