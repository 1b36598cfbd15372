"""An index of jobs by state, in order of submission: a page of a list costs the same however many jobs there are.

Each state has a sorted set of all its jobs, and one for each user's jobs. Whoever writes a job's record with another
state also moves the job in this index, in the same step (``moved``). Read by ``Records``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grass.model.lifecycle import JobState
from grass.store.backend import Backend, Op
from grass.store.keys import Keys

EVERYBODY = ""
"""In place of a user's name: the jobs of all users."""
BEGUN = (JobState.RUNNING, JobState.STOPPING)
WAITING = (JobState.QUEUED, JobState.SUSPENDED)
ENDED = tuple(state for state in JobState if state.ended)


def position(submitted: float, job_id: str) -> str:
    """Return a job's member of the sets. Members in the order of text are in the order of submission."""
    return f"{submitted:020.6f}/{job_id}"


def job_of(member: str) -> str:
    """Return the id of the job with this ``position``."""
    return member.partition("/")[2]


def moved(
    keys: Keys, user: str, submitted: float, job_id: str, before: JobState | None, after: JobState | None
) -> list[Op]:
    """Return the writes that move a job. ``before`` None: the job is new. ``after`` None: it is removed."""
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
    """Reads the index. ``user`` of its methods: whose jobs, or ``EVERYBODY``."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def counts(self, user: str = EVERYBODY) -> dict[JobState, int]:
        """Return how many jobs are in each state; states without a job are left out."""
        sizes = {state: self._backend.size(self._keys.jobs_in(state.value, user)) for state in JobState}
        return {state: size for state, size in sizes.items() if size}

    def newest(self, groups: Iterable[Sequence[JobState]], user: str, limit: int, before: str | None) -> list[str]:
        """Return the ids of at most ``limit`` jobs, oldest first.

        The newest jobs of the first group of states are taken first, then those of the next group. ``before``: only
        jobs whose ``position`` is less.
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
