"""Keeps annotations of pods as they should be, by patches in threads. Used by ``runtime``.

A patch names the uid of its pod, and only what differs. Of a pod, one is under way at a time: what changes meanwhile is
in the next one.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping

from grass.errors import GrassError
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.objects import ANY
from node.runtime.kubernetes.attempt import PodAttempt
from node.runtime.kubernetes.place import Place
from node.runtime.reactor import Reactor

_RETRY = 1.0
_NEVER = (404, 409, 413, 422)
"""The pod is gone, or is another one; or the server does not take such annotations, however often it is asked."""

log = logging.getLogger(__name__)


class Annotations:
    def __init__(self, api: ApiServer, place: Place, reactor: Reactor) -> None:
        self._api = api
        self._place = place
        self._reactor = reactor

    def want(self, attempt: PodAttempt, wanted: Mapping[str, str]) -> None:
        """Have the pod of an attempt get these annotations, unless it was made without any."""
        attempt.wanted = wanted
        self._send(attempt)

    def _send(self, attempt: PodAttempt) -> None:
        told = attempt.told
        if told is None or attempt.telling or attempt.uid is None or attempt.judged is not None:
            return
        changed = {name: text for name, text in attempt.wanted.items() if told.get(name) != text}
        if changed:
            attempt.telling = True
            self._reactor.errands.ask(
                functools.partial(self._patch, attempt.name, attempt.uid, changed),
                functools.partial(self._sent, attempt, told, changed),
            )

    def _patch(self, name: str, uid: str, changed: Mapping[str, str]) -> None:
        self._api.patch(f"{self._place.path}/{name}", {"metadata": {"uid": uid, "annotations": changed}}, ANY)

    def _sent(
        self, attempt: PodAttempt, told: dict[str, str], changed: Mapping[str, str], result: GrassError | None
    ) -> None:
        attempt.telling = False
        if result is None:
            told.update(changed)
            self._send(attempt)
        elif isinstance(result, RefusedError) and result.http in _NEVER:
            log.warning("pod %s: it cannot be told what has changed: %s", attempt.name, result)
        else:
            self._reactor.after(_RETRY, functools.partial(self._send, attempt))
