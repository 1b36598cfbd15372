"""The page of `grass report`: one HTML file without scripts and links to other machines. Pure. Called by ``report``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from msgspec import UNSET

from grass.cli import cells
from grass.cli.amounts import NOTHING, show_counts, show_instant, show_reason
from grass.cli.report_svg import Bar, curve, curves_of, timeline
from grass.cli.usage_text import show_used
from grass.lines import lines_of
from grass.model.amounts import show_span
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.wire.event_views import EventView
    from grass.wire.job_details import JobDetails
    from grass.wire.job_views import AttemptView, JobFileView, TaskView
    from grass.wire.node_views import NodeView
    from grass.wire.status_views import StatusView
    from grass.wire.usage_views import Curves, JobMetricsView, JobUsageView

MOST_TASKS, MOST_BARS, MOST_REPEATED, MOST_TEXT = 10_000, 20_000, 1_000, 120
MOST_LONG = 100_000
"""Characters of the job file, of the specification, and of the environment."""
_KINDS = {"SUCCEEDED": "ok", "FAILED": "bad", "STOPPED": "stopped", "LOST": "lost"}
_STYLE = """
:root{color-scheme:light dark;--line:#8886;--ok:#1a7f37;--bad:#cf222e;--run:#0969da;--dim:#777}
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;padding:.15rem .6rem .15rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td{overflow-wrap:anywhere}pre{overflow:auto;padding:.8rem;border:1px solid var(--line);font-size:13px}
figure{margin:1rem 0}figcaption{font-size:13px;color:var(--dim)}
svg{width:100%;height:auto;border:1px solid var(--line)}svg text{font:11px system-ui,sans-serif;fill:currentColor}
path{fill:none}path.ok{stroke:var(--ok)}path.bad,path.lost{stroke:var(--bad)}path.stopped{stroke:var(--dim)}
path.running,path.curve{stroke:var(--run)}path.curve{stroke-width:1.5}
.ok{color:var(--ok)}.bad,.lost{color:var(--bad)}
.curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));gap:0 1.5rem}
@media(prefers-color-scheme:dark){:root{--ok:#3fb950;--bad:#f85149;--run:#58a6ff;--dim:#9a9a9a}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


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
    parts = [
        f"<h1>{_text(title)} <span class={_kind(job.state)!r}>{_text(job.state)}</span></h1>",
        _facts(content, now),
        "<h2>Timeline</h2>" + _timeline(content, now) + _legend(),
        _curves(content, now),
        _repeated(content),
        _section("Events", ("time", "kind", "message", "user"), (_event(one) for one in content.events)),
        _tasks(content, now),
        _file(content.file),
        "<h2>Specification</h2><pre>"
        + _json(None if job.specification is UNSET else builtins(job.specification))
        + "</pre>",
        "<h2>Environment</h2><pre>" + _json(_environment(content)) + "</pre>",
    ]
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
    )
    return f"{head}{''.join(parts)}</body></html>\n"


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
    return _table((), (f"<th>{_text(name)}</th><td>{_text(value)}</td>" for name, value in rows if _is_known(value)))


def _is_known(value: object) -> bool:
    return value not in (None, "", NOTHING)


def _timeline(content: Content, now: float) -> str:
    names = list(dict.fromkeys(task.task for task in content.tasks))
    rows = {name: row for row, name in enumerate(names)}
    states = {task.task: (task.attempt, task.state) for task in content.tasks}
    bars = []
    for one in content.attempts[:MOST_BARS]:
        if one.started is not None and one.task in rows:
            newest, state = states[one.task]
            kind = _KINDS.get(state, "running") if one.attempt == newest else _ended_kind(one)
            bars.append(Bar(rows[one.task], one.started, one.ended or now, kind))
    if not bars:
        return "<p>No task has started.</p>"
    end = max(bar.end for bar in bars)
    left = len(content.attempts) - MOST_BARS
    note = f"<p>… and {left} more attempts</p>" if left > 0 else ""
    begin = content.job.submitted
    axis = f"<p>{_text(show_instant(begin))} to {_text(show_instant(end))}: {_text(show_span(end - begin))}</p>"
    return timeline(names, bars, begin, end) + axis + note


def _ended_kind(attempt: AttemptView) -> str:
    return "lost" if attempt.ended is None else "ok" if attempt.exit_code == 0 else "bad"


def _legend() -> str:
    return "<p>From the submission on. Green: succeeded; red: failed or lost; grey: stopped; blue: running.</p>"


def _curves(content: Content, now: float) -> str:
    found: list[str] = []
    started, ended = content.job.started, content.job.ended
    begin, end = now if started is None else started, now if ended is None else ended
    for one in content.metrics.curves[:40]:
        found.append(curve(f"{cells.clean(one.task)}: {cells.clean(one.name)}", one.steps, one.values))
    for task, history in content.histories.items():
        found += curves_of(history, task, begin, end)
    return f'<h2>Curves</h2><div class="curves">{"".join(found)}</div>' if any(found) else ""


_ATTEMPT_HEAD = ("attempt", "node", "exit", "started", "ended", "reason")


def _repeated(content: Content) -> str:
    """Show all attempts of the tasks that had more than one."""
    tasks = {one.task for one in content.attempts if one.attempt > 1}
    found = [one for one in content.attempts if one.task in tasks]
    left = len(found) - MOST_REPEATED
    note = f"<p>… and {left} more attempts</p>" if left > 0 else ""
    return _section("Tasks with several attempts", _ATTEMPT_HEAD, map(_attempt, found[:MOST_REPEATED])) + note


def _attempt(one: AttemptView) -> str:
    started, ended = show_instant(one.started), show_instant(one.ended)
    return _cells(f"{one.task}#{one.attempt}", one.node, _exit(one), started, ended, show_reason(one.reason))


def _event(one: EventView) -> str:
    return _cells(show_instant(one.time), one.kind, one.message, one.user)


def _tasks(content: Content, now: float) -> str:
    rows = (_task(task, now) for task in content.tasks[:MOST_TASKS])
    left = len(content.tasks) - MOST_TASKS
    note = f"<p>… and {left} more tasks</p>" if left > 0 else ""
    return _section("Tasks", ("task", "state", "attempt", "node", "exit", "time", "reason"), rows) + note


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


def _section(title: str, head: Sequence[str], rows: Iterable[str]) -> str:
    found = list(rows)
    return f"<h2>{_text(title)}</h2>{_table(head, found)}" if found else ""


def _table(head: Sequence[str], rows: Iterable[str]) -> str:
    title = "<tr>" + "".join(f"<th>{_text(name)}</th>" for name in head) + "</tr>" if head else ""
    return f"<table>{title}{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _cells(*values: object) -> str:
    return "".join(f"<td>{_text(value if _is_known(value) else '')}</td>" for value in values)


def _kind(state: str) -> str:
    return _KINDS.get(state, "running")


def _text(value: object) -> str:
    """Return text for HTML: one line, cut, without control characters and marks of direction."""
    return escape(cells.clip(cells.clean(str(value)), MOST_TEXT))


def _file(file: JobFileView | None) -> str:
    """Show the file as its user wrote it; without one, the specification says it all."""
    if file is None or not file.original:
        return ""
    return f"<h2>Job file {_text(file.name)}</h2><pre>{_pre(file.text)}</pre>"


def _json(value: object) -> str:
    return _pre(json.dumps(value, indent=2, ensure_ascii=False))


def _pre(whole: str) -> str:
    left = len(whole) - MOST_LONG
    lines = lines_of(whole[:MOST_LONG]) + ([f"… and {left} more characters"] if left > 0 else [])
    return escape("\n".join(cells.clean(line).replace("\u00a0", " ") for line in lines))
