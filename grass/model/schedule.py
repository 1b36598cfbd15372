"""What a user asks for with `grass schedule start`: a batch of jobs, or one that a cron rule starts again and again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from grass.model.job import Job


class ScheduleKind(str, Enum):
    BATCH = "batch"
    CRON = "cron"


class Missed(str, Enum):
    """What becomes of the times that passed while the cluster was away: nothing, or one run for all of them."""

    SKIP = "skip"
    RUN_ONCE = "run-once"


class Overlap(str, Enum):
    """What becomes of a time at which the run before still goes on: no run, a run after it, or a run in its place."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


@dataclass(frozen=True)
class Schedule:
    """``jobs``: of a batch each job, once; of a cron rule one template, whose every run is named after the schedule.

    ``cron`` has five fields and names days of the week (``mon``, not ``1``), because numbers mean different days to
    cron and to APScheduler.
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
