"""Finds what of a job no node of the cluster satisfies today: warnings at submission, errors with ``strict``. Pure.

Such a job is accepted and waits with the planner's own reason; this tells its user at once. Sentences about nodes are
those of ``grass.model.feasibility``. While no node is known, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grass.errors import Problem
from grass.model import feasibility
from grass.model.amounts import show_memory
from grass.model.feasibility import some
from grass.model.job import NODE_LEVEL, Component, GpuNeed, Job
from grass.model.lifecycle import NodeState
from grass.model.resources import Resources
from grass.wire.node_record import NodeRecord

_GONE = (NodeState.LEFT, NodeState.LOST)


def asks_about_nodes(job: Job) -> bool:
    """Whether a job asks for more than cpu and memory, so that the records of the nodes have to be read."""
    return job.together is not None or any(_special(component) for component in job.components.values())


def _special(component: Component) -> bool:
    resources = component.resources
    constrained = component.where or component.avoid or component.spread is not None or component.pack is not None
    return bool(constrained or component.image or resources.gpu or resources.disk or resources.custom)


def unsuited(job: Job, nodes: Sequence[NodeRecord]) -> list[Problem]:
    """Return path and message of each part of a job that no node can satisfy. ``nodes``: their records."""
    known = [node for node in nodes if node.state not in _GONE and any(node.resources.amounts().values())]
    if not known:
        return []
    problems: list[Problem] = []
    for name, component in job.components.items():
        for key, message in _of_component(component, known):
            problems.append(Problem(f"components.{name}.{key}", message))
    if job.together is not None and not _has_level(job.together, known):
        problems.append(Problem("together", _no_level(job.together)))
    return problems


def _of_component(component: Component, nodes: Sequence[NodeRecord]) -> Iterator[tuple[str, str]]:
    yield from _labels(component, nodes)
    yield from _avoided(component, nodes)
    yield from _levels(component, nodes)
    if component.image is not None and component.runtime != "process" and not _have_docker(nodes):
        what = "its tasks run as processes" if component.runtime is None else "its tasks wait until a node has one"
        yield "image", f"no node has a container engine; {what}"
    special_device = component.resources.gpu > 0 and component.gpu != GpuNeed()
    if special_device and not any(_has_device(component, node) for node in nodes):
        yield "resources.gpu", f"no node has a GPU of this model or memory; the cluster has {_devices(nodes)}"
    elif (message := never_fits(component.resources, [node.resources for node in nodes])) is not None:
        yield "resources", message


def never_fits(needs: Resources, totals: Sequence[Resources]) -> str | None:
    """Why no node could run one such task even if it were empty; None when one could."""
    if not totals or any(needs.fits(total) for total in totals):
        return None
    for name, need in needs.amounts().items():
        largest = max(total.amount(name) for total in totals)
        if need > largest:
            return feasibility.too_large(name, need, largest)
    return feasibility.NO_SINGLE_NODE


def _labels(component: Component, nodes: Sequence[NodeRecord]) -> Iterator[tuple[str, str]]:
    lacking = False
    for label, wanted in component.where.items():
        values = sorted({node.labels[label] for node in nodes if label in node.labels})
        if not values:
            lacking = True
            names = sorted({name for node in nodes for name in node.labels})
            yield f"where.{label}", f"no node has this label; nodes have {some(names)}"
        elif not set(values) & set(wanted):
            lacking = True
            yield f"where.{label}", f"no node has {label}: {' or '.join(wanted)}; nodes have {some(values)}"
    if component.where and not lacking and not any(_has_labels(component, node) for node in nodes):
        yield "where", "no single node has all of these labels"


def _has_labels(component: Component, node: NodeRecord) -> bool:
    labels = node.labels
    return all(labels.get(label) in wanted for label, wanted in component.where.items())


def _avoided(component: Component, nodes: Sequence[NodeRecord]) -> Iterator[tuple[str, str]]:
    names = [node.name for node in nodes]
    known = set(names)
    for number, name in enumerate(component.avoid):
        if name not in known:
            yield f"avoid[{number}]", f"unknown node '{name}'; the cluster has {some(names)}"
    if component.avoid and known <= set(component.avoid):
        yield "avoid", f"excludes every node; the cluster has {some(names)}"


def _levels(component: Component, nodes: Sequence[NodeRecord]) -> Iterator[tuple[str, str]]:
    for key, level in (("spread", component.spread), ("pack", component.pack)):
        if level is not None and not _has_level(level, nodes):
            yield key, _no_level(level)


def _has_level(level: int, nodes: Sequence[NodeRecord]) -> bool:
    return level == NODE_LEVEL or any(len(node.path) >= level for node in nodes)


def _no_level(level: int) -> str:
    return f"no node has a topology path with level {level}; set `topology` in the settings of the nodes"


def _have_docker(nodes: Sequence[NodeRecord]) -> bool:
    return any("docker" in node.runtimes for node in nodes)


def _has_device(component: Component, node: NodeRecord) -> bool:
    model, memory = component.gpu.model, component.gpu.memory
    return any(
        (model is None or model.casefold() in device.name.casefold()) and device.memory >= memory
        for device in node.gpus
    )


def _devices(nodes: Sequence[NodeRecord]) -> str:
    kinds = sorted({f"{device.name or '?'} ({show_memory(device.memory)})" for n in nodes for device in n.gpus})
    return some(kinds)
