"""Resources in a file: what a task needs, and the countable things with names of the user's own.

How a name of the user's own is told from a slip: under ``custom`` anything goes; beside ``cpu`` and the others it must
be a plain word with a whole number that is neither near one of these nor a key of the component.
"""

from __future__ import annotations

from typing import Any

from grass.manifest import quantities, values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show
from grass.model.job import DEFAULT_TASK_CPU, GpuNeed
from grass.model.resources import DEVICE, Resources

ANY_GPU = GpuNeed()
MOST_CUSTOM = 32
"""Resources of a cluster's own. A node rarely has ten."""
BUILT_IN = ("cpu", "memory", "gpu", "disk")


def read_task(fields: Fields, not_custom: tuple[str, ...]) -> tuple[Resources, GpuNeed]:
    """What one task needs, under ``resources``. ``not_custom``: keys that belong one level up."""
    section = fields.section("resources")
    if section is None:
        return Resources(cpu=DEFAULT_TASK_CPU), ANY_GPU
    gpu, need = _read_gpu(section)
    resources = Resources(
        cpu=section.read("cpu", quantities.cpu, DEFAULT_TASK_CPU),
        memory=section.read("memory", quantities.memory, 0),
        gpu=gpu,
        disk=section.read("disk", quantities.memory, 0),
        custom=tuple(sorted((name, count) for name, count in read_custom(section, not_custom).items() if count)),
    )
    section.done()
    return resources, need


def read_custom(section: Fields, not_custom: tuple[str, ...] = ()) -> dict[str, int]:
    """Name → amount of what is neither one of the four nor a slip for one; those stay unknown keys."""
    found: dict[str, int] = {}
    under = section.section("custom")
    names = len(section.others()) + (len(under.others()) if under is not None else 0)
    if names > MOST_CUSTOM:  # each would be compared with all the others
        section.problems.add(section.path, f"names {names} resources that Grass does not know; at most {MOST_CUSTOM}")
        section.forgive_others()
        return found
    for name, content in under.entries() if under is not None else ():
        path = under.at(name) if under is not None else ""
        if section.parsed(path, _custom_name, name, ""):
            found[name] = section.parsed(path, quantities.amount, content, 0)
    others = section.others()
    custom = [name for name, content in others if name not in not_custom and _is_custom(section, name, content)]
    for name, content in others:
        if name in not_custom:
            section.refuse(name, "belongs to the component itself, one level up")
        elif name in custom:
            section.has(name)
            if name in found:
                section.problems.add(section.at(name), "stands under `custom`, too")
            found[name] = section.parsed(section.at(name), quantities.amount, content, 0)
    return found


def _is_custom(section: Fields, name: str, content: Any) -> bool:
    if isinstance(content, bool) or not isinstance(content, int) or section.meant(name):
        return False
    try:
        return bool(_custom_name(name))
    except Wrong:
        return False


def _custom_name(name: str) -> str:
    if name in BUILT_IN:
        raise Wrong("is one of the four that Grass knows; it stands one level up")
    return values.port_name(name)


def _read_gpu(section: Fields) -> tuple[int, GpuNeed]:
    """``2``, ``0.25``, or ``{count: 2, model: A100, memory: ">=40GiB"}``."""
    if not isinstance(section.raw("gpu"), dict):
        return section.read("gpu", quantities.gpu, 0), ANY_GPU
    inner = section.section("gpu")
    assert inner is not None
    count = inner.read("count", quantities.gpu, DEVICE)
    need = GpuNeed(inner.read("model", values.text, None), inner.read("memory", quantities.at_least, 0))
    if count == 0 and need != ANY_GPU:
        inner.problems.add(inner.at("count"), "is 0, so no device can be of that model or memory")
    inner.done()
    return count, need


def read_quota(fields: Fields) -> dict[str, int]:
    """A bound for each resource that is named, zeros included: 0 means none of it."""
    quota: dict[str, int] = {}
    for name, parse in (
        ("cpu", quantities.cpu),
        ("memory", quantities.memory),
        ("gpu", gpu_total),
        ("disk", quantities.memory),
    ):
        if fields.has(name):
            quota[name] = fields.read(name, parse, 0)
    return {**quota, **read_custom(fields)}


def gpu_total(value: Any) -> int:
    """Thousandths of a device over many tasks, so also ``1.5``."""
    count = quantities.number(value, "a number of devices such as 2 or 0.5")
    if not 0 <= count <= quantities.MAX_GPU:
        raise Wrong(f"must be between 0 and {quantities.MAX_GPU} devices, got {show(value)}")
    return round(count * DEVICE)
