"""Finds what parts of a job no node satisfies today: warnings at submission, errors with ``strict``. Pure.

Such a job is accepted and waits with the planner's reason; its user gets the warning at once. Sentences about nodes
are those of ``grass.model.feasibility``. While no node is known, nothing is said. Used by ``submission``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import NamedTuple

from grass.errors import Problem
from grass.frameworks.programs import needed_of_node
from grass.model import feasibility
from grass.model.amounts import show_memory
from grass.model.feasibility import some
from grass.model.job import NODE_LEVEL, PLAIN_CONTAINER, Component, Container, GpuNeed, Job, runtime_of
from grass.model.lifecycle import NodeState
from grass.model.machine_labels import with_own
from grass.model.namespace import has_share, is_namespace, refusals
from grass.model.resources import Resources
from grass.model.runtime import RuntimeName, runs_without_image
from grass.wire.node_record import NodeRecord

_GONE = (NodeState.LEFT, NodeState.LOST)
_NAMESPACE = RuntimeName.KUBERNETES.value
MAX_PROBLEMS = 50
_SMALL = Resources(cpu=1000, memory=2 << 30)
"""A task that asks for so much at most fits on nearly every machine: the records of the nodes are not read for it."""


class Allowed(NamedTuple):
    """The most that all running tasks of a user may use: ``amounts`` of ``Resources`` by name."""

    user: str
    amounts: Mapping[str, int]


def asks_about_nodes(job: Job) -> bool:
    """Return whether a job asks for more than a little cpu and memory, so that the records of the nodes are needed."""
    return job.together is not None or bool(job.gang) or any(map(_special, job.components.values()))


def _special(component: Component) -> bool:
    resources = component.resources
    constrained = component.where or component.avoid or component.spread is not None or component.pack is not None
    return bool(
        constrained
        or component.image
        or component.runtime is not None
        or refusals(component, share=False)
        or not resources.fits(_SMALL)
        or needed_of_node(component)
    )


def unsuited(job: Job, nodes: Sequence[NodeRecord]) -> list[Problem]:
    """Return path and message of each part of a job that no node can satisfy. ``nodes``: their records.

    Time: the size of the job plus the size of the records, not their product."""
    known = [node for node in nodes if node.state not in _GONE and any(node.resources.amounts().values())]
    if not known:
        return []
    facts = _Facts(known)
    problems: list[Problem] = []
    for name, component in job.components.items():
        for key, message in _of_component(component, facts):
            problems.append(Problem(f"components.{name}.{key}", message))
            if len(problems) >= MAX_PROBLEMS:
                return [*problems, Problem("", f"stopped after {MAX_PROBLEMS} problems; there may be more")]
    if job.together is not None and job.together not in facts.levels:
        problems.append(Problem("together", _no_level(job.together)))
    return [*problems, *_gang(job, [node.resources for node in known])]


def above_quota(job: Job, allowed: Allowed | None) -> list[Problem]:
    """Return path and message of each part that needs more at once than its user may ever use. None: all is allowed."""
    if allowed is None:
        return []
    problems = []
    for name, component in job.components.items():
        count = _together(job, name)
        for resource, need in (component.resources * count).amounts().items():
            most = allowed.amounts.get(resource)
            if most is not None and need > most:
                message = feasibility.above_quota(allowed.user, resource, most, need)
                problems.append(Problem(f"components.{name}.resources", message))
    return problems[:MAX_PROBLEMS]


def _together(job: Job, name: str) -> int:
    """Return how many tasks of a component start together."""
    component = job.components[name]
    return (component.min or 1) if component.elastic else component.replicas if name in job.gang else 1


def _gang(job: Job, totals: Sequence[Resources]) -> Iterator[Problem]:
    """Say that tasks that start together are more than the empty nodes hold, each component by itself."""
    for name, component in job.components.items():
        count = _together(job, name)
        needs = [(resource, need) for resource, need in component.resources.amounts().items() if need]
        if count > 1 and needs:
            held = sum(min(total.amount(resource) // need for resource, need in needs) for total in totals)
            if 0 < held < count:  # none: it is said of one task
                yield Problem(f"components.{name}", feasibility.gang_too_large(count, held))


class _Facts:
    """A summary of the nodes, so that each component is compared with few values. Sets of nodes are bits of an int."""

    def __init__(self, nodes: Sequence[NodeRecord]) -> None:
        self.names = [node.name for node in nodes]
        self.name_set = frozenset(self.names)
        self.totals = list(dict.fromkeys(node.resources for node in nodes))
        self.levels = {NODE_LEVEL, *range(1, max(len(node.path) for node in nodes) + 1)}
        known = [set(node.programs) if node.programs is not None else None for node in nodes]
        self.programs = None if None in known else set().union(*(each for each in known if each))
        self.runtimes = list(dict.fromkeys(name for node in nodes for name in node.runtimes))
        self.kinds = list(dict.fromkeys((node.runtimes, node.default_image) for node in nodes))
        self.pods_have_share = any(is_namespace(node.runtimes) and has_share(node.labels) for node in nodes)
        self.devices = sorted({(gpu.name, gpu.memory) for node in nodes for gpu in node.gpus})
        self.labels: dict[str, dict[str, int]] = {}
        for number, node in enumerate(nodes):
            for label, value in _labels_of(node):
                values = self.labels.setdefault(label, {})
                values[value] = values.get(value, 0) | 1 << number


def _labels_of(node: NodeRecord) -> Iterator[tuple[str, str]]:
    """Yield the labels of a node, and those of the machines of a namespace that it does not have itself."""
    yield from node.labels.items()
    for machine, labels in node.machines.labelled() if node.machines is not None else ():
        if not machine.closed:
            of_machine = with_own(labels, machine.name).items()
            yield from ((label, value) for label, value in of_machine if label not in node.labels)


def _of_component(component: Component, facts: _Facts) -> Iterator[tuple[str, str]]:
    yield from _labels(component, facts)
    yield from _avoided(component, facts)
    for key, level in (("spread", component.spread), ("pack", component.pack)):
        if level is not None and level not in facts.levels:
            yield key, _no_level(level)
    yield from _runtime(component, facts)
    if component.framework is not None and facts.programs is not None:
        for program in needed_of_node(component):
            if program not in facts.programs:
                why = feasibility.lacks_program(program, component.framework.name.value)
                yield "command", f"nodes have {why} on their PATH; its tasks wait until a node has one"
    special_device = component.resources.gpu > 0 and component.gpu != GpuNeed()
    if special_device and not any(component.gpu.matches(*device) for device in facts.devices):
        have = some([_device(*device) for device in facts.devices])
        yield "resources.gpu", f"no node has a GPU of this model or memory; the cluster has {have}"
    elif (message := never_fits(component.resources, facts.totals)) is not None:
        yield "resources", message


def _runtime(component: Component, facts: _Facts) -> Iterator[tuple[str, str]]:
    """Say what nodes lack to run it: a container engine, processes, an image for tasks without one, or what pods do not
    have."""
    wanted = component.runtime
    if wanted in (RuntimeName.PROCESS, RuntimeName.KUBERNETES) and wanted not in facts.runtimes:
        what = "runs processes" if wanted is RuntimeName.PROCESS else "is a Kubernetes namespace"
        yield "runtime", f"no node {what}; its tasks wait until a node does"
        return
    refused = refusals(component, share=facts.pods_have_share)
    able = [runtimes for runtimes, image in facts.kinds if _runs(component, runtimes, image)]
    if not able and component.image is None:
        yield "image", "no node runs tasks without an image; its tasks wait until a node does"
    elif able and all(is_namespace(runtimes) for runtimes in able):
        for key, why in refused:
            yield key, f"no node but Kubernetes namespaces could run it, and {why}; its tasks wait for another node"
    else:
        yield from _engine(component, [name for name in facts.runtimes if not (refused and name == _NAMESPACE)])


def _engine(component: Component, runtimes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Say that an image is ignored, or waited for. ``runtimes``: those of nodes that could run the component."""
    runtime = runtime_of(component, runtimes)
    if runtime_of(component).contained and not (runtime.contained and runtime in runtimes):
        what = "its tasks run as processes" if component.runtime is None else "its tasks wait until a node has one"
        yield "image", f"no node has a container engine; {what}"
        if component.runtime is None and (ignored := _of_container(component.container)):
            yield "container", f"ignored, because its tasks run as processes: {some(ignored)}"


