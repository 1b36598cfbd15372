"""Render checks of nodes. Pure: takes views, returns lines. Used by ``node_check`` and ``node_text``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from grass.checks.history import compared
from grass.checks.slowness import SLOW
from grass.cli.amounts import show_age
from grass.cli.table import Column, paragraph, table

if TYPE_CHECKING:
    from grass.wire.checks import CheckedView, NodeCheck
    from grass.wire.node_speed import NodeSpeed

_LIST = (Column("NODE"), Column("VERDICT"), Column("MEASURED", drop=1), Column("EVIDENCE", wrap=True))
_PAST = (
    Column("NODE"),
    Column("MEASURED"),
    Column("NOW", right=True),
    Column("BEFORE", right=True),
    Column("", wrap=True),
)


def checked(view: CheckedView, past: Mapping[str, Sequence[NodeCheck]] | None, width: int | None) -> list[str]:
    """``past``: the kept checks of each node, to compare with; None: do not compare."""
    rows = [
        [each.verdict.node, _verdict(each), _figures(each), "; ".join(each.verdict.evidence)] for each in view.checks
    ]
    lines = table(_LIST, rows, width)
    for text in (*view.between, *view.unknown):
        lines += ["", *paragraph(text, width)]
    if past is not None:
        compared_rows = list(_compared(view, past))
        lines += [
            "",
            *(table(_PAST, compared_rows, width) if compared_rows else ["no earlier good check to compare with"]),
        ]
    return lines


def check_facts(check: NodeCheck | None, at: float) -> Iterator[tuple[str, str]]:
    """Yield the lines about a node's newest check on its page."""
    if check is None:
        return
    yield "Checked", f"{show_age(check.at, at)} ago at level {check.level} by {check.user}: {_verdict(check)}"
    if check.verdict.evidence:
        yield "Evidence", "; ".join(check.verdict.evidence)
    if check.between:
        yield "Beside it", "; ".join(check.between)
    if figures := _figures(check):
        yield "Measured", figures


def speed_fact(speed: NodeSpeed | None, at: float) -> str:
    """Return how fast a node is, and how that is known; empty: it was not measured."""
    if speed is None or (speed.check is None and speed.steps is None):
        return ""
    parts = [("level 1", speed.check, speed.check_at), ("steps of tasks", speed.steps, speed.steps_at)]
    known = [f"{name}: {each:.2f} x, {show_age(when, at)} ago" for name, each, when in parts if each is not None]
    return f"{speed.value:g} x the median of nodes like it ({'; '.join(known)})"


def _verdict(check: NodeCheck) -> str:
    verdict = check.verdict
    devices = f" {', '.join(map(str, verdict.devices))}" if verdict.devices else ""
    word = {"good": "good", "bad": f"bad: {verdict.fault}{devices}", "unknown": f"cannot tell: {verdict.fault}"}
    return word[verdict.state]


def _figures(check: NodeCheck) -> str:
    times = [f"{name} {_seconds(seconds)}" for name, seconds in check.times.items()]
    return ", ".join(times or [f"{name} {value:g}" for name, value in check.figures.items()])


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _compared(view: CheckedView, past: Mapping[str, Sequence[NodeCheck]]) -> Iterator[list[str]]:
    for check in view.checks:
        node = check.verdict.node
        for each in compared(check, past.get(node, ())):
            checks = f"median of {each.checks} good check{'s' if each.checks > 1 else ''}"
            slower = f"; {each.factor:.1f} times slower than its own past" if each.factor > SLOW else ""
            yield [node, each.name, _seconds(each.now), _seconds(each.before), checks + slower]
