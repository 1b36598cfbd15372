"""From samples and records to the figures that get histories. Pure. Used by the monitor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from grass.model.figures import GPU, JOB_DEVICE, OF_NODE, OF_TASK, PORT, Figure
from grass.model.lifecycle import NodeState
from grass.model.resources import DEVICE
from grass.wire.node_record import NodeRecord
from grass.wire.usage import NodeSample, TaskSample

MOST = 3e38
"""A figure beyond that is left out: histories keep 32-bit floats, and no sound node reports it."""
_CORE = 1000
"""Thousandths."""
_AWAY = (NodeState.JOINING, NodeState.LOST, NodeState.STOPPED, NodeState.LEFT)


def _fields(figures: Iterable[Figure], devices: str = "", device: str = "") -> tuple[tuple[str, str], ...]:
    """Return field of the sample and name of the curve, of the figures with a history."""
    return tuple((each.name, each.curve(device)) for each in figures if each.chart and each.devices == devices)


_NODE, _TASK = _fields(OF_NODE), _fields(OF_TASK)
_PART = tuple(("gpus" if name == "gpu" else name, name) for name, _ in _TASK)


def of_node(sample: NodeSample) -> dict[str, float]:
    found = _known(sample, _NODE)
    for gpu in sample.gpus:
        found |= _known(gpu, _of_device(GPU, str(gpu.id)))
    for port in sample.rdma:
        found |= _known(port, _of_device(PORT, port.port))
    return found


def of_task(sample: TaskSample) -> dict[str, float]:
    return _known(sample, _TASK)


def part_of_job(sample: TaskSample) -> dict[str, float]:
    """Return what the task adds to the figures of its job: of GPUs, percent of one device.

    ``of_task`` has percent of what the task has, which does not add up.
    """
    found = _known(sample, _PART)
    if "gpu" in found:
        found["gpu"] *= JOB_DEVICE
    return found


def add(sums: dict[str, float], figures: Mapping[str, float]) -> None:
    """Add figures to sums of the same names. A sum that no history can keep is left as it was."""
    sums.update({name: total for name, figure in figures.items() if (total := sums.get(name, 0.0) + figure) <= MOST})


def of_cluster(samples: Iterable[NodeSample], nodes: Iterable[NodeRecord], tasks: int) -> dict[str, float]:
    """Return capacity, allocation and use: cpu in cores, memory in bytes, gpu in devices."""
    samples = list(samples)
    here = [node for node in nodes if node.state not in _AWAY]
    gpus = [gpu.utilisation for sample in samples for gpu in sample.gpus if gpu.utilisation is not None]
    found = {
        "cpu": sum(sample.cpu / 100 * len(sample.cores) for sample in samples),
        "memory": sum(sample.memory for sample in samples),
        "gpu": sum(gpus) / 100,
        "cpu_capacity": sum(node.resources.cpu for node in here) / _CORE,
        "memory_capacity": sum(node.resources.memory for node in here),
        "gpu_capacity": sum(node.resources.gpu for node in here) / DEVICE,
        "cpu_allocated": sum(node.resources.cpu - node.free.cpu for node in here) / _CORE,
        "memory_allocated": sum(node.resources.memory - node.free.memory for node in here),
        "gpu_allocated": sum(node.resources.gpu - node.free.gpu for node in here) / DEVICE,
        "nodes": len(here),
        "tasks": tasks,
    }
    return _sound(found)


def _known(sample: object, names: Iterable[tuple[str, str]]) -> dict[str, float]:
    """``names``: field and curve of each figure."""
    return {
        name: float(figure)
        for attribute, name in names
        if (figure := getattr(sample, attribute)) is not None and -MOST <= figure <= MOST
    }


def _sound(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: float(figure) for name, figure in figures.items() if -MOST <= figure <= MOST}


@lru_cache(1024)
def _of_device(devices: str, device: str) -> tuple[tuple[str, str], ...]:
    return _fields(OF_NODE, devices, device)
