"""`GET /v1/jobs`: one page of the jobs that a query selects. It reads the records of a page at a time.

Used by ``handlers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from grass.errors import InputError, NotAllowedError
from grass.model.lifecycle import JobState
from grass.store.api_store import ApiStore
from grass.store.job_index import BEGUN, ENDED, EVERYBODY, WAITING, job_of
from grass.wire.job_record import JobRecord
from grass.wire.job_views import JobsView
from master.api.call import Call
from master.api.redaction import Redaction
from master.api.views import job_view

_AT_ONCE = 1000
"""Jobs that are looked at together."""


@dataclass(frozen=True)
class Selection:
    """What a job must match. ``tags``: name → value, or None for any value."""

    name: str | None = None
    tags: tuple[tuple[str, str | None], ...] = ()
    since: float | None = None

    def __bool__(self) -> bool:
        return self.name is not None or bool(self.tags) or self.since is not None

    def names(self, job_id: str) -> bool:
        """Return whether the name in the id matches."""
        return self.name is None or fnmatchcase(job_id.rpartition("-")[0], self.name)

    def matches(self, record: JobRecord) -> bool:
        return all(
            name in record.tags and value in (None, record.tags[name]) for name, value in self.tags
        ) and not self.is_too_old(record)

    @property
    def words(self) -> list[str]:
        """Texts that each matching record contains: other records need not be decoded. Empty with ``since``, because
        the search must see the first record that is too old."""
        return [] if self.since is not None else [text for tag in self.tags for text in tag if text is not None]

    def is_too_old(self, record: JobRecord) -> bool:
        """Return whether this job, and so every older one, was submitted before ``since``."""
        return self.since is not None and record.submitted < self.since


def list_jobs(call: Call) -> JobsView:
    """List one page of jobs."""
    redaction, store, query = Redaction(call), call.api.store, call.query
    groups, user = _groups(query["state"], all_jobs=query["all"]), _user(call, query["user"])
    states = [state for group in groups for state in group]
    before, limit = None if query["before"] is None else store.position(query["before"]), int(query["limit"])
    selection = Selection(query["name"], _tags(query["tag"]), query["since"])
    wanted = groups if query["begun_first"] else [states]
    if selection:
        records = select(store, wanted, user, limit, before, selection)
        total, full = None, len(records) == limit
    else:
        chosen = store.job_index.newest(wanted, user, limit, before)
        records, full = store.runs(chosen), len(chosen) == limit
        counts = store.job_index.counts(user)
        total = sum(counts.get(state, 0) for state in states)
    return JobsView(tuple(job_view(redaction.job(record)) for record in records), total, more=full)


def select(
    store: ApiStore,
    groups: Sequence[Sequence[JobState]],
    user: str,
    limit: int,
    before: str | None,
    selection: Selection,
) -> list[JobRecord]:
    """Return the newest ``limit`` jobs that match: of the first group of states, then of the next; oldest first."""
    found: list[JobRecord] = []
    for states in groups:
        for record in _newest(store, states, user, before, selection) if len(found) < limit else ():
            if selection.is_too_old(record):
                break
            if selection.matches(record):
                found.append(record)
            if len(found) >= limit:
                break
    return sorted(found, key=lambda record: (record.submitted, record.id))


def _newest(
    store: ApiStore, states: Sequence[JobState], user: str, before: str | None, selection: Selection
) -> Iterator[JobRecord]:
    """Yield the records of jobs with the right name, newest first."""
    while positions := store.job_index.positions(states, user, _AT_ONCE, before):
        before = positions[-1]
        named = [job_id for job_id in map(job_of, positions) if selection.names(job_id)]
        yield from store.runs(named, selection.words)


def _groups(text: str | None, *, all_jobs: bool) -> list[Sequence[JobState]]:
    if text is None:
        return [BEGUN, WAITING, ENDED] if all_jobs else [BEGUN, WAITING]
    chosen = []
    for word in text.split(","):
        if word not in JobState.__members__:
            raise InputError(f"state: must be some of {', '.join(JobState.__members__)}, got {word!r}")
        chosen.append(JobState[word])
    return [[state for state in group if state in chosen] for group in (BEGUN, WAITING, ENDED)]


def _user(call: Call, user: str | None) -> str:
    if user is None:
        return call.scope
    if call.scope not in (EVERYBODY, user):
        raise NotAllowedError(f"user {user}: you may list only your own jobs")
    return user


def _tags(text: str | None) -> tuple[tuple[str, str | None], ...]:
    found = []
    for tag in (text or "").split("\n") if text is not None else ():
        name, given, value = tag.partition("=")
        if not name:
            raise InputError(f"tag: must be NAME or NAME=VALUE, got {tag!r}")
        found.append((name, value if given else None))
    return tuple(found)
