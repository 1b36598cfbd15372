"""Delivers notifications: a thread of the master-agent with its own connection to the store. Decides nothing else.

At least once: a notification is removed after its receiver has accepted it, and has the same id in each delivery. A
receiver that hangs, drips or redirects costs one delivery its time, and delays no other receiver and no decision. Used
by ``__main__``. Started by ``__main__``.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import subprocess
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace as changed

from grass.backoff import wait_after
from grass.errors import UndecodableError, UnreachableError
from grass.model.event_kind import EventKind
from grass.model.notify import Notify
from grass.store.backend import Backend
from grass.store.decoding import sound
from grass.store.event_log import logged
from grass.store.keys import Keys
from grass.system.clock import wall
from grass.wire.codec import encode
from grass.wire.event_record import EventRecord
from grass.wire.notification import NOTIFICATION, Body, Notification
from master.agent.deliveries import OWN, Deliveries, Waiting
from master.agent.webhook import RefusedError, post

log = logging.getLogger("grass.master-agent")
FIRST_WAIT, MOST_WAIT, MOST_TRIES = 1.0, 600.0, 40
"""Seconds between tries, doubling; after the last try (about five hours) the notification is given up."""
COMMAND_SECONDS = 30.0
_AWAY = 1.0
"""Seconds until the store is asked again, if it did not answer."""


class Courier:
    """The thread that delivers notifications.

    ``own_machine``: whether the cluster is on its user's machine, so that jobs may call addresses of it.
    """

    def __init__(self, backend: Backend, keys: Keys, cluster: str, notify: Notify | None, own_machine: bool) -> None:
        self._backend = backend
        self._keys = keys
        self._cluster = cluster
        self._notify = notify
        self._own_machine = own_machine
        self._woken = threading.Event()
        self._closed = False
        self._lock = threading.Lock()
        self._deliveries = Deliveries()
        self._overflow: deque[Waiting] = deque()
        """What is to be given up, because too many notifications wait."""
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def accept(self, notifications: Iterable[Notification]) -> None:
        """Deliver these, which were just committed. Does not block."""
        for each in notifications:
            self._put(_waiting(each))
        self._woken.set()

    def close(self) -> None:
        """Begin nothing more. Deliveries under way are repeated by the next master-agent if they do not succeed."""
        self._closed = True
        self._woken.set()

    def _run(self) -> None:
        while not self._closed and not self._load():
            self._woken.wait(_AWAY)
            self._woken.clear()
        while not self._closed:
            self._woken.clear()
            with suppress(UnreachableError):
                while self._overflow:
                    self._give_up(self._overflow[0], "too many notifications wait")
                    self._overflow.popleft()
            wait = self._send_due(wall())
            self._woken.wait(_AWAY if self._overflow else wait)

    def _load(self) -> bool:
        """Take what an earlier master-agent left. Return whether the store answered."""
        key = self._keys.notifications
        try:
            stored = self._backend.hgetall(key)
        except UnreachableError:
            return False
        found = (each for _, each in sound(NOTIFICATION, key, stored.items()))
        for each in sorted(found, key=lambda each: (each.event.time, each.id)):
            self._put(_waiting(each))
        return True

    def _put(self, item: Waiting) -> None:
        with self._lock:
            given_up = self._deliveries.add(item)
        if given_up is not None:
            self._overflow.append(given_up)

    def _send_due(self, now: float) -> float | None:
        """Begin what is due. Return the seconds until the next one is; None: nothing waits for its time."""
        with self._lock:
            while (item := self._deliveries.next_delivery(now)) is not None:
                # a daemon, because the process must not wait for a receiver that hangs
                threading.Thread(target=self._deliver, args=(item,), name="sender", daemon=True).start()
            due = self._deliveries.next_due(now)
        return None if due is None else due - now

    def _deliver(self, item: Waiting) -> None:
        """Deliver once. Remove the notification, or put it off."""
        delivered = False
        try:
            text = self._backend.hget(self._keys.notifications, item.id)
            if text is not None:  # otherwise it was delivered or given up
                delivered = self._try(item, NOTIFICATION.decode(text), text)
        except UnreachableError:
            self._put(item._replace(due=wall() + _AWAY))
        except UndecodableError as error:
            log.warning("notification %s: damaged (%s)", item.id, error)
            delivered = True
        else:
            delivered = delivered or text is None
        finally:
            with self._lock:
                if delivered:
                    self._deliveries.remove(item)
                self._deliveries.finish(item)
            self._woken.set()

    def _try(self, item: Waiting, each: Notification, stored: str) -> bool:
        """Deliver ``each``, kept as ``stored``. Return whether it needs no other delivery. Raises UnreachableError."""
        try:
            self._send(each)
        except Exception as error:  # noqa: BLE001 (whatever a receiver does, it is tried again)
            return self._failed(item, each, stored, error)
        self._backend.apply([("HDEL", self._keys.notifications, each.id)])
        return True

    def _send(self, each: Notification) -> None:
        body = encode(Body(id=each.id, cluster=self._cluster, event=each.event, job=each.record)).encode()
        if each.webhook is not None:
            post(each.webhook, body, _headers(each, body, each.secret), anywhere=self._own_machine)
            return
        notify = self._notify
        if notify is None:
            return  # the settings no longer name a receiver
        if notify.webhook is not None:
            secret = None if notify.secret_file is None else Path(notify.secret_file).read_text().strip()
            post(notify.webhook, body, _headers(each, body, secret), anywhere=True)
        if notify.command:
            # its output is not read: a program that it leaves running would hold a pipe open
            nowhere = subprocess.DEVNULL
            subprocess.run(
                notify.command, input=body, timeout=COMMAND_SECONDS, check=True, stdout=nowhere, stderr=nowhere
            )

    def _failed(self, item: Waiting, each: Notification, stored: str, error: Exception) -> bool:
        """Put it off, or give it up. Return whether it was given up."""
        tries = each.tries + 1
        log.warning("notification %s: delivery %d failed (%s: %s)", each.id, tries, type(error).__name__, error)
        if tries >= MOST_TRIES or isinstance(error, RefusedError):
            self._give_up(item, str(error), each)
            return True
        later = changed(each, tries=tries, due=wall() + wait_after(tries, FIRST_WAIT, MOST_WAIT))
        with self._lock:
            if item not in self._deliveries:
                return True  # given up meanwhile, because too many wait
            given_up = self._deliveries.add(_waiting(later))
        if given_up is not None:
            self._overflow.append(given_up)
        # not if it was given up since: its record is gone then, and must not come back
        self._backend.apply([("HSWAP", self._keys.notifications, each.id, stored, encode(later))])
        return False

    def _give_up(self, item: Waiting, why: str, each: Notification | None = None) -> None:
        """Remove it with an event. Raises UnreachableError."""
        if each is None:
            text = self._backend.hget(self._keys.notifications, item.id)
            if text is None:
                return
            try:
                each = NOTIFICATION.decode(text)
            except UndecodableError:
                self._backend.apply([("HDEL", self._keys.notifications, item.id)])
                return
        said = f"notification {each.id} ({each.event.kind}): given up after {each.tries + 1} tries; {why}"
        about = each.event
        event = EventRecord(wall(), EventKind.NOTIFICATION_FAILED, said, job=about.job, node=about.node, run=about.run)
        self._backend.apply(
            [
                ("HDEL", self._keys.notifications, each.id),
                logged(self._keys, event),
            ]
        )


def _waiting(each: Notification) -> Waiting:
    """Return what is kept in memory. The content stays in the store until it is sent."""
    if each.webhook is None:
        return Waiting(each.id, OWN, OWN, each.due)
    user = each.record.user if each.record is not None else each.event.user
    receiver = each.webhook
    with suppress(ValueError):  # no URL: its delivery says so
        receiver = urlsplit(each.webhook).netloc
    return Waiting(each.id, user or "-", receiver, each.due)


def _headers(each: Notification, body: bytes, secret: str | None) -> dict[str, str]:
    """Return the headers of a delivery. The signature is HMAC-SHA256 of the body."""
    headers = {"Content-Type": "application/json", "User-Agent": "grass", "Grass-Notification": each.id}
    if secret:
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers["Grass-Signature"] = f"sha256={digest}"
    return headers
