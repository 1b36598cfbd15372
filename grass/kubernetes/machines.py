"""The machines of a Kubernetes cluster, where the right to list them was given: what they have, and for whom. Pure.

Labels of Grass's own that nodes find by themselves (``arch``, ``os``, ``gpu_model``) are found in those of Kubernetes,
so that `where` of a job file means the same on a namespace. Used by ``node.agent.namespace``,
``node.runtime.kubernetes`` and ``grass.provision``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from grass.kubernetes.objects import KubernetesNode, Taint
from grass.kubernetes.quantity import thousandths, whole
from grass.model.job import GpuNeed
from grass.model.machine_labels import GPU_PRODUCT, HOSTNAME
from grass.model.resources import DEVICE, Resources
from grass.wire.gpu import GpuDevice
from grass.wire.machines import MOST_TASKS, Machine, Machines

MOST_MACHINES = 1000
"""Machines that are reported. All of them count in the sum."""
_GPU_MEMORY = "nvidia.com/gpu.memory"
"""Label with the memory of each GPU, in MiB. From the feature discovery of NVIDIA, as the model is."""
_CHANGES = frozenset({HOSTNAME, "nvidia.com/gfd.timestamp"})
"""Labels that differ on all machines and would keep them from sharing a set."""
_KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})


def machines_of(nodes: Iterable[KubernetesNode], gpu: str, tolerations: Sequence[Mapping[str, str]]) -> Machines:
    """Return the machines. ``gpu``: the resource of GPUs. ``tolerations``: those of our pods, from the settings."""
    kinds: dict[tuple[tuple[str, str], ...], int] = {}
    found = [_machine(each, gpu, tolerations, kinds) for each in sorted(nodes, key=lambda each: each.metadata.name)]
    labels = tuple(map(dict, kinds))
    return Machines(tuple(found), labels)


def shown(seen: Machines, tasks: Mapping[str, Sequence[str]]) -> Machines:
    """Return what is reported. ``tasks``: name of a machine → keys of the attempts that run there."""
    listed = tuple(_with_tasks(each, tasks.get(each.name, ())) for each in seen.machines[:MOST_MACHINES])
    return Machines(listed, seen.labels, len(seen.machines) - len(listed))


def total(seen: Machines) -> Resources:
    """Return what all machines on which our pods may run have together."""
    able = [each for each in seen.machines if not each.closed]
    return Resources(
        cpu=sum(each.cpu for each in able), memory=sum(each.memory for each in able), gpu=sum(each.gpu for each in able)
    )


def devices(seen: Machines | None, count: int, name: str) -> tuple[GpuDevice, ...]:
    """Return the GPUs of a namespace: those of its machines, and at least ``count``: those beyond are of machines that
    are not seen, or not there yet. ``name``: of the namespace. Ids say nothing about machines."""
    of_machines = [
        (each.gpu_model, each.gpu_memory)
        for each in (seen.machines if seen is not None else ())
        if not each.closed
        for _ in range(each.gpu // DEVICE)
    ]
    unknown = [("", 0)] * (count - len(of_machines))
    return tuple(
        GpuDevice(number, f"{name}/{number}", model, memory)
        for number, (model, memory) in enumerate([*of_machines, *unknown])
    )


def models(seen: Machines, need: GpuNeed) -> list[str]:
    """Return the models of GPUs that a task may use, as machines are labelled with them."""
    return sorted(
        {each.gpu_model for each in seen.machines if each.gpu_model and need.matches(each.gpu_model, each.gpu_memory)}
    )


def closed(node: KubernetesNode, tolerations: Sequence[Mapping[str, str]]) -> str:
    """Return why pods with these tolerations do not go to a machine; empty: they may."""
    if node.spec.unschedulable:
        return "cordoned in Kubernetes"
    keeping = [each for each in node.spec.taints if each.effect in _KEEPS_OUT and not _tolerated(each, tolerations)]
    if keeping:
        return f"taint {', '.join(_text(each) for each in keeping)}"
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), "True")
    return "" if ready == "True" else "not Ready in Kubernetes"


def _tolerated(taint: Taint, tolerations: Sequence[Mapping[str, str]]) -> bool:
    return any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Mapping[str, str], taint: Taint) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    exists = toleration.get("operator", "Equal") == "Exists"
    key = toleration.get("key", "")
    if not key:
        return exists
    return key == taint.key and (exists or toleration.get("value", "") == taint.value)


def _text(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _machine(
    node: KubernetesNode,
    gpu: str,
    tolerations: Sequence[Mapping[str, str]],
    kinds: dict[tuple[tuple[str, str], ...], int],
) -> Machine:
    labels, allocatable = node.metadata.labels, node.status.allocatable
    kept = tuple(sorted((name, value) for name, value in labels.items() if name not in _CHANGES or _own(node, name)))
    memory = labels.get(_GPU_MEMORY, "")
    count = thousandths(allocatable.get(gpu, "0"))
    return Machine(
        node.metadata.name,
        kinds.setdefault(kept, len(kinds)),
        thousandths(allocatable.get("cpu", "0")),
        whole(allocatable.get("memory", "0")),
        count,
        labels.get(GPU_PRODUCT, "") if count else "",
        int(memory) << 20 if count and memory.isdigit() else 0,
        closed(node, tolerations),
    )


def _own(node: KubernetesNode, label: str) -> bool:
    """Return whether a machine's host name is another one than its name."""
    return label == HOSTNAME and node.metadata.labels[label] != node.metadata.name


def _with_tasks(machine: Machine, tasks: Sequence[str]) -> Machine:
    return msgspec.structs.replace(machine, tasks=tuple(sorted(tasks)[:MOST_TASKS]), running=len(tasks))
