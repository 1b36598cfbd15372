"""What a user submits with `grass schedule start`: a batch of jobs, or a job that a cron rule starts repeatedly."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from grass.model.job import Job


class ScheduleKind(str, Enum):
    BATCH = "batch"
    CRON = "cron"


class Missed(str, Enum):
    """What happens to start times that passed while the cluster was down: nothing, or one run for all of them."""

    SKIP = "skip"
    RUN_ONCE = "run-once"


class Overlap(str, Enum):
    """What happens when the previous run is still active: no run, a run after it, or a run that replaces it."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


@dataclass(frozen=True)
class Schedule:
    """``jobs``: each job of a batch; or the one job of a cron rule, whose runs are named after the schedule.

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

    def to_wire(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind.value,
            "jobs": [job.to_wire() for job in self.jobs],
            "cron": self.cron,
            "time_zone": self.time_zone,
            "missed": self.missed.value,
            "overlap": self.overlap.value,
        }

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Schedule:
        return cls(
            name=wire["name"],
            kind=ScheduleKind(wire["kind"]),
            jobs=tuple(Job.from_wire(job) for job in wire["jobs"]),
            cron=wire["cron"],
            time_zone=wire["time_zone"],
            missed=Missed(wire["missed"]),
            overlap=Overlap(wire["overlap"]),
        )
