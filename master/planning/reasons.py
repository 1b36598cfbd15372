"""Why a shape finds no place, in words that name the nearest node. The same objects that `grass job why` prints."""

from __future__ import annotations

from collections.abc import Callable

from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources, show_cpu, show_gpu, show_memory
from master.planning.view import JobLimit, NodeView

_DIMENSIONS: tuple[tuple[str, Callable[[Resources], int], Callable[[int], str]], ...] = (
    ("gpu", lambda resources: resources.gpu, show_gpu),
    ("cpu", lambda resources: resources.cpu, show_cpu),
    ("memory", lambda resources: resources.memory, show_memory),
)


def why_not(shape: Resources, nodes: list[NodeView], ledger: dict[str, Resources]) -> Reason:
    """``ledger``: what each ready node has left after everything served before this demand."""
    if not nodes:
        return Reason(ReasonCode.NO_NODES, "the cluster has no node yet")
    too_large = never_fits(shape, [node.total for node in nodes])
    if too_large is not None:
        return too_large
    able = [node for node in nodes if shape.fits(node.total)]
    ready = [node for node in able if node.name in ledger]
    if not ready:
        names = ", ".join(node.name for node in able[:3])
        return Reason(ReasonCode.NO_NODES, f"no node that could hold it is READY ({names})", {"nodes": len(able)})
    nearest = min(ready, key=lambda node: (_missing_share(shape, ledger[node.name], node.total), node.name))
    free = ledger[nearest.name]
    short = _short(shape, free)
    message = f"waits for room: needs {_text(short, shape)} per task; {nearest.name} has {_text(short, free)} free"
    return Reason(ReasonCode.NO_ROOM, message, {"node": nearest.name, "missing": short})


def at_limit(shape: Resources, nodes: list[NodeView], limit: JobLimit) -> Reason:
    """For a job that may not begin; that it never could is the more useful answer."""
    message = f"waits for its turn: the cluster runs at most {limit.level} jobs at once (parallel_level)"
    turn = Reason(ReasonCode.JOB_LIMIT, message, {"parallel_level": limit.level})
    return never_fits(shape, [node.total for node in nodes]) or turn


def never_fits(shape: Resources, totals: list[Resources]) -> Reason | None:
    """The reason, when no node could hold one such task even if it were empty."""
    if any(shape.fits(total) for total in totals):
        return None
    for name, get, show in _DIMENSIONS:
        largest = max((get(total) for total in totals), default=0)
        if get(shape) > largest:
            return Reason(
                ReasonCode.TOO_LARGE,
                f"needs {show(get(shape))} {name} per task; the largest node has {show(largest)}",
                {"resource": name, "needs": get(shape), "largest": largest},
            )
    return Reason(ReasonCode.TOO_LARGE, "no single node has all of what one task needs", {})


def _short(shape: Resources, free: Resources) -> dict[str, int]:
    return {name: get(shape) - get(free) for name, get, _ in _DIMENSIONS if get(shape) > get(free)}


def _text(names: dict[str, int], amounts: Resources) -> str:
    return ", ".join(f"{show(max(0, get(amounts)))} {name}" for name, get, show in _DIMENSIONS if name in names)


def _missing_share(shape: Resources, free: Resources, total: Resources) -> float:
    return sum(max(0, get(shape) - get(free)) / get(total) for _, get, _ in _DIMENSIONS if get(total))
