"""The order in which jobs are served: priority, then kept reservations, then fair share, then submission.

Used by ``Round``. Jobs of one kind (``QueuedJob.kind``) share a lane. If nothing of the first job fits, nothing of the
others fits, and the lane closes at once, however many jobs are in the lane.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from operator import attrgetter

from master.planning.model import QueuedJob

_IN_LINE = attrgetter("position", "id")


class Lane:
    """Equal jobs of one user, the oldest first. ``next``: list index of the job to serve next."""

    def __init__(self, jobs: list[QueuedJob]) -> None:
        self.jobs = jobs
        self.next = 0

    def close(self) -> list[QueuedJob]:
        """Serve no more jobs of this lane. Return the job that was served last and the jobs behind it."""
        first, self.next = self.next - 1, len(self.jobs)
        return self.jobs[first:]


class Lanes:
    """All lanes. ``share``: user → past and present use (``FairShares.fair_share``).

    Called after each job, because the share changes.
    """

    def __init__(self, queue: Sequence[QueuedJob], share: Callable[[str], float]) -> None:
        self._share = share
        alike, ordered = _alike(queue)
        self._levels: defaultdict[tuple[int, float], defaultdict[str, list[Lane]]]
        self._levels = defaultdict(lambda: defaultdict(list))
        for jobs in alike:
            if not ordered:  # the jobs usually are in order already, and a queue may be very long
                jobs.sort(key=_IN_LINE)
            first = jobs[0]
            level = -first.priority, inf if first.reservation_rank is None else first.reservation_rank
            self._levels[level][first.user].append(Lane(jobs))

    def custom(self) -> list[str]:
        """Return the names of the custom resources that the tasks need."""
        lanes = [lane for users in self._levels.values() for lanes in users.values() for lane in lanes]
        demands = [demand for lane in lanes for demand in lane.jobs[0].demands]
        return sorted({name for demand in demands for name, _ in demand.shape.resources.custom})

    def in_order(self) -> Iterator[tuple[QueuedJob, Lane]]:
        """Yield each job with its lane. The caller closes the lane when nothing of the job fits."""
        for level in sorted(self._levels):
            yield from self._level(self._levels[level])

    def _level(self, users: dict[str, list[Lane]]) -> Iterator[tuple[QueuedJob, Lane]]:
        lines: dict[str, list[tuple[tuple[int, str], Lane]]] = {}
        turns: list[tuple[float, tuple[int, str], str]] = []
        alone = len(users) == 1
        for user, lanes in users.items():
            line = [(_IN_LINE(lane.jobs[0]), lane) for lane in lanes]
            heapify(line)
            lines[user] = line
            turns.append((0.0 if alone else self._share(user), line[0][0], user))
        heapify(turns)
        while turns:
            _, _, user = heappop(turns)
            line = lines[user]
            _, lane = heappop(line)
            job = lane.jobs[lane.next]
            lane.next += 1
            yield job, lane
            if lane.next < len(lane.jobs):
                heappush(line, (_IN_LINE(lane.jobs[lane.next]), lane))
            if line:
                heappush(turns, (0.0 if alone else self._share(user), line[0][0], user))


def _alike(queue: Sequence[QueuedJob]) -> tuple[list[list[QueuedJob]], bool]:
    """Return the jobs of each kind, in queue order, and whether the queue is in the order of positions.

    One loop instead of several faster loops: with 100,000 jobs, fetching each job from memory is the main cost.
    """
    by_kind: defaultdict[str, list[QueuedJob]] = defaultdict(list)
    ordered, last = True, -1
    for job in queue:
        by_kind[job.kind or job.set_kind()].append(job)
        position = job.position
        if position <= last:
            ordered = False
        last = position
    return list(by_kind.values()), ordered
