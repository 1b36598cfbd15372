"""MARO's job files (`mode: process`, `mode: grass…`), taken as they are.

They name no policy, so Grass's defaults hold. What cannot matter on one machine is checked and reported as ignored.
"""

from __future__ import annotations

from enum import Enum

from grass.manifest import native, quantities, values
from grass.manifest.fields import Fields
from grass.model.job import Component, Job
from grass.model.resources import Resources

DIALECT = "maro"


class Mode(str, Enum):
    PROCESS = "process"
    GRASS = "grass"
    LOCAL = "grass/local"
    AZURE = "grass/azure"
    ON_PREMISES = "grass/on-premises"


class _AllocationMode(str, Enum):
    BALANCED = "single-metric-balanced"
    COMPACTED = "single-metric-compacted"


class _Metric(str, Enum):
    CPU = "cpu"
    MEMORY = "memory"
    GPU = "gpu"


def read_job(fields: Fields, warnings: list[str], *, name: str | None = None) -> Job:
    """The job that ``fields`` describes. ``name``: given by a schedule, which then needs none in the file."""
    fields.require("mode", values.one_of(Mode), Mode.PROCESS)
    components = _read_components(fields, warnings)
    _read_allocation(fields, warnings)
    return Job(
        name=fields.require("name", values.name, "") if name is None else name,
        components=components,
        success=tuple(components),
        fail_fast=len(components) > 1,
        tags=native.read_tags(fields, fields.problems),
        dialect=DIALECT,
    )


def _read_components(fields: Fields, warnings: list[str]) -> dict[str, Component]:
    components: dict[str, Component] = {}
    for name, section in native.component_sections(fields):
        _read_mount(section, warnings)
        components[name] = Component(
            name=name,
            command=section.require("command", values.command, native.UNKNOWN_COMMAND),
            replicas=section.require("num", values.whole(1, native.MAX_REPLICAS), 1),
            resources=_read_resources(section),
            image=native.read_image(section, warnings),
        )
        section.done()
    return components


def _read_resources(fields: Fields) -> Resources:
    """What is not written is not reserved: MARO's process mode never asked, and ran what it was given."""
    section = fields.section("resources")
    if section is None:
        return Resources()
    resources = Resources(
        cpu=section.read("cpu", quantities.cpu, 0),
        memory=section.read("memory", quantities.maro_memory, 0),
        gpu=section.read("gpu", quantities.gpu, 0),
    )
    section.done()
    return resources


def _read_mount(fields: Fields, warnings: list[str]) -> None:
    section = fields.section("mount")
    if section is None:
        return
    section.require("target", values.text, "")
    section.done()
    warnings.append(f"{section.path}: ignored: tasks run as processes here and see the machine's own files")


def _read_allocation(fields: Fields, warnings: list[str]) -> None:
    section = fields.section("allocation")
    if section is None:
        return
    section.require("mode", values.one_of(_AllocationMode), _AllocationMode.BALANCED)
    section.require("metric", values.one_of(_Metric), _Metric.CPU)
    section.done()
    warnings.append(f"{section.path}: ignored: there is one node to choose from")
