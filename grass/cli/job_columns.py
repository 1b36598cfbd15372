"""The columns of `grass job list`: name → title, layout and text. Pure. Other parts add columns here.

Used by ``job_list``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grass.cli.amounts import NOTHING, show_age, show_failure, show_instant, show_progress
from grass.cli.job_text import job_reason, ran_for
from grass.cli.table import Column, paragraph, table
from grass.cli.usage_text import measured, show_cpu, show_energy
from grass.model.amounts import show_memory, show_span

if TYPE_CHECKING:
    from grass.wire.job_views import JobView
    from grass.wire.usage import TaskTotals

DEFAULT = ("name", "id", "state", "tasks", "user", "age", "reason")


@dataclass(frozen=True)
class JobColumn:
    """One column of the list.

    ``text``: takes the job's view and the present time. ``key``: what `--sort` orders by. ``raw``: the value for csv;
    None: the text.
    """

    column: Column
    text: Callable[[JobView, float], str]
    key: Callable[[JobView], float | str]
    raw: Callable[[JobView], object] | None = None


def _time(name: str, of: Callable[[JobView], float | None]) -> JobColumn:
    return JobColumn(Column(name.upper()), lambda job, _: show_instant(of(job)), lambda job: of(job) or 0.0, of)


def _word(name: str, of: Callable[[JobView], str | None], drop: int = 0) -> JobColumn:
    return JobColumn(Column(name.upper(), drop), lambda job, _: of(job) or NOTHING, lambda job: of(job) or "")


def _number(name: str, of: Callable[[JobView], int | None]) -> JobColumn:
    def text(job: JobView, _: float) -> str:
        return NOTHING if (number := of(job)) is None else str(number)

    def key(job: JobView) -> int:
        return -1 if (number := of(job)) is None else number

    return JobColumn(Column(name.upper(), right=True), text, key, of)


def _used(title: str, of: Callable[[TaskTotals], float], show: Callable[[TaskTotals], str]) -> JobColumn:
    """A figure of what the ended tasks of a job used."""

    def text(job: JobView, _: float) -> str:
        used = measured(job.usage)
        return show(used) if used else NOTHING

    def raw(job: JobView) -> float | None:
        used = measured(job.usage)
        return of(used) if used else None

    return JobColumn(Column(title, right=True), text, lambda job: of(job.usage) if job.usage else 0.0, raw)


def _age(job: JobView, now: float) -> str:
    return show_age(job.submitted, now)


def _tasks(job: JobView, _: float) -> str:
    return show_progress(job.state, job.counts)


def _task_count(job: JobView) -> int:
    return sum(job.counts.values())


def _seconds(job: JobView) -> float:
    return float((job.ended or 0.0) - (job.started or 0.0))


def _known_seconds(job: JobView) -> float | None:
    return None if job.started is None or job.ended is None else job.ended - job.started


COLUMNS: Mapping[str, JobColumn] = {
    "name": _word("name", lambda job: job.name),
    "id": _word("id", lambda job: job.id, drop=3),
    "state": _word("state", lambda job: job.state.value),
    "tasks": JobColumn(Column("TASKS"), _tasks, _task_count, lambda job: {**job.counts}),
    "user": _word("user", lambda job: job.user, drop=2),
    "age": JobColumn(Column("AGE", drop=1, right=True), _age, lambda job: -job.submitted, lambda job: job.submitted),
    "submitted": _time("submitted", lambda job: job.submitted),
    "started": _time("started", lambda job: job.started),
    "ended": _time("ended", lambda job: job.ended),
    "time": JobColumn(Column("TIME", right=True), ran_for, _seconds, _known_seconds),
    "exit": _number("exit", lambda job: job.exit_code),
    "restarts": _number("restarts", lambda job: job.restarts),
    "priority": _number("priority", lambda job: job.priority),
    "tags": JobColumn(Column("TAGS"), lambda job, _: show_tags(job.tags), lambda job: show_tags(job.tags)),
    "schedule": _word("schedule", lambda job: job.schedule),
    "cpu": _used("CPU", lambda used: used.cpu, show_cpu),
    "memory": _used("PEAK MEMORY", lambda used: used.memory, lambda used: show_memory(used.memory)),
    "gpu": _used("GPU", lambda used: used.gpu, lambda used: show_span(used.gpu) if used.gpu else NOTHING),
    "gpu-memory": _used(
        "PEAK GPU MEMORY",
        lambda used: used.gpu_memory,
        lambda used: show_memory(used.gpu_memory) if used.gpu_memory else NOTHING,
    ),
    "read": _used("READ", lambda used: used.read, lambda used: show_memory(used.read)),
    "written": _used("WRITTEN", lambda used: used.written, lambda used: show_memory(used.written)),
    "energy": _used("ENERGY", lambda used: used.energy, show_energy),
    "failure": _word("failure", lambda job: show_failure(job.reason) or None),
    "reason": JobColumn(Column("REASON", wrap=True), lambda job, _: job_reason(job), job_reason),
}


def show_tags(tags: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in tags.items()) or NOTHING


def rows(jobs: Sequence[JobView], names: Sequence[str], now: float) -> list[list[str]]:
    return [[COLUMNS[name].text(job, now) for name in names] for job in jobs]


def raw_rows(jobs: Sequence[JobView], names: Sequence[str], now: float) -> list[list[str]]:
    """Return the cells for csv. Times are seconds since the epoch; AGE is when the job was submitted."""
    from grass.cli.serial import raw_cell

    def cell(job: JobView, column: JobColumn) -> str:
        return column.text(job, now) if column.raw is None else raw_cell(column.raw(job))

    return [[cell(job, COLUMNS[name]) for name in names] for job in jobs]


def ordered(jobs: Sequence[JobView], by: str | None) -> list[JobView]:
    """Return the jobs in the order of a column; ``-name``: reversed; None: as they are."""
    if by is None:
        return list(jobs)
    return sorted(jobs, key=COLUMNS[by.removeprefix("-")].key, reverse=by.startswith("-"))


def table_of(
    jobs: Sequence[JobView], names: Sequence[str], now: float, width: int | None, *, nothing: str = "", more: int = 0
) -> list[str]:
    """Return the table of jobs. ``nothing``: said without jobs. ``more``: jobs that are left out; -1: not counted."""
    if not jobs and not more:
        return [nothing]
    lines = table([COLUMNS[name].column for name in names], rows(jobs, names, now), width)
    return [*lines, *paragraph(more_jobs(more), width)] if more else lines


def more_jobs(count: int) -> str:
    return f"… and {f'{count} more jobs' if count > 0 else 'more jobs'}; --limit all shows them"


def no_jobs(*, all_jobs: bool, selected: bool) -> str:
    if selected:
        return "no such jobs" if all_jobs else "no such active jobs; use --all to include finished jobs"
    return "no jobs" if all_jobs else "no active jobs; use --all to include finished jobs"
