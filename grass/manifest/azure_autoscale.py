"""Reads ``autoscale`` of a cluster on Azure: how many nodes of each size there may be, and when they are stopped.

Used by ``azure`` and ``grass.azure``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grass.manifest import quantities, values
from grass.manifest.azure_sizes import by_size
from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show

MOST = 500
_IDLE, _COOLDOWN = 900.0, 300.0


@dataclass(frozen=True)
class Rule:
    """The rule of one size. ``min`` and ``max``: of its nodes that are on. ``idle``: seconds without a task until one
    is stopped. ``spot``: it is about Spot nodes."""

    size: str
    max: int
    min: int = 0
    idle: float = _IDLE
    spot: bool = False


@dataclass(frozen=True)
class Autoscale:
    """Rules for nodes that start and stop by themselves. ``rules``: one for each size. ``most_a_day``: dollars by list
    price; None: no limit. ``cooldown``: seconds until a size is tried again that could not be had. ``on_master``: the
    master does it, with an identity of its machine."""

    rules: tuple[Rule, ...]
    most_a_day: float | None = None
    cooldown: float = _COOLDOWN
    on_master: bool = False


def read_autoscale(fields: Fields) -> Autoscale | None:
    section = fields.section("autoscale")
    if section is None:
        return None
    rules = [_rule(size, part) for size, part in by_size(section)]
    if not rules:
        section.problems.add("autoscale.sizes", "is missing; it says for each size at least `max`")
    return Autoscale(
        tuple(rules),
        section.read("most_per_day", _dollars, None),
        section.read("cooldown", quantities.duration, _COOLDOWN),
        section.read("on_master", values.truth, False),
    )


def _rule(size: str, fields: Fields) -> Rule:
    rule = Rule(
        size=size,
        max=fields.require("max", values.whole(0, MOST), 0, "is missing; it is the most nodes of this size"),
        min=fields.read("min", values.whole(0, MOST), 0),
        idle=fields.read("idle", quantities.duration, _IDLE),
        spot=fields.read("spot", values.truth, False),
    )
    if rule.min > rule.max:
        fields.problems.add(fields.at("min"), f"must be at most max ({rule.max}), got {rule.min}")
    return rule


def _dollars(value: Any) -> float:
    found = quantities.number(value, "dollars a day")
    if not 0 < found < 1e6:
        raise Wrong(f"must be dollars a day, above 0, got {show(value)}")
    return found
