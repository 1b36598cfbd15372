"""What users change about a job that has not ended: priority, time limit, most tasks at once. Pure.

Used by ``master.api``, which files them, and ``master.agent``, which carries them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from grass.model.amounts import show_span
from grass.model.job import MAX_PRIORITY, Component, Job


class SettingError(Exception):
    """A setting that the job cannot have. ``path``: of the setting."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


@dataclass(frozen=True, slots=True)
class JobSettings:
    """New settings. ``priority`` None: it stays. ``timeout``: seconds, 0 for no limit, None if it stays.

    ``parallelism``: component → most tasks at once, 0 for no limit. A component that it does not name keeps its own.
    """

    priority: int | None = None
    timeout: float | None = None
    parallelism: dict[str, int] = field(default_factory=dict)

    def applied(self, job: Job) -> Job:
        """Return the job with these settings. Raises SettingError."""
        if self.priority is not None and not 0 <= self.priority <= MAX_PRIORITY:
            raise SettingError("priority", f"must be between 0 and {MAX_PRIORITY}, got {self.priority}")
        components = dict(job.components)
        for name, limit in self.parallelism.items():
            _check_parallelism(job, name, limit)
            components[name] = replace(components[name], parallelism=limit or None)
        return replace(
            job,
            priority=job.priority if self.priority is None else self.priority,
            timeout=job.timeout if self.timeout is None else self.timeout or None,
            components=components,
        )


def _check_parallelism(job: Job, name: str, limit: int) -> None:
    path = f"parallelism.{name}"
    part = job.components.get(name)
    if part is None:
        raise SettingError(path, f"the job has no such component; it has {', '.join(job.components)}")
    if limit < 0:
        raise SettingError(path, f"must be at least 1, or 0 for no limit; got {limit}")
    if 0 < limit < (part.min or 0):
        raise SettingError(path, f"must be at least `min`, which is {part.min}; got {limit}")
    if name in job.gang and 0 < limit < part.replicas:
        raise SettingError(path, f"must be at least {part.replicas}, because its tasks start together; got {limit}")


def differences(before: Job, after: Job) -> list[str]:
    """Return what settings changed, as sentences without a subject: ``time limit 2h instead of none``."""
    found = []
    if before.priority != after.priority:
        found.append(f"priority {after.priority} instead of {before.priority}")
    if before.timeout != after.timeout:
        found.append(f"time limit {_limit(after.timeout)} instead of {_limit(before.timeout)}")
    for name, part in after.components.items():
        old = before.components[name]
        if old.parallelism != part.parallelism:
            found.append(f"{_at_once(part)} of {name} at once instead of {_at_once(old)}")
    return found


def _limit(seconds: float | None) -> str:
    return "none" if seconds is None else show_span(seconds)


def _at_once(part: Component) -> str:
    return "all tasks" if part.parallelism is None else f"{part.parallelism} tasks"
