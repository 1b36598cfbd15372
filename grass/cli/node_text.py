"""Render nodes as tables and pages. Pure: takes views, returns lines. Used by this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from grass.cli.amounts import NOTHING, show_age, show_free, show_reason
from grass.cli.check_text import check_facts, speed_fact
from grass.cli.table import Column, pairs, table
from grass.cli.usage_text import figures
from grass.model.amounts import show_memory
from grass.model.resources import DEVICE

if TYPE_CHECKING:
    from grass.model.reasons import Reason
    from grass.wire.gpu import GpuDevice, GpuSample
    from grass.wire.node_views import NodeView
    from grass.wire.usage import NodeSample

_LIST = (
    Column("NAME"),
    Column("STATE"),
    Column("FREE CPU", right=True),
    Column("FREE MEMORY", right=True, drop=2),
    Column("FREE GPU", right=True),
    Column("TASKS", right=True),
    Column("RUNTIMES", drop=3),
    Column("LABELS", drop=4),
    Column("SEEN", right=True, drop=1),
    Column("REASON", wrap=True),
)
_SHOWN_LABELS = 3


def node_list(nodes: Sequence[NodeView], now: float, width: int | None) -> list[str]:
    if not nodes:
        return ["no nodes; `grass node add USER@HOST` or `grass node token` brings the first"]
    return table(_LIST, [_row(view, now) for view in nodes], width)


def _row(view: NodeView, now: float) -> list[str]:
    return [
        view.name,
        show_state(view),
        *(show_free(view.free, view.resources, name) for name in ("cpu", "memory", "gpu")),
        str(view.tasks),
        ",".join(view.runtimes or ()) or NOTHING,
        _short_labels(view.labels or {}),
        show_age(view.seen, now),
        _reason(view),
    ]


def show_state(view: NodeView) -> str:
    return f"{view.state} (cordoned)" if view.cordoned else str(view.state)


def _reason(view: NodeView) -> str:
    """Return why the node accepts no tasks; otherwise why some of its devices accept none."""
    if view.reason is not None:
        return show_reason(view.reason)
    ill = [f"gpu {number} is in quarantine: {why}" for number, why in (view.quarantine or {}).items()]
    busy = [(gpu.id, gpu.busy) for gpu in _samples(view) if gpu.busy]
    return "; ".join([*ill, *(f"gpu {number} is used by {owner}" for number, owner in busy)])


def _short_labels(labels: Mapping[str, str]) -> str:
    shown = [f"{name}={value}" for name, value in sorted(labels.items())]
    more = len(shown) - _SHOWN_LABELS
    return ",".join(shown[:_SHOWN_LABELS]) + (f",+{more}" if more > 0 else "") if shown else NOTHING


def node_page(view: NodeView, at: float, width: int | None, now: NodeSample | None = None) -> list[str]:
    """``at``: the present time. ``now``: what the node uses now, from its *usage view*."""
    usage = view.usage
    facts = [
        ("Name", view.name),
        ("State", show_state(view)),
        ("Reason", show_reason(view.reason)),
        *_failed_checks(view.reason),
        *check_facts(view.check, at),
        ("Speed", speed_fact(view.speed, at)),
        ("Address", view.address or NOTHING),
        ("Version", view.version or NOTHING),
        ("Seen", f"{show_age(view.seen, at)} ago" if view.seen else NOTHING),
        ("Tasks", str(view.tasks)),
        ("Runtimes", ", ".join(view.runtimes or ())),
        ("Programs", ", ".join(view.programs or ())),
        ("Limits", (view.versions or {}).get("limits", "")),
        ("Labels", ", ".join(f"{name}={value}" for name, value in sorted((view.labels or {}).items()))),
        ("Topology", _topology(view)),
        ("Free cpu", show_free(view.free, view.resources, "cpu")),
        ("Free memory", show_free(view.free, view.resources, "memory")),
        ("Free gpu", show_free(view.free, view.resources, "gpu")),
        *((f"Free {noun}", show_free(view.free, view.resources, name)) for noun, name in _others(view)),
        ("Cpu used", f"{usage.cpu:g}%" if usage else NOTHING),
        ("Memory used", show_memory(usage.memory) if usage else NOTHING),
        ("Load", f"{usage.load:g}" if usage else NOTHING),
        ("Disk free", show_memory(usage.disk_free) if usage else NOTHING),
        *((f"Gpu {gpu.id}", _gpu(gpu, view)) for gpu in (view.gpus or () if view.machines is None else ())),
        *_machines(view),
        *(figures(now) if now else ()),
    ]
    return pairs([(key, value) for key, value in facts if value], width)


def _others(view: NodeView) -> list[tuple[str, str]]:
    """Return label and value of the other resources that the node offers: scratch and the user's custom resources."""
    if view.resources is None:
        return []
    scratch = [("scratch", "disk")] if view.resources.disk else []
    return [*scratch, *((name, name) for name in view.resources.custom)]


def _topology(view: NodeView) -> str:
    """Describe the path and where it is from, or why there is none."""
    path, note = "/".join(view.path or ()), view.path_note
    if not note:
        return path
    return f"{path} ({note})" if path else f"none: {note}"


def _failed_checks(reason: Reason | None) -> Iterator[tuple[str, str]]:
    for check in reason.details.get("checks", ()) if reason else ():
        if not check["ok"]:
            yield f"Failed: {check['name']}", str(check["message"])


def _gpu(gpu: GpuDevice, view: NodeView) -> str:
    """Describe a GPU: quarantine, model, memory, utilisation, and the tasks or programs on it."""
    ill = (view.quarantine or {}).get(str(gpu.id))
    now = next((one for one in _samples(view) if one.id == gpu.id), None)
    memory = show_memory(gpu.memory) if gpu.memory else ""
    if memory and now and now.memory_used is not None:
        memory = f"{show_memory(now.memory_used)} of {memory}"
    parts = [f"in quarantine: {ill}" if ill else "", gpu.name, memory, *(_load(now) if now else ())]
    return ", ".join(part for part in parts if part)


def _machines(view: NodeView) -> Iterator[tuple[str, str]]:
    """Describe the machines of a namespace: what Kubernetes offers there, and which tasks of this node it runs."""
    if view.machines is None:
        return
    for each in view.machines.machines:
        gpus = f"{each.gpu // DEVICE} × {each.gpu_model or 'GPU'}" if each.gpu else ""
        tasks = f"{each.running} task{'' if each.running == 1 else 's'}" if each.running else ""
        named = ", ".join(key.rpartition("/")[0] for key in each.tasks)
        parts = [
            f"{each.cpu / 1000:g} cpu",
            show_memory(each.memory),
            gpus,
            f"no tasks: {each.closed}" if each.closed else "",
            f"{tasks}: {named}" if named else tasks,
        ]
        yield f"Machine {each.name}", ", ".join(part for part in parts if part)
    if view.machines.left_out:
        yield "Machines", f"and {view.machines.left_out} more"


def _load(now: GpuSample) -> Iterator[str]:
    if now.utilisation is not None:
        yield f"{now.utilisation:g}% busy"
    if now.temperature is not None:
        yield f"{now.temperature:g} °C"
    if now.ecc:
        yield f"{now.ecc} ECC errors"
    if now.busy:
        yield f"used by {now.busy}, not by a task of this cluster"


def _samples(view: NodeView) -> Sequence[GpuSample]:
    return view.usage.gpus if view.usage else ()
