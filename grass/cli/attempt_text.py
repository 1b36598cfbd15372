"""Render the attempts of tasks that were started more than once. Pure. Called by ``job``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.cli.amounts import NOTHING, show_failure, show_instant, show_reason, tell_failures
from grass.cli.table import Column, paragraph, table

if TYPE_CHECKING:
    from grass.wire.job_views import AttemptView

MOST_SHOWN = 50
"""Lines of the table, the newest attempts. JSON has all of them."""

_ATTEMPTS = (
    Column("ATTEMPT"),
    Column("NODE", drop=1),
    Column("EXIT", right=True),
    Column("STARTED", drop=3),
    Column("ENDED", drop=2),
    Column("REASON", wrap=True),
)


def earlier(attempts: Sequence[AttemptView], width: int | None) -> list[str]:
    """Return the table, below an empty line; nothing for no attempts."""
    if not attempts:
        return []
    shown = sorted(attempts, key=lambda one: one.started or 0.0)[-MOST_SHOWN:]
    shown.sort(key=lambda one: (one.task, one.attempt))
    columns, rows = list(_ATTEMPTS), [_row(one) for one in shown]
    if tell_failures(one.reason for one in shown):
        columns.insert(-1, Column("FAILURE", drop=4))
        for row, one in zip(rows, shown, strict=True):
            row.insert(-1, show_failure(one.reason) or NOTHING)
    lines = ["", *table(columns, rows, width)]
    left, lost = len(attempts) - len(shown), _not_kept(attempts)
    notes = [f"… and {left} older attempts; -o json shows them all"] if left else []
    if lost:
        notes.append(f"… and {lost} earlier attempts, whose records are not kept; their output is in the log")
    return [*lines, *(line for note in notes for line in paragraph(note, width))]


def _not_kept(attempts: Sequence[AttemptView]) -> int:
    """Return how many attempts are missing, of all tasks together. Attempts count from 1."""
    newest: dict[str, int] = {}
    for one in attempts:
        newest[one.task] = max(one.attempt, newest.get(one.task, 0))
    return sum(newest.values()) - len(attempts)


def _row(one: AttemptView) -> list[str]:
    code = NOTHING if one.exit_code is None else str(one.exit_code)
    return [
        f"{one.task}#{one.attempt}",
        one.node or NOTHING,
        code if one.signal is None else f"signal {one.signal}",
        show_instant(one.started),
        show_instant(one.ended),
        show_reason(one.reason),
    ]
