"""Reads the resources of a task, the limits of a quota, and custom resources.

Under ``custom``, any name is a custom resource. Beside ``cpu`` and the other built-in resources, a name is a custom
resource if its value is a whole number, and if the name resembles no built-in resource and is no component key. Used by
``native``, ``quotas`` and ``local_settings``.
"""

from __future__ import annotations

from typing import Any

from grass.manifest import quantities, values
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong
from grass.model.amounts import BUILT_IN
from grass.model.job import DEFAULT_TASK_CPU, GpuNeed
from grass.model.policy import FILES, SPACE
from grass.model.resources import DEVICE, Resources

ANY_GPU = GpuNeed()
MAX_NAMES = 64
"""Most custom resources of one task, node or quota."""


def read_task(fields: Fields, not_custom: tuple[str, ...]) -> tuple[Resources, GpuNeed]:
    """Return the resources of one task, from ``resources``. ``not_custom``: keys that belong one level up."""
    with fields.within("resources") as section:
        gpu, need = _read_gpu(section)
        resources = Resources(
            cpu=section.read("cpu", quantities.cpu, DEFAULT_TASK_CPU),
            memory=section.read("memory", quantities.memory, 0),
            gpu=gpu,
            disk=section.read("disk", quantities.memory, 0),
            custom=tuple(sorted((name, count) for name, count in read_custom(section, not_custom).items() if count)),
        )
    return resources, need


def read_custom(section: Fields, not_custom: tuple[str, ...] = ()) -> dict[str, int]:
    """Return name → amount of the custom resources. A slip for a built-in resource stays an unknown key."""
    found: dict[str, int] = {}
    for path, name, content in section.named("custom"):
        if section.parsed(path, _custom_name, name, ""):
            found[name] = section.parsed(path, quantities.amount, content, 0)
    known = section.known  # fixed before the loop: two custom names may resemble each other
    for name, content in section.others():
        if name in not_custom:
            section.refuse(name, "belongs to the component, one level up")
        elif len(found) <= MAX_NAMES and _is_custom(section, known, name, content):
            section.has(name)
            if name in found:
                section.problems.add(section.at(name), "is also under `custom`; keep one")
            found[name] = section.parsed(section.at(name), quantities.amount, content, 0)
    if len(found) > MAX_NAMES:
        section.problems.add(section.path, f"has more than {MAX_NAMES} custom resources")
        section.problems.check()
    return found


def _is_custom(section: Fields, known: tuple[str, ...], name: str, content: Any) -> bool:
    if isinstance(content, bool) or not isinstance(content, int) or section.meant(name, known):
        return False
    try:
        return bool(_custom_name(name))
    except Wrong:
        return False


def _custom_name(name: str) -> str:
    if name in BUILT_IN:
        raise Wrong("is a built-in resource; move it one level up")
    return values.port_name(name)


def _read_gpu(section: Fields) -> tuple[int, GpuNeed]:
    """Read ``2``, ``0.25``, or ``{count: 2, model: A100, memory: ">=40GiB"}``."""
    if not isinstance(section.raw("gpu"), dict):
        return section.read("gpu", quantities.gpu, 0), ANY_GPU
    with section.within("gpu") as inner:
        count = inner.read("count", quantities.gpu, DEVICE)
        need = GpuNeed(inner.read("model", values.text, None), inner.read("memory", quantities.at_least, 0))
        if count == 0 and need != ANY_GPU:
            inner.problems.add(inner.at("count"), "is 0, so `model` and `memory` match no device")
    return count, need


def read_quota(fields: Fields) -> dict[str, int]:
    """Return the limit of each resource in the quota; 0 allows none of the resource."""
    quota: dict[str, int] = {}
    for name, parse in (
        ("cpu", quantities.cpu),
        ("memory", quantities.memory),
        ("gpu", quantities.gpu_total),
        ("disk", quantities.memory),
        (SPACE, quantities.memory),
        (FILES, quantities.amount),
    ):
        if fields.has(name):
            quota[name] = fields.read(name, parse, 0)
    return {**quota, **read_custom(fields)}
