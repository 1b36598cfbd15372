"""A node as the witness of a master and its standby: keeps their record, on its disk before it answers.

The rules are in ``grass.model.witness``. The record of another cluster of the same name, to which this machine belonged
before, counts for nothing. When the master was heard is in memory only: after a start, the witness waits
as if it had just heard of it. Used by ``node.api.app``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from grass.model import witness
from grass.model.witness import Answer, Record
from grass.system.private_file import write_private
from grass.wire.codec import encode
from grass.wire.witness import KEPT, AskVote, KeptRecord, MasterLives, WitnessAnswer

FILE = "witness.json"
"""In the node's folder. It outlives restarts and reboots; a file that cannot be read refuses everything."""


class WitnessDesk:
    """The record, and when the master was heard. ``home``: the node's folder. ``steady``: its clock. ``cluster``:
    thumbprint of its key; empty: not known. Then each record counts."""

    def __init__(self, home: Path, steady: Callable[[], float], cluster: str = "") -> None:
        self._path, self._steady, self._cluster = home / FILE, steady, cluster
        self._heard = steady()
        self._lock = threading.Lock()

    def hear(self, asked: MasterLives) -> WitnessAnswer:
        """Raises OSError: the record cannot be written; UndecodableError: it cannot be read."""
        with self._lock:
            before = self._record()
            if asked.change:
                found = witness.changed(before, asked.term, asked.version, alone=asked.alone)
            else:
                found = witness.heard(before, asked.term, asked.version, alone=asked.alone)
            if asked.term >= before.term:
                self._heard = self._steady()
            return self._kept(before, found)

    def vote(self, asked: AskVote) -> WitnessAnswer:
        """Raises as ``hear``."""
        with self._lock:
            before = self._record()
            silent = self._steady() - self._heard
            return self._kept(before, witness.vote(before, asked.term, asked.standby, silent))

    def _record(self) -> Record:
        try:
            kept = KEPT.decode(self._path.read_bytes())
        except FileNotFoundError:
            return Record()
        return Record() if kept.cluster and self._cluster and kept.cluster != self._cluster else kept.record

    def _kept(self, before: Record, found: Answer) -> WitnessAnswer:
        if found.record != before:
            write_private(self._path, encode(KeptRecord(**asdict(found.record), cluster=self._cluster)))
        return WitnessAnswer(found.record, found.why)
