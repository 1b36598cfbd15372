"""What the page can ask the cluster, besides the feed and logs: one function per question. Called by ``app``."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from grass.api.client import Client
from grass.api.earlier_runs import earlier_runs
from grass.api.results import Cell, Results
from grass.api.run_events import events_of_run
from grass.dashboard.curves import (
    Run,
    capacity,
    comparison,
    job_charts,
    last,
    node_charts,
    own_charts,
    own_extent,
    task_charts,
)
from grass.dashboard.glance import glance
from grass.dashboard.run_curves import run_curves
from grass.errors import InputError, NotFoundError
from grass.model.event_kind import EventKind
from grass.model.job import Job
from grass.wire.codec import builtins
from grass.wire.job_views import JobView
from grass.wire.result_views import MediumView
from grass.wire.stacks import grouped
from grass.wire.usage_history import FINE, MINUTES, QUARTERS, finest
from grass.wire.usage_views import JobMetricsView

Words = Mapping[str, str]
"""Query parameters."""

_FEW = 3
_NEWEST = f"{2**63}-0"
"""Greater than the id of any event."""
_EVENTS = 100
"""Events on one page of the log."""
_OF_JOB = 500
"""Events on the page of a job, the newest."""
_FOUND = 40
"""Jobs that a search finds."""
_OLDER = 500
"""Jobs of one question for older ones."""
_TASKS = 20
"""Tasks in the table of a job's usage: those with most CPU time."""
_PROCESSES = 50
"""Processes of a task whose stacks are shown."""
_TOLD = 8
"""Things that tasks reported and that are not kept."""
MOST_COMPARED = 20
"""Jobs on one page."""


@dataclass(frozen=True)
class Question:
    """A question that the page may ask.

    ``shared``: also answered for a shared page, whose readers may be anybody.
    """

    ask: Callable[[Client, Words], Any]
    shared: bool = False


def _range(words: Words) -> tuple[int, int]:
    """Return the range and the step that covers it."""
    text = words.get("range", "900")
    seconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not 0 < seconds <= QUARTERS.reach:
        raise InputError(f"query parameter range: must be seconds up to {QUARTERS.reach}, got {text!r}")
    return seconds, finest(seconds).step


def _capacity(client: Client, words: Words) -> Any:
    """Return the last hour; of a cluster that is younger than some minutes, what there is in full detail."""
    hour = capacity(last(client.usage(step=MINUTES.step).history, 3600))
    known = max((sum(value is not None for value in each["values"]) for each in hour["series"]), default=0)
    return hour if known >= _FEW else capacity(last(client.usage(step=FINE.step).history, FINE.reach))


def _node_usage(client: Client, words: Words) -> Any:
    seconds, step = _range(words)
    answer = client.node_usage(words["node"], step=step)
    return {"charts": node_charts(last(answer.history, seconds)), "tasks": answer.tasks, "now": answer.now}


def _task_usage(client: Client, words: Words) -> Any:
    seconds, step = _range(words)
    answer = client.task_usage(words["job"], words["task"], step=step)
    return {"charts": task_charts(last(answer.history, seconds))}


def _job_usage(client: Client, words: Words) -> Any:
    seconds, step = _range(words)
    answer = client.job_usage(words["job"], first=_TASKS, step=step)
    whole = job_charts(last(answer.history, seconds))
    metrics = client.job_metrics(words["job"])
    return {**builtins(answer), "whole": whole, "charts": own_charts(metrics), "own": own_extent(metrics)}


def _results(client: Client, words: Words) -> Any:
    """Return the table of parameters and figures of a job."""
    found = client.results(words["job"])
    return {
        "parameters": found.parameters,
        "figures": found.figures,
        "incomplete": bool(found.incomplete),
        "further": found.further,
        "not_finite": found.not_finite,
        "left_out": found.left_out,
        "troubles": _told({task: notes for (_, task), notes in found.troubles.items()}),
        "columns": found.columns(),
        "rows": [[*row.values()] for row in found],
    }