def _runs(component: Component, runtimes: Sequence[str], default_image: str) -> bool:
    if component.runtime is not None:
        return component.runtime.value in runtimes
    return component.image is not None or runs_without_image(runtimes, default_image)


def _of_container(container: Container) -> list[str]:
    """Return the settings that count in a container only. An empty entrypoint is what a process has anyway."""
    known = replace(container, entrypoint=container.entrypoint or None)
    names = [each.name for each in fields(known)]
    return [name for name in names if getattr(known, name) != getattr(PLAIN_CONTAINER, name)]


def never_fits(needs: Resources, totals: Sequence[Resources]) -> str | None:
    """Why no node could run one such task even if it were empty; None when one could."""
    if not totals or any(needs.fits(total) for total in totals):
        return None
    for name, need in needs.amounts().items():
        largest = max(total.amount(name) for total in totals)
        if need > largest:
            return feasibility.too_large(name, need, largest)
    return feasibility.NO_SINGLE_NODE


def _device(model: str, memory: int) -> str:
    size = f" ({show_memory(memory)})" if memory else ""
    return f"{model or 'GPUs of unknown model'}{size}"


def _labels(component: Component, facts: _Facts) -> Iterator[tuple[str, str]]:
    some_missing, all_of_them = False, -1  # -1: the bits of all nodes
    for label, wanted in component.where.items():
        values = facts.labels.get(label, {})
        found = 0
        for value in wanted:
            found |= values.get(value, 0)
        if not values:
            yield f"where.{label}", f"no node has this label; nodes have {some(sorted(facts.labels))}"
        elif not found:
            yield f"where.{label}", f"no node has {label}: {' or '.join(wanted)}; nodes have {some(sorted(values))}"
        some_missing = some_missing or not found
        all_of_them &= found
    if component.where and not some_missing and not all_of_them:
        yield "where", "no single node has all of these labels"


def _avoided(component: Component, facts: _Facts) -> Iterator[tuple[str, str]]:
    for number, name in enumerate(component.avoid):
        if name not in facts.name_set:
            yield f"avoid[{number}]", f"unknown node '{name}'; the cluster has {some(facts.names)}"
    if component.avoid and facts.name_set <= set(component.avoid):
        yield "avoid", f"excludes every node; the cluster has {some(facts.names)}"


def _no_level(level: int) -> str:
    return f"no node has a topology path with level {level}; set `topology` in the settings of the nodes"
