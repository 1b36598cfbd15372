"""Why a pod waits, from its events, where its status does not say: volumes, secrets, sandboxes. Used by ``runtime``.

Events are kept for an hour only and may be missing, so they never end an attempt; they only say why it waits.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterable

from grass.errors import GrassError
from grass.kubernetes.api import ApiServer
from grass.kubernetes.objects import EVENTS, Event
from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from node.runtime.kubernetes.attempt import PodAttempt
from node.runtime.kubernetes.judge import START_PATIENCE, Waits, judge, one_line, shortened, unschedulable
from node.runtime.kubernetes.place import Place
from node.runtime.reactor import Reactor

AFTER, EVERY = 10.0, 30.0
"""Seconds for which a pod has waited before its events are asked for, and until they are asked for again."""
_MOST = 100
_MISSING = re.compile(r'\b(secret|configmap|persistentvolumeclaim)s? "([^"]+)" not found', re.IGNORECASE)
_KINDS = {"secret": "Secret", "configmap": "ConfigMap", "persistentvolumeclaim": "PersistentVolumeClaim"}
_TROUBLES = {
    "FailedMount": "a volume of its pod cannot be mounted",
    "FailedAttachVolume": "a volume of its pod cannot be attached",
    "FailedMapVolume": "a volume of its pod cannot be mapped",
    "FailedCreatePodSandBox": "its pod cannot be set up on its machine",
    "FailedPodSandBoxStatus": "its pod cannot be set up on its machine",
    "FailedCreatePodContainer": "its pod cannot be set up on its machine",
    "NetworkNotReady": "the network of its machine is not ready",
}

log = logging.getLogger(__name__)


def why_waiting(events: Iterable[Event]) -> Waits | None:
    """Return what the latest event says that tells of a trouble."""
    latest_first = sorted(events, key=_when, reverse=True)
    has_machine = any(each.reason == "Scheduled" for each in latest_first)  # a pod gets one only once
    for each in latest_first:
        if each.reason == "FailedScheduling":
            if has_machine:
                continue
            return Waits(Reason(ReasonCode.UNSCHEDULABLE, unschedulable(each.message)), START_PATIENCE)
        missing = _MISSING.search(each.message) if each.type == "Warning" else None
        if missing:
            kind, name = _KINDS[missing[1].lower()], missing[2]
            message = f"its pod waits for the {kind} {name}, which its namespace does not have; create it"
            return Waits(Reason(ReasonCode.NOT_STARTED, message), START_PATIENCE)
        if each.reason in _TROUBLES:
            message = f"{_TROUBLES[each.reason]} ({each.reason}): {shortened(one_line(each.message))}"
            return Waits(Reason(ReasonCode.NOT_STARTED, message), START_PATIENCE)
    return None


class EventLooks:
    """Looks at the events of pods that wait for long. ``heard`` is called when there is something new to say."""

    def __init__(
        self, api: ApiServer, place: Place, reactor: Reactor, heard: Callable[[PodAttempt], None], after: float = AFTER
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{place.namespace}/events"
        self._reactor = reactor
        self._heard = heard
        self._after = after

    def watch(self, attempt: PodAttempt) -> None:
        """Look at its events from time to time, until its status says more."""
        if not attempt.asking:
            attempt.asking = True
            due = attempt.asked + self._after if attempt.looked is None else attempt.looked + EVERY
            self._reactor.at(due, functools.partial(self._look, attempt))

    def _look(self, attempt: PodAttempt) -> None:
        if not _waits_quietly(attempt):
            attempt.asking = False
            return
        attempt.looked = clock.steady()
        self._reactor.errands.ask(
            functools.partial(self._read, attempt.uid), functools.partial(self._on_events, attempt)
        )

    def _read(self, uid: str | None) -> list[Event]:
        query: dict[str, str | int] = {"fieldSelector": f"involvedObject.uid={uid}", "limit": _MOST}
        return self._api.get(self._path, EVENTS, query).items

    def _on_events(self, attempt: PodAttempt, found: list[Event] | GrassError) -> None:
        self._reactor.at(clock.steady() + EVERY, functools.partial(self._look, attempt))
        if isinstance(found, GrassError):
            log.info("pod %s: its events cannot be read: %s", attempt.name, found)
            return
        attempt.heard = why_waiting(found)
        if _waits_quietly(attempt):
            self._heard(attempt)


def _waits_quietly(attempt: PodAttempt) -> bool:
    if attempt.pod is None or attempt.judged is not None or attempt.ended is not None:
        return False
    found = judge(attempt.pod)
    return isinstance(found, Waits) and found.quiet


def _when(event: Event) -> str:
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""
