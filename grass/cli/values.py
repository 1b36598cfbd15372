"""Types of option values: durations, instants, patterns, a part of a job. Each error names the expected form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import click

from grass.cli.invocation import Invocation
from grass.errors import GrassError, InputError
from grass.model.key_text import task_parts
from grass.system import clock, environment

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType
    """The base of these types. Only newer versions of click know it as generic."""


@dataclass(frozen=True)
class Part:
    """Part of a job: one task, or all tasks of one component (``index`` None)."""

    component: str
    index: int | None

    @property
    def text(self) -> str:
        return self.component if self.index is None else f"{self.component}.{self.index}"


class Quantity(ParamType):
    """A value that the manifest's parser accepts, so that ``--timeout`` and ``timeout:`` have the same syntax."""

    def __init__(self, name: str, parser: str) -> None:
        self.name = name
        self._parser = parser

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from grass.manifest import quantities
        from grass.manifest.values import Wrong

        parse: Callable[[Any], Any] = getattr(quantities, self._parser)
        try:
            return parse(value)
        except Wrong as wrong:
            self.fail(str(wrong), param, ctx)


class Whole(click.IntRange):
    """A whole number from ``min`` to ``max``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"must be a whole number from {self.min} to {self.max}, got {value!r}", param, ctx)


class Since(ParamType):
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, float):
            return value
        instant = instant_of(value, clock.wall())
        if instant is None:
            expected = "a duration such as 10m, or a time such as 2026-03-01T12:00 (local, unless it names a zone)"
            self.fail(f"must be {expected}, got {value!r}", param, ctx)
        return instant


class FromNow(ParamType):
    """A time to come, as seconds from now: the clocks of this machine and of the cluster may differ."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, float):
            return value
        now = clock.wall()
        instant = coming_instant(value, now)
        if instant is None or not 0 <= instant - now <= 365 * 86_400:
            expected = "a time to come, within a year: +2h, 03:00, or 2026-03-01T12:00 (local, unless it names a zone)"
            self.fail(f"must be {expected}, got {value!r}", param, ctx)
        return instant - now


class Pattern(ParamType):
    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            re.compile(value)
        except (re.error, OverflowError, RecursionError, FutureWarning, DeprecationWarning) as error:
            from grass.manifest.document import show_text

            self.fail(f"{show_text(value)} is not a regular expression: {error}", param, ctx)
        return value


_COMPLETED = 1000
"""Most tasks that the shell is offered."""


class PartType(ParamType):
    name = "component[.index]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, Part):
            return value
        part = part_of(value)
        if part is None:
            self.fail(f"must be COMPONENT or COMPONENT.INDEX, such as worker.3; got {value!r}", param, ctx)
        return part

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Offer the components of the job that the command line names, and the tasks of a named component."""
        return _parts(ctx, ctx.params.get("name") or next(iter(ctx.args), None), incomplete)


def _parts(ctx: click.Context, job: str | None, incomplete: str) -> list[Any]:
    """Return the components of a job, or the tasks of the component that is named already, for the shell."""
    from click.shell_completion import CompletionItem

    try:
        components = ctx.ensure_object(Invocation).client().job(job, specification=False).components if job else {}
    except (GrassError, OSError):
        return []
    named, dot, _ = incomplete.partition(".")
    if dot and named in components:
        names = [f"{named}.{index}" for index in range(min(components[named].replicas, _COMPLETED))]
    else:
        names = list(components)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class PartOrJob(PartType):
    """A part of the job that the command line names first, or another job: the command finds out which."""

    name = "component or job"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


def part_of(text: str) -> Part | None:
    """Return the part that ``worker`` or ``worker.3`` means; None: neither."""
    if text and "." not in text:
        return Part(text, None)
    task = task_parts(text)
    return None if task is None else Part(*task)


class Known(ParamType):
    """The name of an existing object. The shell completes the name; if the look-up fails, it offers no names."""

    def __init__(self, name: str, names: Callable[[Invocation], Iterable[str]]) -> None:
        self.name = name
        self.names = names

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        try:
            names = dict.fromkeys(self.names(ctx.ensure_object(Invocation)))
        except (GrassError, OSError):
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class JobThenParts(Known):
    """Names of jobs; after the first, also its components and tasks."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        first = next(iter(ctx.params.get(param.name or "") or ()), None)
        return [*_parts(ctx, first, incomplete), *super().shell_complete(ctx, param, incomplete)]


