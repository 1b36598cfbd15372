"""Read ``autoscale`` of a component. Pure. Used by ``native``."""

from __future__ import annotations

from typing import Any

from grass.manifest import quantities, values
from grass.manifest.elastic import Sizes
from grass.manifest.fields import Fields
from grass.model.autoscale import LEAST_COOLDOWN, LONGEST_COOLDOWN, Autoscale, AutoscalePolicy
from grass.model.framework import Framework


def read_autoscale(fields: Fields, sizes: Sizes, framework: Framework | None) -> Autoscale | None:
    if not fields.has("autoscale"):
        return None
    found = _read(fields)
    problem = _problem(sizes, framework)
    if problem:
        fields.problems.add(fields.at("autoscale"), problem)
    return found


def _read(fields: Fields) -> Autoscale | None:
    policy, default = values.one_of(AutoscalePolicy), Autoscale()
    if isinstance(fields.raw("autoscale"), str):
        return Autoscale(fields.read("autoscale", policy, default.policy))
    section = fields.section("autoscale")
    if section is None:
        return None
    found = Autoscale(
        policy=section.read("policy", policy, default.policy),
        cooldown=section.read("cooldown", _cooldown, default.cooldown),
        gain=section.read("gain", _gain, default.gain),
    )
    section.done()
    return found


def _problem(sizes: Sizes, framework: Framework | None) -> str:
    lacks = [f"`{key}`" for key, size in (("min", sizes.least), ("max", sizes.most)) if size is None]
    if lacks:
        return f"needs `min` and `max`, between which the size may change; missing: {', '.join(lacks)}"
    if framework is not None and framework.kind.size_at_start:
        name = framework.name.value
        return f"cannot be combined with {name}, which gives a task the size only when it starts; use torchrun"
    return ""


def _cooldown(value: Any) -> float:
    seconds = quantities.duration(value)
    if not LEAST_COOLDOWN <= seconds <= LONGEST_COOLDOWN:
        raise values.Wrong(f"must be from {LEAST_COOLDOWN:g}s to {LONGEST_COOLDOWN / 86_400:g}d, got {value}")
    return seconds


def _gain(value: Any) -> float:
    gain = quantities.number(value, "a number from 0 to 1")
    if not 0 <= gain <= 1:
        raise values.Wrong(f"must be from 0 (keep every growth) to 1 (only a linear gain), got {value}")
    return gain
