"""The resources of a namespace, kept up to date by one informer for each kind. Used by ``loop``.

A kind whose CRD is not installed has no resources, and is looked for again and again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from grass.errors import GrassError
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.custom_kinds import KINDS, Kind
from grass.kubernetes.custom_resources import RESOURCE_EVENT, RESOURCES, Resource
from grass.kubernetes.informer import Change, Informer

log = logging.getLogger(__name__)


class Watch:
    """``changed`` is called, in any thread, when there is something new."""

    def __init__(self, server: ApiServer, namespace: str, changed: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._changed = changed
        self._known: dict[Kind, dict[str, Resource]] = {}
        """Only of kinds whose list was read."""
        self._missing: set[Kind] = set()
        self._informers = [
            Informer(
                server,
                kind.path(namespace),
                RESOURCES,
                RESOURCE_EVENT,
                partial(self._take, kind),
                partial(self._trouble, kind),
                name=kind.plural,
            )
            for kind in KINDS
        ]

    def start(self) -> None:
        for each in self._informers:
            each.start()

    def stop(self) -> None:
        for each in self._informers:
            each.stop()

    def resources(self) -> dict[Kind, dict[str, Resource]]:
        """Return kind → uid → resource, of the kinds whose resources are known."""
        with self._lock:
            return {kind: dict(found) for kind, found in self._known.items()}

    def _take(self, kind: Kind, changes: list[Change[Resource]]) -> None:
        with self._lock:
            known = self._known.setdefault(kind, {})
            for change in changes:
                if change.now is None:
                    known.pop(change.uid, None)
                else:
                    known[change.uid] = change.now
        self._changed()

    def _trouble(self, kind: Kind, error: GrassError | None) -> None:
        """Say once that a kind is not there."""
        if error is None:
            self._missing.discard(kind)
        elif isinstance(error, RefusedError) and error.http == 404 and kind not in self._missing:
            self._missing.add(kind)
            log.warning("%s: no such CustomResourceDefinition; `grass kubernetes crds` prints it", kind.crd)
