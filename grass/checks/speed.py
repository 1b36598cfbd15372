"""How fast a node is, from its checks and from the steps of tasks on it. Pure. Used by ``master.agent`` and
``master.monitor``.

Times say something only beside those of nodes like it: of the same model in a check, with GPUs of the same models for
steps. What was measured fades, because machines are mended, and tasks differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from statistics import median_low
from typing import NamedTuple

from msgspec import structs

from grass.checks.slowness import MOST_OTHERS, OTHERS
from grass.wire.checks import NodeCheck
from grass.wire.node_speed import NodeSpeed

HALF_LIFE = 3 * 86400.0
"""Seconds after which half of a difference is left."""
NEWEST = 0.5
"""Part of the newest step times in the speed by steps. The rest is what was measured before."""
SLOWEST, FASTEST = 0.1, 3.0
_PAIR = "pair"
_MOST_TIMES = 8
_SPREAD = 1.05
_MEMBERS = 3


class Stepped(NamedTuple):
    """A task that reported steps. ``like``: the kind of its node. ``seconds``: of a step."""

    node: str
    like: str
    seconds: float


def with_check(before: NodeSpeed | None, check: NodeCheck) -> NodeSpeed | None:
    """Return what is known after a check. One without level 1, or beside other programs, says nothing of speed."""
    slowest: dict[str, float] = {}
    for name, seconds in check.times.items():
        kind = name.partition(" ")[0]
        if kind != _PAIR and seconds > 0 and (kind in slowest or len(slowest) < _MOST_TIMES):
            slowest[kind] = max(slowest.get(kind, 0.0), seconds)
    if check.level < 1 or not slowest or not check.model or check.figures.get(OTHERS, 0.0) > MOST_OTHERS:
        return before
    return structs.replace(before or NodeSpeed(), check_at=check.at, model=check.model, times=slowest)


def with_steps(before: NodeSpeed | None, measured: float, now: float) -> NodeSpeed:
    """Return what is known after tasks reported steps. ``measured``: the speed by these steps alone."""
    known, measured = before or NodeSpeed(), _bounded(measured)
    if known.steps is not None:
        measured = NEWEST * measured + (1 - NEWEST) * _faded(known.steps, known.steps_at, now)
    return structs.replace(known, steps=round(measured, 3), steps_at=now)


def beside_others(speeds: Mapping[str, NodeSpeed], models: Collection[str]) -> dict[str, NodeSpeed]:
    """Return the nodes of these models whose speed by checks is another one beside the newest checks of the others."""
    groups: dict[tuple[str, str], list[float]] = {}
    for each in speeds.values():
        for kind, seconds in each.times.items():
            groups.setdefault((each.model, kind), []).append(seconds)
    normal = {group: median_low(times) for group, times in groups.items() if group[0] in models}
    found: dict[str, NodeSpeed] = {}
    for node, each in speeds.items():
        if each.times and each.model in models:
            slowest = min(normal[each.model, kind] / seconds for kind, seconds in each.times.items())
            if (speed := round(_bounded(slowest), 3)) != each.check:
                found[node] = structs.replace(each, check=speed)
    return found


def rated(speed: NodeSpeed, now: float) -> NodeSpeed:
    """Return the same with the speed that the planner uses at this time."""
    parts = [(speed.check, speed.check_at), (speed.steps, speed.steps_at)]
    known = [_faded(each, at, now) for each, at in parts if each is not None]
    return structs.replace(speed, value=round(min(known, default=1.0), 2))


def by_steps(members: Iterable[Stepped]) -> dict[str, float]:
    """Return node → its speed by the steps of the members of one component.

    Nothing is said of members that are all as fast: they may wait for one another in each step."""
    likes: dict[str, list[Stepped]] = {}
    for member in members:
        likes.setdefault(member.like, []).append(member)
    found: dict[str, list[float]] = {}
    for alike in likes.values():
        times = [each.seconds for each in alike]
        if len(alike) < _MEMBERS or len({each.node for each in alike}) < 2 or max(times) < _SPREAD * min(times):
            continue
        normal = median_low(times)
        for each in alike:
            found.setdefault(each.node, []).append(normal / each.seconds)
    return {node: median_low(speeds) for node, speeds in found.items()}


def _bounded(speed: float) -> float:
    return min(FASTEST, max(SLOWEST, speed))


def _faded(speed: float, at: float, now: float) -> float:
    return float(1 + (speed - 1) * 0.5 ** (max(0.0, now - at) / HALF_LIFE))
