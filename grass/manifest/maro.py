"""Reads MARO's unchanged job files (`mode: process`, `mode: grass…`).

Missing keys have Grass's defaults. ``allocation`` sets the job's policy; ``mount.target`` sets where containers mount
the share. As in MARO, the tasks start all together or not at all, because they wait for each other. Used by ``job`` and
``master.api.submission``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from grass.manifest import containers, native, quantities, values
from grass.manifest.fields import Fields
from grass.model.job import DEFAULT_METRIC, PLAIN_CONTAINER, Component, Container, Job, Mount, Policy
from grass.model.resources import Resources

DIALECT = "maro"
REDIS_PORT = 6379
"""Where MARO's ``Proxy`` looks for a redis on its own machine, unless its program says otherwise."""


class Mode(str, Enum):
    PROCESS = "process"
    GRASS = "grass"
    LOCAL = "grass/local"
    AZURE = "grass/azure"
    ON_PREMISES = "grass/on-premises"
    AKS = "k8s/aks"


class _AllocationMode(str, Enum):
    BALANCED = "single-metric-balanced"
    COMPACTED = "single-metric-compacted"


class _Metric(str, Enum):
    CPU = "cpu"
    MEMORY = "memory"
    GPU = "gpu"


def read_job(fields: Fields, warnings: list[str], *, name: str | None = None) -> Job:
    """Return the job in ``fields``. ``name``: given by a schedule; None: the name is in the file."""
    _check_mode(fields)
    components = _read_components(fields, warnings)
    policy, metric = _read_allocation(fields)
    return Job(
        name=fields.require("name", values.name, "") if name is None else name,
        components=components,
        success=tuple(components),
        fail_fast=len(components) > 1,
        tags=native.read_tags(fields, fields.problems),
        dialect=DIALECT,
        gang=tuple(components),
        policy=policy,
        metric=metric,
    )


def _check_mode(fields: Fields) -> None:
    """Refuse a mode that is none of MARO's, with one message: the other keys of the file may have another meaning."""
    before = len(fields.problems.found)
    fields.require("mode", values.one_of(Mode), Mode.PROCESS)
    if len(fields.problems.found) > before:
        fields.problems.check()


def _read_components(fields: Fields, warnings: list[str]) -> dict[str, Component]:
    components: dict[str, Component] = {}
    for name, section in native.component_sections(fields):
        image = section.read("image", containers.image_name, None)
        components[name] = Component(
            name=name,
            command=section.require("command", values.command, native.UNKNOWN_COMMAND),
            replicas=section.require("num", values.whole(1, native.MAX_REPLICAS), 1),
            resources=_read_resources(section),
            image=image,
            container=_read_mount(section, image, warnings),
        )
        section.done()
    return components


def _read_resources(fields: Fields) -> Resources:
    """Read resources. A resource that the file omits is not reserved, as in MARO's process mode."""
    with fields.within("resources") as section:
        return Resources(
            cpu=section.read("cpu", quantities.cpu, 0),
            memory=section.read("memory", quantities.maro_memory, 0),
            gpu=section.read("gpu", quantities.devices, 0),
        )


def _read_mount(fields: Fields, image: str | None, warnings: list[str]) -> Container:
    section = fields.section("mount")
    if section is None:
        return PLAIN_CONTAINER
    target = section.require("target", _mount_target, _NO_MOUNT)
    section.done()
    if image is None:
        warnings.append(f"{section.path}: ignored; without an image, tasks are processes and see all files")
        return PLAIN_CONTAINER
    return target


_NO_MOUNT = Container()


def _mount_target(value: Any) -> Container:
    """Parse ``/dst``, where the share is mounted; or ``/src:/dst``, a folder of the share and where it is mounted."""
    source, colon, target = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not colon:
        return Container(data=containers.data_folder(value))
    return Container(mounts=(Mount(containers.inside_path(source), containers.data_folder(target), shared=True),))


def _read_allocation(fields: Fields) -> tuple[Policy, str]:
    section = fields.section("allocation")
    if section is None:
        return Policy.BEST_FIT, DEFAULT_METRIC
    mode = section.require("mode", values.one_of(_AllocationMode), _AllocationMode.BALANCED)
    metric = section.require("metric", values.one_of(_Metric), _Metric.CPU)
    section.done()
    return Policy(mode.value), metric.value
