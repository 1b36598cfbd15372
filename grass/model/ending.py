"""How a job ends, and what happens after its end: when it succeeds, whether it starts again, what is removed. Frozen.

Read by ``grass.manifest.ending``; ``master.agent.job_end`` and ``master.agent.job_restart`` act on it. Durations are
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Clean(str, Enum):
    """What to remove once the result of a job is known. Its record stays until its retention ends."""

    ALL = "all"
    """Stop the tasks that still run, and remove the logs a minute after the end."""
    RUNNING = "running"
    """Stop the tasks that still run; keep the logs."""
    NONE = "none"
    """Let the tasks that still run go on; the job ends with the last of them."""


class Enough(str, Enum):
    """How many tasks of a component must succeed."""

    ALL = "all"
    ANY = "any"
    INDEX0 = "index0"


@dataclass(frozen=True, slots=True)
class JobRestart:
    """Restarts of the whole job after a failure. Waits double from ``backoff``, up to five minutes."""

    limit: int = 0
    backoff: float = 1.0


NO_JOB_RESTART = JobRestart()


@dataclass(frozen=True, slots=True)
class Ending:
    """How one job ends.

    ``deadline``: from the first start of the job, over all its restarts. ``ttl``: from its end to its removal.

    ``enough``: component → how many of its tasks must succeed; a component that is not named: all. ``max_failures``:
    the tasks that may fail before the job ends, while others go on (None: any number).
    """

    clean: Clean = Clean.RUNNING
    ttl: float | None = None
    deadline: float | None = None
    restart: JobRestart = NO_JOB_RESTART
    enough: dict[str, Enough] = field(default_factory=dict)
    max_failures: int | None = None


PLAIN_ENDING = Ending()
