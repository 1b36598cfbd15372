"""The page of `grass report`: one HTML file that asks no machine, with the dashboard's charts. Called by ``report``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from msgspec import UNSET

from grass.cli import cells
from grass.cli.amounts import NOTHING, show_counts, show_instant, show_reason
from grass.cli.usage_text import show_used
from grass.dashboard.curves import Record, during, own_charts, task_charts, thinned
from grass.dashboard.one_file import bundle, read, source
from grass.lines import lines_of
from grass.model.amounts import show_span
from grass.model.lifecycle import TaskState
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.wire.event_views import EventView
    from grass.wire.job_details import JobDetails
    from grass.wire.job_views import AttemptView, JobFileView, TaskView
    from grass.wire.node_views import NodeView
    from grass.wire.status_views import StatusView
    from grass.wire.usage_views import Curves, JobMetricsView, JobUsageView

MOST_TASKS, MOST_REPEATED, MOST_TEXT = 10_000, 1_000, 120
MOST_LANES = 200
"""Tasks of the timeline."""
MOST_CHARTS, MOST_POINTS = 24, 300
"""Figures that tasks reported, and points of each curve."""
MOST_LONG = 100_000
"""Characters of the job file, of the specification, and of the environment."""
_STYLES = ("base.css", "parts.css", "views.css", "vendor/uPlot.min.css", "report.css")
_LANE = ("task", "attempt", "state", "node", "assigned", "prepared", "started", "ended", "exit_code", "signal")
"""What the timeline shows of an attempt."""
_WRONG = (TaskState.FAILED, TaskState.LOST)


@dataclass(frozen=True)
class Content:
    """All that the report shows: views of the API. ``histories``: usage of some tasks, by task."""

    status: StatusView
    job: JobDetails
    tasks: Sequence[TaskView]
    attempts: Sequence[AttemptView]
    events: Sequence[EventView]
    nodes: Sequence[NodeView]
    usage: JobUsageView
    metrics: JobMetricsView
    histories: Mapping[str, Curves] = field(default_factory=dict)
    file: JobFileView | None = None


def page(content: Content, now: float) -> str:
    """Return the file. ``now``: wall seconds."""
    job = content.job
    title = f"{job.name} ({job.id})"
    style = "\n".join(map(read, _STYLES))
    first = f"{read('theme.js')}\n/*\n{read('vendor/uPlot.LICENSE')}*/\n{read('vendor/uPlot.iife.min.js')}"
    script = bundle("report.js")
    allowed = f"script-src {source(first)} {source(script)}; style-src {source(style)}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    parts = [
        f'<h1>{_text(title)} <span class="tone-{_text(job.state).lower()}">{_text(job.state)}</span></h1>',
        _facts(content, now),
        '<noscript><p class="note">The timeline and the charts need JavaScript.</p></noscript>',
        '<div id="drawn" class="stack"></div>',
        _repeated(content),
        _section("Events", ("time", "kind", "message", "user"), (_event(one) for one in content.events)),
        _tasks(content, now),
        _file(content.file),
        _source("Specification", _json(None if job.specification is UNSET else builtins(job.specification))),
        _source("Environment", _json(_environment(content))),
    ]
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style><script>{first}</script></head>'
    )
    data = json.dumps(_drawn(content, now)).replace("<", "\\u003c")  # so that no text in it ends the element
    scripts = f'<script type="application/json" id="data">{data}</script><script type="module">{script}</script>'
    return f'{head}<body><main class="report stack">{"".join(parts)}</main>{scripts}</body></html>\n'


def _drawn(content: Content, now: float) -> dict[str, object]:
    """Return what ``report.js`` draws."""
    job, ended = content.job, now if content.job.ended is None else content.job.ended
    tasks = sorted(content.tasks, key=lambda task: (task.state not in _WRONG, task.state is TaskState.SUCCEEDED))
    shown = tasks[:MOST_LANES]
    names = {task.task for task in shown}
    own = own_charts(content.metrics)
    charts = {"Own figures" + (f": {MOST_CHARTS} of {len(own)}" if len(own) > MOST_CHARTS else ""): own[:MOST_CHARTS]}
    begin = now if job.started is None else job.started
    charts |= {task: task_charts(during(history, begin, ended)) for task, history in content.histories.items()}
    return {
        "job": {"id": job.id, "submitted": job.submitted, "ended": ended},
        "tasks": [_lane(task) for task in shown],
        "attempts": [_lane(one) for one in content.attempts if one.task in names][:MOST_REPEATED],
        "count": len(tasks),
        "groups": [
            (_clean(title), [_named(thinned(each, MOST_POINTS)) for each in found])
            for title, found in charts.items()
            if found
        ],
    }


def _lane(view: AttemptView | TaskView) -> dict[str, object]:
    known = {name: getattr(view, name) for name in _LANE if getattr(view, name, None) is not None}
    reason = {"reason": {"message": _clean(view.reason.message)}} if view.reason else {}
    return {**known, **reason, "task": _clean(view.task), "node": _clean(view.node or "")}


def _named(chart: Record) -> Record:
    """Return a chart whose names are one line each, without control characters."""
    series = [{**each, "name": _clean(each["name"])} for each in chart["series"]]
    return {**chart, "title": _clean(chart["title"]), "series": series}


def _facts(content: Content, now: float) -> str:
    job = content.job
    ended = now if job.ended is None else job.ended
    rows = [
        ("Cluster", content.status.cluster),
        ("User", job.user),
        ("Result", show_reason(job.reason)),
        ("Exit code", job.exit_code),
        ("Tasks", show_counts(job.counts)),
        ("Restarts", job.restarts or None),
        ("Submitted", show_instant(job.submitted)),
        ("Started", show_instant(job.started)),
        ("Ended", show_instant(job.ended)),
        ("Ran for", None if job.started is None else show_span(ended - job.started)),
        ("Rerun of", job.rerun_of),
        ("Report made", show_instant(now)),
    ]
    rows.append(("Used", show_used(content.usage.totals)))
    found = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in rows if _is_known(value))
    return _panel("Result", f'<dl class="facts body">{found}</dl>')


def _is_known(value: object) -> bool:
    return value not in (None, "", NOTHING)


_ATTEMPT_HEAD = ("attempt", "node", "exit", "started", "ended", "reason")


def _repeated(content: Content) -> str:
    """Show all attempts of the tasks that had more than one."""
    tasks = {one.task for one in content.attempts if one.attempt > 1}
    found = [one for one in content.attempts if one.task in tasks]
    left = len(found) - MOST_REPEATED
    note = f'<p class="empty">… and {left} more attempts</p>' if left > 0 else ""
    return _section("Tasks with several attempts", _ATTEMPT_HEAD, map(_attempt, found[:MOST_REPEATED]), note)


def _attempt(one: AttemptView) -> str:
    started, ended = show_instant(one.started), show_instant(one.ended)
    return _cells(f"{one.task}#{one.attempt}", one.node, _exit(one), started, ended, show_reason(one.reason))


def _event(one: EventView) -> str:
    return _cells(show_instant(one.time), one.kind, one.message, one.user)


def _tasks(content: Content, now: float) -> str:
    rows = (_task(task, now) for task in content.tasks[:MOST_TASKS])
    left = len(content.tasks) - MOST_TASKS
    note = f'<p class="empty">… and {left} more tasks</p>' if left > 0 else ""
    return _section("Tasks", ("task", "state", "attempt", "node", "exit", "time", "reason"), rows, note)


def _task(task: TaskView, now: float) -> str:
    ended = now if task.ended is None else task.ended
    span = NOTHING if task.started is None else show_span(ended - task.started)
    reason = show_reason(task.reason)
    return _cells(task.task, task.state, task.attempt, task.node, _exit(task), span, reason)


def _exit(view: AttemptView | TaskView) -> object:
    return f"signal {view.signal}" if view.signal is not None else view.exit_code


def _environment(content: Content) -> object:
    """Return, as JSON, the cluster and the nodes on which the job ran."""
    used = {task.node for task in content.tasks}
    status = content.status
    nodes = [_node(node) for node in content.nodes if node.name in used]
    return {"cluster": status.cluster, "mode": status.mode, "version": status.version, "nodes": nodes}


def _node(node: NodeView) -> dict[str, object]:
    return {
        "name": node.name,
        "version": node.version,
        "resources": builtins(node.resources),
        "labels": node.labels,
        "gpus": builtins(node.gpus),
        "runtimes": node.runtimes,
    }


def _section(title: str, head: Sequence[str], rows: Iterable[str], note: str = "") -> str:
    found = list(rows)
    titles = "".join(f"<th>{_text(name)}</th>" for name in head)
    lines = "".join(f"<tr>{row}</tr>" for row in found)
    table = f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>'
    return _panel(title, table + note) if found else ""


def _source(title: str, text: str) -> str:
    return _panel(title, f'<pre class="source" tabindex="0">{text}</pre>')


def _panel(title: str, body: str) -> str:
    return f'<section class="panel"><header><h2>{_text(title)}</h2></header>{body}</section>'


def _cells(*values: object) -> str:
    return "".join(f"<td>{_text(value if _is_known(value) else '')}</td>" for value in values)


def _text(value: object) -> str:
    """Return text for HTML: one line, cut, without control characters and marks of direction."""
    return escape(_clean(str(value)))


def _clean(text: str) -> str:
    return cells.clip(cells.clean(text), MOST_TEXT)


def _file(file: JobFileView | None) -> str:
    """Show the file as its user wrote it; without one, the specification says it all."""
    if file is None or not file.original:
        return ""
    return _source(f"Job file {file.name}", _pre(file.text))


def _json(value: object) -> str:
    return _pre(json.dumps(value, indent=2, ensure_ascii=False))


def _pre(whole: str) -> str:
    left = len(whole) - MOST_LONG
    lines = lines_of(whole[:MOST_LONG]) + ([f"… and {left} more characters"] if left > 0 else [])
    return escape("\n".join(cells.clean(line).replace("\u00a0", " ") for line in lines))
