"""Delivers notifications: a thread of the master-agent with its own connection to the store. Decides nothing else.

At least once: a notification is removed after its receiver has accepted it, and has the same id in each delivery. A
receiver that hangs, drips or redirects costs one delivery its time, and delays no other receiver and no decision.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec.structs import replace as changed

from grass.clock import wall
from grass.errors import UnreachableError
from grass.model.event_kind import EventKind
from grass.model.notify import Notify
from grass.store.backend import Backend
from grass.store.decoding import sound
from grass.store.keys import EVENTS_KEPT, Keys
from grass.wire.codec import encode
from grass.wire.event_record import EventRecord
from grass.wire.notification import NOTIFICATION, Body, Notification
from master.agent.webhook import RefusedError, post

log = logging.getLogger("grass.master-agent")
SENDERS = 4
"""Deliveries at once, to different receivers of jobs. The cluster's own receiver waits for none of them."""
FIRST_WAIT, MOST_WAIT, MOST_TRIES = 1.0, 600.0, 40
"""Seconds between tries, doubling; after the last try (about five hours) the notification is given up."""
COMMAND_SECONDS = 30.0
OWN = ""
"""The receiver that the cluster's settings name."""
MOST_KEPT = 10_000
"""Notifications that wait. Beyond that, the oldest are given up."""
_AWAY = 1.0
"""Seconds until the store is asked again, if it did not answer."""


class Courier:
    """``own_machine``: whether the cluster is on its user's machine, so that jobs may call addresses of it."""

    def __init__(self, backend: Backend, keys: Keys, cluster: str, notify: Notify | None, own_machine: bool) -> None:
        self._backend = backend
        self._keys = keys
        self._cluster = cluster
        self._notify = notify
        self._own_machine = own_machine
        self._woken = threading.Event()
        self._closed = False
        self._busy: set[str] = set()
        """Receivers to which a delivery is under way."""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.wake()

    def wake(self) -> None:
        """Look for notifications now. Does not block."""
        self._woken.set()

    def close(self) -> None:
        """Begin nothing more. Deliveries under way are repeated by the next master-agent if they do not succeed."""
        self._closed = True
        self.wake()

    def _run(self) -> None:
        wait: float | None = None
        while True:
            self._woken.wait(wait)
            self._woken.clear()
            if self._closed:
                return
            try:
                wait = self._send_due(wall())
            except UnreachableError:
                wait = _AWAY

    def _send_due(self, now: float) -> float | None:
        """Begin what is due. Return the seconds until the next one is; None: nothing waits for its time."""
        waiting = self._waiting()
        for old in waiting[: max(0, len(waiting) - MOST_KEPT)]:
            self._give_up(old, "too many notifications wait")
        later = [each.due - now for each in waiting if each.due > now]
        for each in waiting:
            receiver = self._receiver(each)
            with self._lock:
                full = receiver != OWN and len(self._busy - {OWN}) >= SENDERS
                if each.due > now or receiver in self._busy or full:
                    continue
                self._busy.add(receiver)
            # a daemon, because the process must not wait for a receiver that hangs
            threading.Thread(target=self._deliver, args=(each, receiver), name="sender", daemon=True).start()
        return min(later, default=None)

    def _waiting(self) -> list[Notification]:
        key = self._keys.notifications
        found = [each for _, each in sound(NOTIFICATION, key, self._backend.hgetall(key).items())]
        return sorted(found, key=lambda each: (each.event.time, each.id))

    def _receiver(self, each: Notification) -> str:
        if each.webhook is None:
            return OWN
        with suppress(ValueError):  # no URL: its delivery says so
            return urlsplit(each.webhook).netloc
        return each.webhook

    def _deliver(self, each: Notification, receiver: str) -> None:
        """Deliver once. Remove the notification, or put it off."""
        try:
            self._send(each)
        except Exception as error:  # noqa: BLE001 (whatever a receiver does, it is tried again)
            self._failed(each, error)
        else:
            with suppress(UnreachableError):  # otherwise it is delivered again, with the same id
                self._backend.apply([("HDEL", self._keys.notifications, each.id)])
        finally:
            with self._lock:
                self._busy.discard(receiver)
            self.wake()

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
            subprocess.run(notify.command, input=body, timeout=COMMAND_SECONDS, check=True, capture_output=True)

    def _failed(self, each: Notification, error: Exception) -> None:
        tries = each.tries + 1
        log.warning("notification %s: delivery %d failed (%s: %s)", each.id, tries, type(error).__name__, error)
        with suppress(UnreachableError):
            if tries >= MOST_TRIES or isinstance(error, RefusedError):
                self._give_up(each, str(error))
                return
            wait = min(MOST_WAIT, FIRST_WAIT * 2.0 ** min(tries - 1, 32))
            later = changed(each, tries=tries, due=wall() + wait)
            self._backend.apply([("HSET", self._keys.notifications, each.id, encode(later))])

    def _give_up(self, each: Notification, why: str) -> None:
        text = f"notification {each.id} ({each.event.kind}): given up after {each.tries + 1} tries; {why}"
        event = EventRecord(wall(), EventKind.NOTIFICATION_FAILED, text, job=each.event.job, node=each.event.node)
        self._backend.apply(
            [
                ("HDEL", self._keys.notifications, each.id),
                ("XADD", self._keys.events, EVENTS_KEPT, "event", encode(event)),
            ]
        )


def _headers(each: Notification, body: bytes, secret: str | None) -> dict[str, str]:
    """Return the headers of a delivery. The signature is HMAC-SHA256 of the body."""
    headers = {"Content-Type": "application/json", "User-Agent": "grass", "Grass-Notification": each.id}
    if secret:
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers["Grass-Signature"] = f"sha256={digest}"
    return headers