def _media(client: Client, words: Words) -> Any:
    """Return what one task of a job reported besides figures, by name; without a task, the first that did."""
    found = client.media(words["job"], words.get("task"))
    task = words.get("task") or (found.tasks[0] if found.tasks else "")
    names: dict[str, list[MediumView]] = {}
    for each in found.media:
        if each.task == task:
            names.setdefault(each.name, []).append(each)
    shown = [{"name": name, "seen": those[-1].number + 1, "shown": those} for name, those in names.items()]
    troubles = {name: notes for name, notes in found.troubles.items() if name == task}
    return {"task": task, "tasks": found.tasks, "names": shown, "troubles": _told(troubles)}


def _told(troubles: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return what tasks reported that is not kept: the first ones, and how many more there are."""
    told = [
        f"{task}: not kept: {text}{f' ({count} times)' if count > 1 else ''}."
        for task, notes in troubles.items()
        for text, count in notes.items()
    ]
    return told if len(told) <= _TOLD else [*told[:_TOLD], f"{len(told) - _TOLD} more things were not kept."]


def _run_curves(client: Client, words: Words) -> Any:
    """Return the curves of all tasks of some jobs, separated by commas, with the parameters to tell them apart."""
    names = words["jobs"].split(",")
    if len(names) > MOST_COMPARED:
        raise InputError(f"at most {MOST_COMPARED} jobs are drawn in one chart, got {len(names)}")
    results = client.results(*names)
    return run_curves(results, [_all_metrics(client, results, name) for name in names])


def _all_metrics(client: Client, results: Results, name: str) -> JobMetricsView:
    """Return the figures of a job; also of tasks that succeeded in an earlier run, which it did not start again."""
    found = client.job_metrics(name)
    earlier: dict[str, set[Cell]] = {}
    for row in results:
        run = str(row["output"]).rpartition("/")[2]
        if row["id"] == found.id and run != found.id:
            earlier.setdefault(run, set()).add(row["task"])
    for run, tasks in earlier.items():
        with suppress(NotFoundError):  # deleted
            more = tuple(curve for curve in client.job_metrics(run).curves if curve.task in tasks)
            found = replace(found, curves=(*found.curves, *more), figures=found.figures + len(more))
    return found


def _array(client: Client, words: Words) -> Any:
    """Return whether the tasks of a job were made to differ, so that their results are a table of parameters."""
    parts = _specification(client, words).components.values()
    return any(part.matrix or part.columns or part.entries for part in parts)


def _pages(client: Client, words: Words) -> Any:
    """Return the components that publish a web page."""
    return [name for name, part in _specification(client, words).components.items() if part.web]


def _stacks(client: Client, words: Words) -> Any:
    """Return the processes of a running task, without shells that only wait for others."""
    found = client.stacks(words["job"], [words["task"]])
    groups = grouped(found.tasks, all_threads=True)
    processes = [member.process for group in groups for member in group.members][:_PROCESSES]
    problems = [each.problem for each in found.tasks if each.problem]
    return {"processes": processes, "notes": [*found.notes, *problems]}


def _earlier(client: Client, words: Words) -> Any:
    """Return the earlier runs whose output belongs to a rerun of failed tasks."""
    return earlier_runs(client.job(words["job"]), client.job)


def _specification(client: Client, words: Words) -> Job:
    job = client.job(words["job"])
    if job.specification is UNSET:
        raise NotFoundError(f"job {job.name}: not found; it is being deleted")
    return job.specification


def _events_of_job(client: Client, words: Words) -> Any:
    return events_of_run(client, client.job(words["job"], specification=False), _OF_JOB)


def _events(client: Client, words: Words) -> Any:
    """Return a page of the event log, newest first; ``before``: where older ones begin; and all kinds."""
    job, node, user, text = (words.get(name) or None for name in ("job", "node", "user", "text"))
    before, kind = words.get("before", _NEWEST), words.get("kind", "")
    found = client.older_events(before, _EVENTS, job, node, user, kind, text=text)
    return {"events": found.events[::-1], "before": found.before, "kinds": [each.value for each in EventKind]}


def _search(client: Client, words: Words) -> Any:
    """Return the newest jobs, finished ones too, whose name, tag or user is meant by a word."""
    word = words["word"]
    found: dict[str, JobView] = {}
    for selection in (
        {"name": f"*{glob.escape(word)}*"},
        {"tag": [word]},
        {"user": word},
    ):
        with suppress(InputError, NotFoundError):  # the word cannot be a tag, or is no user
            found.update((job.id, job) for job in client.jobs(all=True, limit=_FOUND, **selection))
    return sorted(found.values(), key=lambda job: job.submitted)[-_FOUND:]


def _jobs(client: Client, words: Words) -> Any:
    """Return jobs, the newest that are older than ``before``; ``tag``, ``user``, ``name``, ``state`` select."""
    limit = words.get("limit", "200")
    if not (limit.isascii() and limit.isdecimal() and 0 < int(limit) <= _OLDER):
        raise InputError(f"query parameter limit: must be a number from 1 to {_OLDER}, got {limit!r}")
    tag, user, name, before = (words.get(each) or None for each in ("tag", "user", "name", "before"))
    states = [each for each in words.get("state", "").split(",") if each]
    tags = [tag] if tag else []
    return client.jobs(all=True, limit=int(limit), before=before, state=states, user=user, name=name, tag=tags)


def _comparison(client: Client, words: Words) -> Any:
    """Return jobs or tasks (joined by commas) side by side, their jobs, and CPU and memory of one task of each."""
    found = client.compare(*words["of"].split(","))
    jobs = [client.job(job) for job in dict.fromkeys(side.job for side in found.sides)]
    now = client.status().time
    oldest = max((now - job.started for job in jobs if job.started), default=0.0)
    step, runs = finest(oldest).step, []
    for job in jobs:
        tasks = client.job_usage(job.id, first=1).tasks
        task = tasks[0].task if tasks and job.started else None
        used = client.task_usage(job.id, task, step=step, since=job.started).history if task else None
        runs.append(Run(job.id, job.started or 0.0, job.ended, used))
    return {"found": found, "jobs": jobs, "charts": comparison(runs)}


def _costs(client: Client, _: Words) -> Any:
    """Return what the machines cost, as `grass cost` says it, up to now; nothing for a cluster in no cloud."""
    status = client.status()
    if status.cloud is None or status.cloud.costs is None:
        return {}
    costs = status.cloud.costs.until(status.time)
    return {"costs": costs, "hourly": costs.hourly, "spent": costs.spent, "whole": costs.whole}


QUESTIONS: dict[str, Question] = {
    "costs": Question(_costs, shared=True),
    "status": Question(lambda client, _: client.status(), shared=True),
    "why": Question(lambda client, words: client.why(words["job"]), shared=True),
    "job": Question(lambda client, words: client.job(words["job"], specification=False), shared=True),
    "attempts": Question(lambda client, words: client.attempts(words["job"], words.get("task")), shared=True),
    "specification": Question(_specification),
    "pages": Question(_pages),
    "file": Question(lambda client, words: client.job_file(words["job"])),
    "events": Question(_events_of_job, shared=True),
    "event-log": Question(_events, shared=True),
    "jobs": Question(_jobs, shared=True),
    "search": Question(_search, shared=True),
    "comparison": Question(_comparison),
    "operations": Question(lambda client, words: client.operations(words["job"]), shared=True),
    "shares": Question(lambda client, _: client.shares(), shared=True),
    "capacity": Question(_capacity, shared=True),
    "node-usage": Question(_node_usage, shared=True),
    "stacks": Question(_stacks),
    "results": Question(_results),
    "media": Question(_media),
    "curves": Question(_run_curves),
    "array": Question(_array),
    "glance": Question(lambda client, words: glance(client, words["job"])),
    "earlier-runs": Question(_earlier),
    "job-usage": Question(_job_usage, shared=True),
    "task-usage": Question(_task_usage, shared=True),
}
