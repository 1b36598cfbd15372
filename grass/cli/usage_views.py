"""Render what jobs, tasks and nodes used, as lines. Pure. Used by this package."""

from __future__ import annotations

from collections.abc import Sequence

from grass.cli.amounts import NOTHING
from grass.cli.table import Column, pairs, paragraph, table
from grass.cli.view import View
from grass.model.amounts import show_memory, show_span

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


def usage_page(usage: View, width: int | None) -> list[str]:
    """Return totals of a job and of the tasks in ``usage``, a *job usage view*."""
    lines = pairs(_facts(usage), width)
    if usage["tasks"]:
        lines += ["", *table(_TASKS, [_row(task) for task in usage["tasks"]], width)]
    if len(usage["tasks"]) < usage["count"]:
        more = usage["count"] - len(usage["tasks"])
        lines += ["", *paragraph(f"… and {more} more tasks; --tasks all shows them", width)]
    return lines


def show_used(totals: View | None) -> str:
    """Return the totals in one line; empty if nothing was measured."""
    if not totals:
        return ""
    parts = [f"{show_cpu(totals)} cpu", f"{show_memory(totals.get('memory', 0))} memory at the peak"]
    if totals.get("gpu"):
        parts.append(f"{show_span(totals['gpu'])} gpu")
    parts += [f"{show_memory(totals[name])} {name}" for name in ("read", "written") if totals.get(name)]
    if totals.get("energy"):
        parts.append(show_energy(totals))
    return ", ".join(parts)


def show_cpu(totals: View) -> str:
    """Return the core seconds: with a fraction if there are few."""
    seconds = totals.get("cpu", 0.0)
    return f"{seconds:.2f}s" if seconds < 60 else show_span(seconds)


def show_energy(totals: View) -> str:
    """Return watt hours or kilowatt hours, with a mark if a source is missing."""
    kwh = totals.get("energy", 0.0) / _JOULES_PER_KWH
    if not kwh:
        return NOTHING
    return ("≥ " if totals.get("partial") else "") + (f"{kwh:.2f} kWh" if kwh >= 1 else f"{kwh * 1000:.2g} Wh")


def _facts(usage: View) -> list[tuple[str, str]]:
    totals = usage["totals"]
    if totals is None:
        return [("Job", usage["name"]), ("Used", "nothing was measured yet")]
    unmeasured = totals.get("unmeasured", 0)
    return [
        ("Job", usage["name"]),
        ("Cpu", show_cpu(totals)),
        ("Peak memory", f"{show_memory(totals.get('memory', 0))} (of one task)"),
        *([("Gpu", show_span(totals["gpu"]))] if totals.get("gpu") else []),
        *([("Peak GPU memory", show_memory(totals["gpu_memory"]))] if totals.get("gpu_memory") else []),
        ("Read", show_memory(totals.get("read", 0))),
        ("Written", show_memory(totals.get("written", 0))),
        ("Energy", f"{show_energy(totals)}{'; sources are missing' if totals.get('partial') else ''}"),
        *([("Unmeasured", f"{unmeasured} attempts")] if unmeasured else []),
    ]


def _row(task: View) -> list[str]:
    totals = task["totals"]
    where = [task["task"], task["state"], task["node"] or NOTHING]
    if totals is None:
        return [*where, *[NOTHING] * 7]
    return [
        *where,
        show_cpu(totals),
        show_memory(totals.get("memory", 0)),
        show_span(totals["gpu"]) if totals.get("gpu") else NOTHING,
        show_memory(totals["gpu_memory"]) if totals.get("gpu_memory") else NOTHING,
        show_memory(totals.get("read", 0)),
        show_memory(totals.get("written", 0)),
        show_energy(totals),
    ]


def figures(now: View) -> Sequence[tuple[str, str]]:
    """Return what a node uses now, without what its heartbeat has. ``now``: the sample of a *node usage view*."""
    found = [
        ("Network", f"{show_memory(now['network_sent'])}/s sent, {show_memory(now['network_received'])}/s received"),
    ]
    if now.get("disk_read") is not None and now.get("disk_written") is not None:
        read, written = show_memory(now["disk_read"]), show_memory(now["disk_written"])
        found.append(("Disks", f"{read}/s read, {written}/s written"))
    for port in now.get("rdma", ()):
        sent, received = show_memory(port["sent"]), show_memory(port["received"])
        found.append((f"RDMA {port['port']}", f"{sent}/s sent, {received}/s received"))
    if now.get("power") is not None:
        found.append(("Cpu power", f"{now['power']:g} W"))
    for gpu in now.get("gpus", ()):
        parts = [f"{gpu['power']:g} W"] if gpu.get("power") is not None else []
        parts += [f"{gpu['clock']} MHz"] if gpu.get("clock") is not None else []
        if gpu.get("nvlink_sent") is not None:
            parts.append(f"NVLink {show_memory(gpu['nvlink_sent'])}/s sent")
        if parts:
            found.append((f"Gpu {gpu['id']} now", ", ".join(parts)))
    return found
