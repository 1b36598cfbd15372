"""Findings in the store: written by the monitor. ``Records`` reads them."""

from __future__ import annotations

from collections.abc import Sequence

from grass.store.backend import Backend
from grass.store.keys import Keys
from grass.wire.codec import encode
from grass.wire.finding import Finding


class FindingStore:
    """The findings that hold now, by job. Used by ``master.monitor``."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def put(self, job_id: str, findings: Sequence[Finding]) -> None:
        """Replace what is known of a job. Without findings, nothing is kept."""
        if findings:
            self._backend.apply([("HSET", self._keys.findings, job_id, encode(tuple(findings)))])
        else:
            self._backend.apply([("HDEL", self._keys.findings, job_id)])
