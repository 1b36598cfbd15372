"""The columns of `grass job list`: name → title, layout and text. Pure. Other parts add columns here.

Used by ``job_list``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grass.cli.amounts import NOTHING, show_age, show_instant, show_progress
from grass.cli.job_views import job_reason, ran_for
from grass.cli.table import Column, paragraph, table
from grass.cli.usage_views import show_cpu, show_energy, totals_of
from grass.cli.view import View
from grass.model.amounts import show_memory, show_span

DEFAULT = ("name", "id", "state", "tasks", "user", "age", "reason")


@dataclass(frozen=True)
class JobColumn:
    """One column of the list.

    ``text``: takes the job's view and the present time. ``key``: what `--sort` orders by.
    """

    column: Column
    text: Callable[[View, float], str]
    key: Callable[[View], float | str]


def _time(name: str) -> JobColumn:
    return JobColumn(Column(name.upper()), lambda job, _: show_instant(job[name]), lambda job: job[name] or 0.0)


def _word(name: str, drop: int = 0) -> JobColumn:
    return JobColumn(Column(name.upper(), drop), lambda job, _: job[name] or NOTHING, lambda job: job[name] or "")


def _number(name: str, key: str) -> JobColumn:
    def text(job: View, _: float) -> str:
        return NOTHING if job[key] is None else str(job[key])

    return JobColumn(Column(name.upper(), right=True), text, lambda job: -1 if job[key] is None else job[key])


def _used(title: str, name: str, show: Callable[[View], str]) -> JobColumn:
    """A figure of what the ended tasks of a job used."""

    def text(job: View, _: float) -> str:
        return show(job["usage"]) if job.get("usage") else NOTHING

    return JobColumn(Column(title, right=True), text, lambda job: (job.get("usage") or {}).get(name, -1.0))


def _age(job: View, now: float) -> str:
    return show_age(job["submitted"], now)


def _tasks(job: View, _: float) -> str:
    return show_progress(job["state"], job["counts"])


def _task_count(job: View) -> int:
    return sum(job["counts"].values())


def _seconds(job: View) -> float:
    return float((job["ended"] or 0.0) - (job["started"] or 0.0))


COLUMNS: Mapping[str, JobColumn] = {
    "name": _word("name"),
    "id": _word("id", drop=3),
    "state": _word("state"),
    "tasks": JobColumn(Column("TASKS"), _tasks, _task_count),
    "user": _word("user", drop=2),
    "age": JobColumn(Column("AGE", drop=1, right=True), _age, lambda job: -job["submitted"]),
    "submitted": _time("submitted"),
    "started": _time("started"),
    "ended": _time("ended"),
    "time": JobColumn(Column("TIME", right=True), ran_for, _seconds),
    "exit": _number("exit", "exit_code"),
    "restarts": _number("restarts", "restarts"),
    "priority": _number("priority", "priority"),
    "tags": JobColumn(Column("TAGS"), lambda job, _: show_tags(job["tags"]), lambda job: show_tags(job["tags"])),
    "schedule": _word("schedule"),
    "cpu": _used("CPU", "cpu", lambda totals: show_cpu(totals_of(totals))),
    "memory": _used("PEAK MEMORY", "memory", lambda totals: show_memory(totals.get("memory", 0))),
    "gpu": _used("GPU", "gpu", lambda totals: show_span(totals["gpu"]) if totals.get("gpu") else NOTHING),
    "gpu-memory": _used(
        "PEAK GPU MEMORY",
        "gpu_memory",
        lambda totals: show_memory(totals["gpu_memory"]) if totals.get("gpu_memory") else NOTHING,
    ),
    "read": _used("READ", "read", lambda totals: show_memory(totals.get("read", 0))),
    "written": _used("WRITTEN", "written", lambda totals: show_memory(totals.get("written", 0))),
    "energy": _used("ENERGY", "energy", lambda totals: show_energy(totals_of(totals))),
    "reason": JobColumn(Column("REASON", wrap=True), lambda job, _: job_reason(job), job_reason),
}


def show_tags(tags: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in tags.items()) or NOTHING


def rows(jobs: Sequence[View], names: Sequence[str], now: float) -> list[list[str]]:
    return [[COLUMNS[name].text(job, now) for name in names] for job in jobs]


def ordered(jobs: Sequence[View], by: str | None) -> list[View]:
    """Return the jobs in the order of a column; ``-name``: reversed; None: as they are."""
    if by is None:
        return list(jobs)
    return sorted(jobs, key=COLUMNS[by.removeprefix("-")].key, reverse=by.startswith("-"))


def table_of(
    jobs: Sequence[View], names: Sequence[str], now: float, width: int | None, *, nothing: str = "", more: int = 0
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
