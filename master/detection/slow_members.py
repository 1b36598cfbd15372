"""Which members of a component are slower than the others, from what they report (``grass.report``). Pure.

The figure ``step_time`` is taken if members report it: the seconds that a step took them, without waiting for others.
Otherwise, the time between two reported steps is; members that wait for one another in each step then all look alike.
Used by ``master.monitor.slow_members``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

STEP_TIME = "step_time"


class Limits(NamedTuple):
    """The limits beyond which a member is slow. ``window``: seconds."""

    window: float = 300.0
    factor: float = 1.5
    """Times the median of the component."""
    steps: float = 3.0
    """Steps of a member within a window, at least."""
    members: int = 3
    """Members with a measure, at least: of two, nobody knows which one is slow."""


class Member(NamedTuple):
    """An attempt. ``task``: ``<component>.<index>``."""

    job_id: str
    component: str
    task: str
    number: int


class Slow(NamedTuple):
    """A member that was slow in two windows. ``seconds``: of a step, ``median``: of all members."""

    member: Member
    seconds: float
    median: float
    window: float

    @property
    def factor(self) -> float:
        return self.seconds / self.median


class Verdict(NamedTuple):
    """What a window showed. ``ended``: members that were slow, and are no longer. ``times``: seconds of a step, of all
    members if they are enough to compare."""

    slow: tuple[Slow, ...]
    ended: tuple[Member, ...]
    times: Mapping[Member, float]


@dataclass
class _Measured:
    """What a member reported in this window."""

    first: tuple[float, float] | None = None
    """Step, and when it was reported."""
    last: tuple[float, float] = (0.0, 0.0)
    total: float = 0.0
    count: int = 0
    """Sum and number of its step times."""

    def add(self, name: str, step: float, value: float, at: float) -> None:
        if self.first is None or step < self.last[0]:  # it goes on from a checkpoint
            self.first = step, at
        self.last = step, at
        if name == STEP_TIME and value > 0:
            self.total, self.count = self.total + value, self.count + 1

    def own(self, limits: Limits) -> float | None:
        return self.total / self.count if self.count >= limits.steps else None

    def between(self, limits: Limits) -> float | None:
        """Return the seconds between two steps."""
        if self.first is None or self.last[0] - self.first[0] < limits.steps:
            return None
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


@dataclass
class _Component:
    began: float
    members: dict[Member, _Measured] = field(default_factory=dict)
    suspects: frozenset[Member] = frozenset()
    """Slow in the last window."""
    found: frozenset[Member] = frozenset()
    """Slow in the last two."""


class SlowMembers:
    """All components. Call ``feed`` with what is reported, and ``judged`` often."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._components: dict[tuple[str, str], _Component] = {}

    def feed(self, member: Member, name: str, step: float, value: float, at: float, now: float) -> None:
        """Take a figure. ``at``: by the member's clock."""
        component = self._components.setdefault((member.job_id, member.component), _Component(now))
        component.members.setdefault(member, _Measured()).add(name, step, value, at)

    def judged(self, now: float) -> Iterator[Verdict]:
        """Yield what the windows showed that are over."""
        for key, component in list(self._components.items()):
            if now - component.began < self._limits.window:
                continue
            if not component.members:
                del self._components[key]
            yield self._judge(component)
            component.began, component.members = now, {}

    def _judge(self, component: _Component) -> Verdict:
        times = self._times(component.members)
        slow = self._slow(times)
        confirmed = {member: each for member, each in slow.items() if member in component.suspects}
        found = frozenset(confirmed)
        fresh = tuple(each for member, each in confirmed.items() if member not in component.found)
        ended = tuple(component.found - found)
        component.suspects, component.found = frozenset(slow), found
        return Verdict(fresh, ended, times)

    def _times(self, members: Mapping[Member, _Measured]) -> dict[Member, float]:
        limits = self._limits
        own = {member: seconds for member, each in members.items() if (seconds := each.own(limits)) is not None}
        between = {member: seconds for member, each in members.items() if (seconds := each.between(limits)) is not None}
        times = own if len(own) >= limits.members else between
        return times if len(times) >= limits.members else {}

    def _slow(self, times: Mapping[Member, float]) -> dict[Member, Slow]:
        if not times:
            return {}
        limits = self._limits
        median = median_low(list(times.values()))
        return {
            member: Slow(member, seconds, median, limits.window)
            for member, seconds in times.items()
            if median > 0 and seconds > limits.factor * median
        }
