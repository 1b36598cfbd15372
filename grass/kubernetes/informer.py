"""A copy of a list of objects that follows its changes: an informer, as Kubernetes calls it.

``Copy`` is pure: pages of lists and events of watches in, changes out. ``Informer`` reads them from an API server in a
thread of its own. The rules (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes):

- A watch begins at the version of a list, never without one. Versions are opaque.
- Objects are told apart by uid: a name may be used again.
- When the server has forgotten the version (410), or the hour is over, the list is read again. What was known and is
  not in it was deleted, and nobody knows how it ended.
- A connection on which nothing comes for long is broken. Each watch asks the server for an end after some minutes.

Used by ``node.runtime.kubernetes``.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Generic, NamedTuple

from grass.backoff import Backoff
from grass.errors import GrassError, UndecodableError
from grass.kubernetes.api import ApiServer, BusyError, RefusedError, Stream
from grass.kubernetes.objects import WATCH_ERROR, ListOf, Object, WatchEvent
from grass.system import clock
from grass.wire.codec import Form

PAGE = 500
"""Objects of one request for a list."""
_WATCH_SECONDS = (300, 600)
"""The server ends a watch after a time in this range, so that those of many clients do not end together."""
_SILENCE = 60.0
"""Seconds without a byte beyond the end that the server was asked for."""
_RELIST_SECONDS = 3600.0
_EMPTY_PAUSE = 1.0
"""Seconds after a watch that ended at once without an event: some servers do so again and again."""
_FORBIDDEN_PAUSE = 60.0
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 30.0

log = logging.getLogger(__name__)


class Change(NamedTuple, Generic[Object]):
    """What became of one object. ``now`` None: it is deleted. ``last``: its last known state, which is final only if
    ``seen`` (a watch showed the deletion)."""

    uid: str
    now: Object | None
    last: Object | None = None
    seen: bool = True


class GoneError(Exception):
    """The server has forgotten the version: list again."""


class Copy(Generic[Object]):
    """The objects by uid, and the version that they are of. ``event``: the form of a line of a watch."""

    def __init__(self, event: Form[WatchEvent[Object]]) -> None:
        self._event = event
        self.objects: dict[str, Object] = {}
        self.version: str | None = None
        """None: list first."""

    def replace(self, objects: Iterable[Object], version: str) -> list[Change[Object]]:
        """Take a whole list. Return what differs from what was known."""
        listed = {each.metadata.uid: each for each in objects}
        changes = [Change(uid, None, last, seen=False) for uid, last in self.objects.items() if uid not in listed]
        for uid, each in listed.items():
            known = self.objects.get(uid)
            if known is None or known.metadata.resource_version != each.metadata.resource_version:
                changes.append(Change(uid, each))
        self.objects, self.version = listed, version
        return changes

    def apply_line(self, line: bytes) -> Change[Object] | None:
        """Take one line of a watch. Raises GoneError, RefusedError (the server ended the watch with an error),
        UndecodableError."""
        try:
            event = self._event.decode(line)
        except UndecodableError:
            self._fail(line)
            raise
        if event.type == "ERROR":  # a Status that looks like an object
            self._fail(line)
            raise UndecodableError("object", "is no Status")
        found = event.object
        if event.type == "BOOKMARK":
            self.version = found.metadata.resource_version
            return None
        uid = found.metadata.uid
        self.version = found.metadata.resource_version
        if event.type == "DELETED":
            self.objects.pop(uid, None)
            return Change(uid, None, found)
        self.objects[uid] = found
        return Change(uid, found)

    def _fail(self, line: bytes) -> None:
        """Raise what the server says, if a line is an error. Returns otherwise."""
        with suppress(UndecodableError):
            status = WATCH_ERROR.decode(line).object
            if status.code == 410 or status.reason in ("Expired", "Gone"):
                self.version = None
                raise GoneError
            raise RefusedError(status.code, status)


class Informer(Generic[Object]):
    """Keeps a ``Copy`` up to date.

    ``path``: of the list, such as ``/api/v1/namespaces/N/pods``. ``page`` and ``event``: of a page of it, and of a line
    of a watch. ``changed`` is called in the informer's thread with changes, at first with the whole list, also if that
    is empty. ``trouble`` is called with why the server cannot be read, and with None when it answers again.
    """

    def __init__(
        self,
        api: ApiServer,
        path: str,
        page: Form[ListOf[Object]],
        event: Form[WatchEvent[Object]],
        changed: Callable[[list[Change[Object]]], None],
        trouble: Callable[[GrassError | None], None] = lambda error: None,
        *,
        selector: str | None = None,
        name: str = "informer",
    ) -> None:
        self._api = api
        self._path = path
        self._page = page
        self._copy: Copy[Object] = Copy(event)
        self._changed = changed
        self._trouble = trouble
        self._selector = selector
        self._retry = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        self._stop = threading.Event()
        self._stream: Stream | None = None
        self._relist_at = 0.0
        self._troubled = False
        self._checks = False
        """Whether the next list is only a check of what is known."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._stream is not None:
            self._stream.abort()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._copy.version is None:
                    self._list()
                self._watch()
            except GoneError:
                self._copy.version = None
            except GrassError as error:
                self._pause(error)

    def _list(self) -> None:
        while True:
            try:
                objects, version = self._pages()
                break
            except RefusedError as error:
                if error.http != 410:  # what is left of the list is too old
                    raise
        changes = self._copy.replace(objects, version)
        if self._checks and changes:
            log.warning("%s: an hourly look found %d objects that the watch had not shown", self._path, len(changes))
        self._checks = False
        self._relist_at = clock.steady() + _RELIST_SECONDS
        self._answered()
        self._changed(changes)

    def _pages(self) -> tuple[list[Object], str]:
        objects: list[Object] = []
        query: dict[str, str | int | None] = {"limit": PAGE, "labelSelector": self._selector}
        while True:
            page = self._api.get(self._path, self._page, query)
            objects += page.items
            if not page.metadata.continue_:
                return objects, page.metadata.resource_version
            query["continue"] = page.metadata.continue_

    def _watch(self) -> None:
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 - not for secrets
        query = {
            "watch": "true",
            "resourceVersion": self._copy.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
            "labelSelector": self._selector,
        }
        began = clock.steady()
        try:
            self._stream = self._api.stream(self._path, query, seconds + _SILENCE)
        except RefusedError as error:
            if error.http == 410:
                raise GoneError from error
            raise
        if self._stop.is_set():  # too late to be aborted
            self._stream.abort()
        self._answered()
        events = 0
        for line in self._stream.lines():
            if not line:
                continue
            try:
                change = self._copy.apply_line(line)
            except UndecodableError as error:
                log.warning("%s: a change cannot be read (%s); listing again", self._path, error)
                raise GoneError from error
            events += 1
            if change is not None:
                self._changed([change])
        if clock.steady() >= self._relist_at:
            self._checks, self._copy.version = True, None
        elif not events and clock.steady() - began < _EMPTY_PAUSE:
            self._stop.wait(_EMPTY_PAUSE)

    def _answered(self) -> None:
        self._retry.reset()
        if self._troubled:
            self._troubled = False
            self._trouble(None)

    def _pause(self, error: GrassError) -> None:
        if self._stop.is_set():
            return
        if not self._troubled:
            log.warning("%s: %s; trying again", self._path, error)
        self._troubled = True
        self._trouble(error)
        wait = self._retry.next() * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets
        if isinstance(error, BusyError):
            wait = max(wait, error.retry_after)
        elif isinstance(error, RefusedError):  # a missing right, or no such namespace
            wait = _FORBIDDEN_PAUSE if error.http == 403 else max(wait, _EMPTY_PAUSE)
        self._stop.wait(wait)
