"""Render what jobs, tasks and nodes used, as lines. Pure. Used by this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.cli.amounts import NOTHING
from grass.cli.table import Column, pairs, paragraph, table
from grass.model.amounts import show_memory, show_span

if TYPE_CHECKING:
    from grass.wire.usage import NodeSample, TaskTotals
    from grass.wire.usage_views import JobUsageView, TaskTotalsView

_TASKS = (
    Column("TASK"),
    Column("STATE"),
    Column("NODE", drop=4),
    Column("CPU", right=True),
    Column("PEAK MEMORY", right=True),
    Column("GPU", drop=3, right=True),
    Column("GPU MEMORY", drop=3, right=True),
    Column("READ", drop=1, right=True),
    Column("WRITTEN", drop=1, right=True),
    Column("ENERGY", drop=2, right=True),
)
_JOULES_PER_KWH = 3_600_000


def usage_page(usage: JobUsageView, width: int | None) -> list[str]:
    """Return totals of a job and of the tasks in ``usage``, a *job usage view*."""
    lines = pairs(_facts(usage), width)
    if usage.tasks:
        lines += ["", *table(_TASKS, [_row(task) for task in usage.tasks], width)]
    if len(usage.tasks) < usage.count:
        more = usage.count - len(usage.tasks)
        lines += ["", *paragraph(f"… and {more} more tasks; --tasks all shows them", width)]
    return lines


def show_used(totals: TaskTotals | None) -> str:
    """Return the totals in one line; empty if nothing was measured."""
    totals = measured(totals)
    if totals is None:
        return ""
    parts = [f"{show_cpu(totals)} cpu", f"{show_memory(totals.memory)} memory at the peak"]
    if totals.gpu:
        parts.append(f"{show_span(totals.gpu)} gpu")
    amounts = (("read", totals.read), ("written", totals.written))
    parts += [f"{show_memory(amount)} {name}" for name, amount in amounts if amount]
    if totals.energy:
        parts.append(show_energy(totals))
    return ", ".join(parts)


def measured(totals: TaskTotals | None) -> TaskTotals | None:
    """Return the totals; None: they are all zero, or there are none."""
    return None if totals is None or totals == type(totals)() else totals


def show_cpu(totals: TaskTotals) -> str:
    """Return the core seconds: with a fraction if there are few."""
    seconds = totals.cpu
    return f"{seconds:.2f}s" if seconds < 60 else show_span(seconds)


def show_energy(totals: TaskTotals) -> str:
    """Return watt hours or kilowatt hours, with a mark if a source is missing."""
    kwh = totals.energy / _JOULES_PER_KWH
    if not kwh:
        return NOTHING
    return ("≥ " if totals.partial else "") + (f"{kwh:.2f} kWh" if kwh >= 1 else f"{kwh * 1000:.2g} Wh")


def _facts(usage: JobUsageView) -> list[tuple[str, str]]:
    totals = usage.totals
    if totals is None:
        return [("Job", usage.name), ("Used", "nothing was measured yet")]
    return [
        ("Job", usage.name),
        ("Cpu", show_cpu(totals)),
        ("Peak memory", f"{show_memory(totals.memory)} (of one task)"),
        *([("Gpu", show_span(totals.gpu))] if totals.gpu else []),
        *([("Peak GPU memory", show_memory(totals.gpu_memory))] if totals.gpu_memory else []),
        ("Read", show_memory(totals.read)),
        ("Written", show_memory(totals.written)),
        ("Energy", f"{show_energy(totals)}{'; sources are missing' if totals.partial else ''}"),
        *([("Unmeasured", f"{totals.unmeasured} attempts")] if totals.unmeasured else []),
    ]


def _row(task: TaskTotalsView) -> list[str]:
    totals = task.totals
    where = [task.task, str(task.state), task.node or NOTHING]
    if totals is None:
        return [*where, *[NOTHING] * 7]
    return [
        *where,
        show_cpu(totals),
        show_memory(totals.memory),
        show_span(totals.gpu) if totals.gpu else NOTHING,
        show_memory(totals.gpu_memory) if totals.gpu_memory else NOTHING,
        show_memory(totals.read),
        show_memory(totals.written),
        show_energy(totals),
    ]


def figures(now: NodeSample) -> Sequence[tuple[str, str]]:
    """Return what a node uses now, without what its heartbeat has. ``now``: the sample of a *node usage view*."""
    found = [
        ("Network", f"{show_memory(now.network_sent)}/s sent, {show_memory(now.network_received)}/s received"),
    ]
    if now.disk_read is not None and now.disk_written is not None:
        read, written = show_memory(now.disk_read), show_memory(now.disk_written)
        found.append(("Disks", f"{read}/s read, {written}/s written"))
    for port in now.rdma:
        sent, received = show_memory(port.sent), show_memory(port.received)
        found.append((f"RDMA {port.port}", f"{sent}/s sent, {received}/s received"))
    if now.power is not None:
        found.append(("Cpu power", f"{now.power:g} W"))
    for gpu in now.gpus:
        parts = [f"{gpu.power:g} W"] if gpu.power is not None else []
        parts += [f"{gpu.clock} MHz"] if gpu.clock is not None else []
        if gpu.nvlink_sent is not None:
            parts.append(f"NVLink {show_memory(gpu.nvlink_sent)}/s sent")
        if parts:
            found.append((f"Gpu {gpu.id} now", ", ".join(parts)))
    return found
