"""Jobs by their state and in order of submission, so that a page of a list costs what it shows, however many there are.

For each state a sorted set of all jobs in it, and one of each user's. A job is in those of the state that its record
has: who writes a record with another state moves it in the same step (``moved``). Read by ``ApiStore``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grass.model.lifecycle import JobState
from grass.store.backend import Backend, Op
from grass.store.keys import Keys

EVERYBODY = ""
"""Instead of a user."""
BEGUN = (JobState.RUNNING, JobState.STOPPING)
WAITING = (JobState.QUEUED, JobState.SUSPENDED)
ENDED = tuple(state for state in JobState if state.ended)


def position(submitted: float, job_id: str) -> str:
    """The member of the sets: their order, as text, is that of submission."""
    return f"{submitted:020.6f}/{job_id}"


def job_of(member: str) -> str:
    """Return the id of the job with this ``position``."""
    return member.partition("/")[2]


def moved(
    keys: Keys, user: str, submitted: float, job_id: str, before: JobState | None, after: JobState | None
) -> list[Op]:
    """``before`` None: the job is new. ``after`` None: it is removed."""
    member, ops = position(submitted, job_id), list[Op]()
    if before is after:
        return ops
    for owner in (EVERYBODY, user):
        if before is not None:
            ops.append(("ZREM", keys.jobs_in(before.value, owner), member))
        if after is not None:
            ops.append(("ZADD", keys.jobs_in(after.value, owner), 0, member))
    return ops


class JobIndex:
    """``user``: whose jobs, or ``EVERYBODY``."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def counts(self, user: str = EVERYBODY) -> dict[JobState, int]:
        """Of the states that a job is in."""
        sizes = {state: self._backend.size(self._keys.jobs_in(state.value, user)) for state in JobState}
        return {state: size for state, size in sizes.items() if size}

    def newest(self, groups: Iterable[Sequence[JobState]], user: str, limit: int, before: str | None) -> list[str]:
        """Ids of the newest ``limit`` jobs: of the first group of states, then of the next; oldest first.

        ``before``: only those whose ``position`` is less.
        """
        chosen: list[str] = []
        for states in groups:
            left = limit - len(chosen)
            chosen += self.positions(states, user, left, before) if left > 0 else ()
        return [job_of(member) for member in sorted(chosen)]

    def positions(self, states: Sequence[JobState], user: str, limit: int, before: str | None) -> list[str]:
        """Return the ``position`` of each of the newest ``limit`` jobs in these states, newest first."""
        keys = [self._keys.jobs_in(state.value, user) for state in states]
        found = [member for key in keys for member in self._backend.highest(key, before, limit)]
        return sorted(found, reverse=True)[:limit]
