"""Render operations on jobs as lines. Pure: takes operation views and the time, returns lines.

Used by ``apply`` and ``job_operations``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.cli.amounts import show_age
from grass.cli.table import Column, table
from grass.wire.operation_record import OperationKind, OperationState

if TYPE_CHECKING:
    from grass.wire.job_views import OperationView

_LIST = (
    Column("ID"),
    Column("OPERATION"),
    Column("STATE"),
    Column("AUTHOR", drop=2),
    Column("AGE", drop=1, right=True),
    Column("MESSAGE", wrap=True),
)


def operation_list(operations: Sequence[OperationView], now: float, width: int | None) -> list[str]:
    if not operations:
        return ["no operations; `grass job scale` changes the size of a job"]
    return table(_LIST, [_row(each, now) for each in operations], width)


def operation_line(operation: OperationView) -> str:
    """Return one line, for the user who filed the operation."""
    return f"{operation.id}  {what(operation)}  {state(operation)}  {operation.message}"


def what(operation: OperationView) -> str:
    """Return what the operation does: ``scale worker 2 → 3``."""
    kind, component = operation.kind.value, operation.component
    if operation.kind is OperationKind.SCALE:
        return f"scale {component} {_sizes(operation)}".rstrip()
    tasks = ", ".join(operation.added[:3]) + (", …" if len(operation.added) > 3 else "")
    return f"{kind} {tasks or component or ''}".rstrip()


def _sizes(operation: OperationView) -> str:
    """One that waits has only what was requested: the sizes follow from the operations before it."""
    if operation.from_size is not None:
        return f"{operation.from_size} → {operation.to_size}"
    if operation.to_size is not None:
        return f"→ {operation.to_size}"
    if operation.delta is not None:
        return f"{operation.delta:+d}"
    return f"-{len(operation.removed)}" if operation.removed else ""


def state(operation: OperationView) -> str:
    ended = operation.outcome if operation.state is OperationState.ENDED else None
    return operation.state.value if ended is None else ended.value


def _row(operation: OperationView, now: float) -> list[str]:
    reason = f" ({operation.reason})" if operation.reason else ""
    return [
        operation.id,
        what(operation),
        state(operation),
        operation.author,
        show_age(operation.filed, now),
        operation.message + reason,
    ]
