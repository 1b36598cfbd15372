"""Usage samples and histories in the store: written by the monitor, read by the monitor and the API servers.

Decides nothing. A damaged chunk or sample counts as absent: it is a gap in a curve.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from grass.errors import UndecodableError
from grass.store.backend import Backend, Entry, Op
from grass.store.decoding import sound
from grass.store.keys import CHECKS_KEPT, Keys
from grass.system import clock
from grass.wire.checks import NODE_CHECK, NodeCheck
from grass.wire.usage import USAGE_SAMPLE, UsageSample
from grass.wire.usage_history import JOB_HISTORY, Chunk, JobHistory, Level, field, numbers, unpack

_MOST_SAMPLES = 100
"""Samples of one node that are read at once."""
_LONGEST = 4 << 20
"""Characters of a sample: more than thousands of tasks need."""

log = logging.getLogger("grass.store")


class Sampled(NamedTuple):
    """A usage sample with the time at which it arrived.

    ``at``: when the store received the sample, in seconds since the epoch by its clock; never in the future. A node
    may choose the ids of its entries, and so pretend that a sample is older.
    """

    at: float
    sample: UsageSample


class HistoryStore:
    """Packed histories of usage. Written by the monitor, read by the API."""

    def __init__(self, backend: Backend, keys: Keys, wall: Callable[[], float] = clock.wall) -> None:
        self._backend = backend
        self.keys = keys
        self._wall = wall

    def cursors(self) -> dict[str, str]:
        """Return usage stream → last entry that is in the histories."""
        return self._backend.hgetall(self.keys.history_cursor)

    def samples(self, after: dict[str, str]) -> dict[str, list[tuple[str, Sampled]]]:
        """Return the entries of usage streams after the given ids, oldest first, each with its id."""
        found = self._backend.wait(after, 0, _MOST_SAMPLES) if after else {}
        return {stream: list(self._sampled(entries)) for stream, entries in found.items()}

    def with_unwritten(
        self, key: str, fields: Sequence[str], nodes: Iterable[str]
    ) -> tuple[dict[str, str], list[UsageSample]]:
        """Return what ``texts`` returns, and the samples of these nodes that are not in it yet, oldest first."""
        cursors = self.cursors()
        while True:
            texts, after = self.texts(key, fields), self.cursors()
            if after == cursors:
                break
            cursors = after  # the monitor, which writes every 10 s, wrote between the two
        found = self.samples({stream: cursors.get(stream, "0-0") for stream in map(self.keys.node_usage, nodes)})
        return texts, [sampled.sample for samples in found.values() for _, sampled in samples]

    def newest(self, node: str) -> Sampled | None:
        """Return the newest sample of a node."""
        entry = self._backend.newest(self.keys.node_usage(node))
        found = list(self._sampled([entry])) if entry else []
        return found[0][1] if found else None

    def checks(self, node: str) -> list[NodeCheck]:
        """Return the kept checks of a node, newest first."""
        found = []
        for entry_id, fields in self._backend.backwards(self.keys.checks(node), None, CHECKS_KEPT):
            try:
                found.append(NODE_CHECK.decode(fields.get("body", "")))
            except UndecodableError as error:
                log.warning("redis key %s, entry %s: %s; it is left out", self.keys.checks(node), entry_id, error)
        return found

    def chunks(self, key: str, wanted: Sequence[tuple[str, Level, int]]) -> dict[tuple[str, Level, int], Chunk]:
        """Return those chunks of the hash ``key`` that exist: (subject, level, number) → chunk."""
        fields = {field(level, number, subject): (subject, level, number) for subject, level, number in wanted}
        found = {}
        for name, text in self._backend.hget_many(key, list(fields)).items():
            _, level, number = fields[name]
            try:
                found[fields[name]] = unpack(level, number, text)
            except UndecodableError as error:
                log.warning("redis key %s, field %s: %s; it is left out", key, name, error)
        return found

    def curve(self, key: str, level: Level, since: float, until: float, subject: str = "") -> list[Chunk]:
        """Return the chunks of one subject between two times."""
        wanted = [(subject, level, number) for number in numbers(level, since, until)]
        return list(self.chunks(key, wanted).values())

    def texts(self, key: str, fields: Sequence[str]) -> dict[str, str]:
        return self._backend.hget_many(key, fields)

    def fields(self, key: str) -> Iterable[str]:
        """Yield the names of all fields of a history."""
        for piece in self._backend.hash_pieces(key):
            yield from piece

    def jobs(self) -> dict[str, JobHistory]:
        """Return the jobs that have a history."""
        key = self.keys.history_jobs
        return dict(sound(JOB_HISTORY, key, self._backend.hgetall(key).items()))

    def known_jobs(self, job_ids: Sequence[str]) -> set[str]:
        """Return those of the jobs that have a record."""
        return set(self._backend.hget_many(self.keys.jobs, job_ids))

    def write(self, ops: list[Op]) -> None:
        """Write in one atomic step."""
        self._backend.apply(ops)

    def _sampled(self, entries: Iterable[Entry]) -> Iterable[tuple[str, Sampled]]:
        now = self._wall()
        for entry_id, fields in entries:
            body = fields.get("body", "")
            try:
                if len(body) > _LONGEST:
                    raise UndecodableError("", f"longer than {_LONGEST} characters")
                sample = USAGE_SAMPLE.decode(body)
            except UndecodableError as error:
                log.debug("a usage sample cannot be decoded: %s", error)
                continue
            yield entry_id, Sampled(min(now, int(entry_id.partition("-")[0]) / 1000), sample)
