"""What a user submits with `grass schedule start`: a batch of jobs, or a job that a cron rule starts repeatedly.

Used by ``grass.manifest``, ``grass.wire``, ``master.agent`` and ``master.api``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from grass.model.job import Job


class ScheduleKind(str, Enum):
    BATCH = "batch"
    CRON = "cron"


class Missed(str, Enum):
    """The treatment of start times that passed while the cluster was down: no run, or one run for all of them."""

    SKIP = "skip"
    RUN_ONCE = "run-once"


class Overlap(str, Enum):
    """The treatment of an active previous run: start no run, start a run after it, or replace it."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule. ``jobs``: the jobs of a batch, or the one job of a cron rule; the schedule's name names its runs.

    ``cron`` has five fields. Days of the week are names (``mon``, not ``1``), because cron and APScheduler number them
    differently.
    """

    name: str
    kind: ScheduleKind
    jobs: tuple[Job, ...]
    cron: str | None = None
    time_zone: str = "UTC"
    missed: Missed = Missed.RUN_ONCE
    overlap: Overlap = Overlap.SKIP
