"""The order in which jobs are served: priority, then promises, then the user who has had least, then submission.

Jobs of one kind (``QueuedJob.kind``) stand in one lane: once the first of them finds nothing at all, neither does any
behind it, and the lane is closed at once, however many wait in it.
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
    """Equal jobs of one user, the oldest first; ``next``: the one whose turn is next."""

    def __init__(self, jobs: list[QueuedJob]) -> None:
        self.jobs = jobs
        self.next = 0

    def close(self) -> list[QueuedJob]:
        """None of them has a turn again. Answers with the job whose turn it was last, and those behind it."""
        first, self.next = self.next - 1, len(self.jobs)
        return self.jobs[first:] if first else self.jobs


class Lanes:
    """``share``: user → how much that user has had and has; asked again after each job, because it grows by it."""

    def __init__(self, queue: Sequence[QueuedJob], share: Callable[[str], float]) -> None:
        self._share = share
        alike, ordered = _alike(queue) if len(queue) > 1 else ([list(queue)] if queue else [], True)
        self._levels: defaultdict[tuple[int, float], defaultdict[str, list[Lane]]]
        self._levels = defaultdict(lambda: defaultdict(list))
        for jobs in alike:
            if not ordered:  # they mostly are, and there may be very many
                jobs.sort(key=_IN_LINE)
            first = jobs[0]
            level = -first.priority, inf if first.reservation_rank is None else first.reservation_rank
            self._levels[level][first.user].append(Lane(jobs))

    def custom(self) -> list[str]:
        """The names of the custom resources that any of the tasks needs."""
        lanes = [lane for users in self._levels.values() for lanes in users.values() for lane in lanes]
        demands = [demand for lane in lanes for demand in lane.jobs[0].demands]
        return sorted({name for demand in demands for name, _ in demand.shape.resources.custom})

    def in_order(self) -> Iterator[tuple[QueuedJob, Lane]]:
        """Each job in turn with its lane. The caller closes a lane whose job found nothing."""
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
    """The jobs of each kind, in the order of the queue; and whether that is their order in line.

    One loop and not several faster ones: with 100,000 jobs it is the fetching of each from memory that costs.
    """
    by_kind: defaultdict[str, list[QueuedJob]] = defaultdict(list)
    ordered, last = True, -1
    for job in queue:
        by_kind[job.kind or job.told_apart()].append(job)
        position = job.position
        if position <= last:
            ordered = False
        last = position
    return list(by_kind.values()), ordered
