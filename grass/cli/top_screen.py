"""Lay out the screens of `grass top`. Pure: takes what is known and the size of the screen, returns styled lines.

Called by ``top``, which alone writes to the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from grass.cli import cells
from grass.cli.amounts import NOTHING, show_age, show_progress
from grass.cli.job_text import job_reason
from grass.cli.node_text import show_state
from grass.cli.table import Column, table
from grass.cli.top_state import State
from grass.model.amounts import show_quantity
from grass.model.lifecycle import NodeState

if TYPE_CHECKING:
    from grass.wire.job_views import JobView
    from grass.wire.node_views import NodeView

KEYS = "q quit  Enter details  l logs  e events  s sort  r reverse"
PAGE_KEYS = "Esc back  up/down scroll  Enter details  l logs  q quit"
_JOBS = (
    Column("NAME"),
    Column("STATE"),
    Column("TASKS"),
    Column("USER", drop=3),
    Column("AGE", drop=2, right=True),
    Column("REASON", wrap=False, drop=1),
)
_NODES = (
    Column("NODE"),
    Column("STATE"),
    Column("CPU", right=True),
    Column("MEMORY", right=True),
    Column("GPU", drop=1, right=True),
    Column("LOAD", drop=3, right=True),
    Column("TASKS", right=True),
    Column("FREE DISK", drop=4, right=True),
)
_BAD = ("FAILED", "LOST", "QUARANTINED", "SILENT")
_GOOD = ("RUNNING", "READY", "SUCCEEDED")


class Line(NamedTuple):
    """One line of the screen.

    ``style``: empty, or one of head, selected, bad, good, dim.
    """

    text: str
    style: str = ""


FOOT = Line(KEYS, "dim")


def overview(
    state: State,
    width: int,
    height: int,
    selected: str | None,
    sort: str = "state",
    reverse: bool = False,
    foot: Line = FOOT,
) -> list[Line]:
    """Return exactly ``height`` lines: header, nodes, jobs, why the marked job waits or failed, foot.

    ``selected``: id of the marked job. A narrow screen has no column for reasons.
    """
    head = header(state, width, sort)
    jobs = state.sorted_jobs(sort, reverse)
    left = height - len(head) - 5  # two titles, a blank line, the reason, the keys
    nodes = node_lines(state, width, max(1, min(len(state.nodes), left // 3)))
    shown = _window(jobs, selected, max(1, left - (len(nodes) - 1)))
    lines = [*head, *nodes, Line(""), *job_lines(shown, state.time, width, selected)]
    marked = next((job for job in jobs if job.id == selected), None)
    reason = f"{marked.name}: {job_reason(marked)}" if marked and job_reason(marked) else ""
    return [
        *fitted(lines, width, height - 1, Line(cells.clean(reason))),
        Line(cells.clip(foot.text, width), foot.style),
    ]


def page(title: str, content: Sequence[str], width: int, height: int, top: int, foot: Line = FOOT) -> list[Line]:
    """Return a screen of text from line ``top`` on, below its title."""
    shown = [Line(cells.clean(text)) for text in content[top : top + height - 2]]
    return fitted([Line(title, "head"), *shown], width, height, foot)


def fitted(lines: Sequence[Line], width: int, height: int, foot: Line) -> list[Line]:
    """Cut or fill the lines to the size of the screen. ``foot``: the last line."""
    body = list(lines[: height - 1])
    body += [Line("")] * (height - 1 - len(body))
    return [Line(cells.clip(line.text, width), line.style) for line in (*body, foot)]


def everything(state: State, width: int | None, sort: str) -> list[str]:
    """Return all nodes and jobs, for ``--once``."""
    most = 10**6
    wide = most if width is None else width
    lines = [*header(state, wide, sort), *node_lines(state, wide, most), Line("")]
    lines += job_lines(state.sorted_jobs(sort), state.time, wide, None)
    return [line.text for line in lines]


def header(state: State, width: int, sort: str) -> list[Line]:
    clock = datetime.fromtimestamp(state.time, timezone.utc).astimezone().strftime("%H:%M:%S")
    jobs = ", ".join(f"{count} {name.lower()}" for name, count in state.counts.items() if count) or "no jobs"
    lines = [Line(f"grass top  {clock}  {jobs}  sorted by {sort}", "head"), Line(_capacity(state))]
    if state.trouble:
        lines.append(Line(f"not up to date: {cells.clean(state.trouble)}", "bad"))
    if found := state.alerts():
        lines.append(Line(cells.clean("; ".join(found)), "bad"))
    return lines


def _capacity(state: State) -> str:
    """Return how much of the nodes is allocated."""
    parts = []
    for name in ("cpu", "memory", "gpu"):
        total = sum(node.resources.amount(name) for node in state.nodes.values() if node.resources)
        free = sum(node.free.amount(name) for node in state.nodes.values() if node.free)
        if total:
            parts.append(f"{name} {show_quantity(name, total - free)} of {show_quantity(name, total)}")
    return f"allocated: {', '.join(parts)}" if parts else "no nodes"


def node_lines(state: State, width: int, most: int) -> list[Line]:
    """Return the title and up to ``most`` nodes, those that need attention first."""
    ranked = sorted(state.nodes.values(), key=lambda node: (node.state == NodeState.READY, node.name))
    found = table(_NODES, [_node(node) for node in ranked[:most]], width)
    styles = [_style(node.state) for node in ranked[:most]]
    left = len(ranked) - most
    title = Line(found[0] + (f"  … and {left} more" if left > 0 else ""), "head")
    return [title, *(Line(text, style) for text, style in zip(found[1:], styles, strict=True))]


def _node(node: NodeView) -> list[str]:
    usage = node.usage
    known = [gpu.utilisation for gpu in (usage.gpus if usage else ()) if gpu.utilisation is not None]
    return [
        node.name,
        show_state(node),
        f"{usage.cpu if usage else 0:.0f} %",
        f"{100 * usage.memory / usage.memory_total:.0f} %" if usage and usage.memory_total else NOTHING,
        f"{sum(known) / len(known):.0f} %" if known else NOTHING,
        f"{usage.load if usage else 0:.1f}",
        str(node.tasks),
        show_quantity("disk", usage.disk_free) if usage and usage.disk_total else NOTHING,
    ]


def job_lines(jobs: Sequence[JobView], now: float, width: int, selected: str | None) -> list[Line]:
    found = table(_JOBS, [_job(job, now) for job in jobs], width)
    styles = ["selected" if job.id == selected else _style(job.state) for job in jobs]
    return [Line(found[0], "head"), *(Line(text, style) for text, style in zip(found[1:], styles, strict=True))]


def _job(job: JobView, now: float) -> list[str]:
    return [
        job.name,
        job.state.value,
        show_progress(job.state, job.counts),
        job.user or NOTHING,
        show_age(job.submitted, now),
        job_reason(job),
    ]


def _style(state: str) -> str:
    return "bad" if state in _BAD else "good" if state in _GOOD else ""


def _window(jobs: Sequence[JobView], selected: str | None, lines: int) -> Sequence[JobView]:
    """Return as many jobs as fit on ``lines``, with the selected one among them."""
    at = next((index for index, job in enumerate(jobs) if job.id == selected), 0)
    first = max(0, min(at - lines // 2, len(jobs) - lines))
    return jobs[first : first + lines]
