"""What of a job no node of the cluster satisfies today: a warning at submission, an error with ``strict``. Pure.

Such a job waits, with the planner's own reason; this tells whoever submits it at once. While no node is known,
nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from grass.errors import Problem
from grass.model.job import NODE_LEVEL, Component, GpuNeed, Job
from grass.model.resources import Resources, show_cpu, show_gpu, show_memory

View = Mapping[str, Any]

_SHOW: dict[str, Callable[[int], str]] = {
    "cpu": show_cpu,
    "gpu": show_gpu,
    "memory": show_memory,
    "disk": show_memory,
}
_GONE = ("LEFT", "LOST")


def asks_about_nodes(job: Job) -> bool:
    """Whether it says more than cpu and memory, so that it is worth reading what the nodes are."""
    return job.together is not None or any(_special(component) for component in job.components.values())


def _special(component: Component) -> bool:
    resources = component.resources
    constrained = component.where or component.avoid or component.spread is not None or component.pack is not None
    return bool(constrained or component.image or resources.gpu or resources.disk or resources.custom)


def unsuited(job: Job, nodes: Sequence[View]) -> list[Problem]:
    """Path and message of each part that no node could satisfy. ``nodes``: their records."""
    known = [node for node in nodes if node.get("state") not in _GONE and any(_resources(node).amounts().values())]
    if not known:
        return []
    problems: list[Problem] = []
    for name, component in job.components.items():
        for key, message in _of_component(component, known):
            problems.append(Problem(f"components.{name}.{key}", message))
    if job.together is not None and not _has_level(job.together, known):
        problems.append(Problem("together", _no_level(job.together)))
    return problems


def _of_component(component: Component, nodes: Sequence[View]) -> Iterator[tuple[str, str]]:
    yield from _labels(component, nodes)
    yield from _avoided(component, nodes)
    yield from _levels(component, nodes)
    if component.image is not None and component.runtime != "process" and not _have_docker(nodes):
        what = "its tasks run as processes" if component.runtime is None else "it waits until one has"
        yield "image", f"no node has an engine for containers: {what}"
    choosy = component.resources.gpu > 0 and component.gpu != GpuNeed()
    if choosy and not any(_has_device(component, node) for node in nodes):
        yield "resources.gpu", f"no node has such a device; {_devices(nodes)}"
    elif (message := never_fits(component.resources, [_resources(node) for node in nodes])) is not None:
        yield "resources", message


def never_fits(needs: Resources, totals: Sequence[Resources]) -> str | None:
    """Why no node could hold one such task even if it were empty; None when one could."""
    if not totals or any(needs.fits(total) for total in totals):
        return None
    for name, need in needs.amounts().items():
        largest = max(total.amount(name) for total in totals)
        if need > largest:
            show = _SHOW.get(name, str)
            return f"needs {show(need)} {name} per task; the largest node has {show(largest)}"
    return "no single node has all of what one task needs"


def _labels(component: Component, nodes: Sequence[View]) -> Iterator[tuple[str, str]]:
    lacking = False
    for label, wanted in component.where.items():
        values = sorted({node["labels"][label] for node in nodes if label in (node.get("labels") or {})})
        if not values:
            lacking = True
            names = sorted({name for node in nodes for name in node.get("labels") or {}})
            yield f"where.{label}", f"no node has this label; there are {_some(names)}"
        elif not set(values) & set(wanted):
            lacking = True
            yield f"where.{label}", f"no node has {label}: {' or '.join(wanted)}; there are {_some(values)}"
    if component.where and not lacking and not any(_has_labels(component, node) for node in nodes):
        yield "where", "no single node has all of these labels"


def _has_labels(component: Component, node: View) -> bool:
    labels = node.get("labels") or {}
    return all(labels.get(label) in wanted for label, wanted in component.where.items())


def _avoided(component: Component, nodes: Sequence[View]) -> Iterator[tuple[str, str]]:
    names = [node["name"] for node in nodes]
    for place, name in enumerate(component.avoid):
        if name not in names:
            yield f"avoid[{place}]", f"there is no node {name}; there are {_some(names)}"
    if component.avoid and set(names) <= set(component.avoid):
        yield "avoid", f"leaves no node: the cluster has {_some(names)}"


def _levels(component: Component, nodes: Sequence[View]) -> Iterator[tuple[str, str]]:
    for key, level in (("spread", component.spread), ("pack", component.pack)):
        if level is not None and not _has_level(level, nodes):
            yield key, _no_level(level)


def _has_level(level: int, nodes: Sequence[View]) -> bool:
    return level == NODE_LEVEL or any(len(node.get("path") or ()) >= level for node in nodes)


def _no_level(level: int) -> str:
    return f"no node says where it stands at level {level} (`topology` in its settings)"


def _have_docker(nodes: Sequence[View]) -> bool:
    return any("docker" in (node.get("runtimes") or ()) for node in nodes)


def _has_device(component: Component, node: View) -> bool:
    model, memory = component.gpu.model, component.gpu.memory
    return any(
        (model is None or model.casefold() in device.get("name", "").casefold()) and device.get("memory", 0) >= memory
        for device in node.get("gpus") or ()
    )


def _devices(nodes: Sequence[View]) -> str:
    kinds = sorted(
        {
            f"{device.get('name', '?')} ({show_memory(device.get('memory', 0))})"
            for n in nodes
            for device in n.get("gpus") or ()
        }
    )
    return f"there are {_some(kinds)}" if kinds else "there are none at all"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown or "none"


def _resources(node: View) -> Resources:
    return Resources.from_wire(node["resources"]) if node.get("resources") else Resources()