class Cluster(Known):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert the name. Refuse an empty name (as from an unset variable): it must not mean the current cluster."""
        if value == "":
            self.fail("must be the name of a cluster, and is empty", param, ctx)
        return value


def _clusters(_: Invocation) -> list[str]:
    return environment.clusters(environment.grass_home())


def _running_tasks(invocation: Invocation) -> Iterator[str]:
    """Yield JOB.COMPONENT.INDEX for the tasks of active jobs."""
    for job in invocation.client().newest_jobs(limit=_COMPLETED).jobs:
        for component, found in job.components.items():
            yield from (f"{job.name}.{component}.{index}" for index in range(min(found.replicas, _COMPLETED)))


def _templates(_: Invocation) -> Iterable[str]:
    from grass.cli import templates

    return templates.names()


class Limit(Quantity):
    """A duration, or ``none``, which is 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return 0.0 if value == "none" else super().convert(value, param, ctx)


LIMIT = Limit("duration", "duration")
DURATION = Quantity("duration", "duration")
DURATION_OR_ZERO = Quantity("duration", "duration_or_zero")
SINCE = Since()
FROM_NOW = FromNow()
PATTERN = Pattern()
PART = PartType()
PART_OR_JOB = PartOrJob()
CLUSTER = Cluster("cluster", _clusters)
JOB = Known("job", lambda invocation: [job.name for job in invocation.client().newest_jobs(all=True, limit=1000).jobs])
JOB_THEN_PARTS = JobThenParts("job", JOB.names)
RUNNING_TASK = Known("task", _running_tasks)
NODE = Known("node", lambda invocation: [node.name for node in invocation.client().nodes()])
USER = Known("user", lambda invocation: [user.name for user in invocation.client().users()])
SCHEDULE = Known("schedule", lambda invocation: [one.name for one in invocation.client().schedules()])
QUEUE = Known("queue", lambda invocation: [one.name for one in invocation.client().queues()])
TEMPLATE = Known("template", _templates)


def instant_of(text: str, now: float) -> float | None:
    """Return seconds since the epoch for ``10m`` (ago) or an ISO time; None if the text is neither."""
    from grass.manifest import quantities
    from grass.manifest.values import Wrong

    try:
        return now - quantities.duration(text)
    except Wrong:
        return _iso_instant(text)


def coming_instant(text: str, now: float) -> float | None:
    """Return seconds since the epoch for ``+2h``, ``03:00`` (the next one, local) or an ISO time; None: it is none."""
    from grass.manifest import quantities
    from grass.manifest.values import Wrong

    if text.startswith("+"):
        try:
            return now + quantities.duration(text[1:])
        except Wrong:
            return None
    if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}", text) is None:
        return _iso_instant(text)
    today = datetime.fromtimestamp(now, timezone.utc).astimezone().replace(tzinfo=None)  # local, as users mean it
    try:
        moment = today.replace(hour=int(text[:-3]), minute=int(text[-2:]), second=0, microsecond=0)
    except ValueError:
        return None
    return (moment if moment > today else moment + timedelta(days=1)).timestamp()


def _iso_instant(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
        return (moment if moment.tzinfo else moment.astimezone()).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def job_and_task(text: str) -> tuple[str, str]:
    """Return the job, and the task in it, of JOB.COMPONENT.INDEX. Raises InputError."""
    job, *words = text.rsplit(".", 2)
    task = ".".join(words)
    if not job or task_parts(task) is None:
        raise InputError(f"TASK must be JOB.COMPONENT.INDEX, such as train.worker.3; got {text!r}")
    return job, task


def count_or_all(text: str, option: str) -> int | None:
    """Parse a number, or `all` (None)."""
    if text == "all":
        return None
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"must be a number or `all`, got {text!r}", param_hint=option)
    return int(text)


TASKS_SHOWN = click.option(
    "--tasks", "tasks_shown", metavar="N|all", default="20", show_default=True, help="Show at most N tasks."
)
"""The option of commands that list the tasks of one job. Parse its value with ``count_or_all``."""
