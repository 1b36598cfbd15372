"""Whether the components of jobs make progress, by what their tasks report and use. Pure. Used by ``standstills``.

A component's members are its running attempts. All that is known is forgotten when they change. A sign of progress is
a figure that a member reports (``grass.report``), of whatever kind: evaluations report, too.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import NamedTuple

from grass.wire.usage import TaskSample


class Limits(NamedTuple):
    """When a component counts as standing still. Times are seconds."""

    window: float = 600.0
    """Without progress for so long: suspected. For as long again: confirmed."""
    steps: float = 10.0
    """The window is at least so many usual times between two signs of progress."""
    pauses: float = 3.0
    """The window is at least so many times the longest pause that ended well, such as an evaluation."""
    patience: float = 3600.0
    """The window before the first sign, and while an evaluation or a checkpoint goes on."""
    signs: int = 3
    """Signs of progress before pauses mean something."""
    moved: float = 1 << 20
    """Bytes per second that a member reads or writes: a checkpoint, or data being loaded."""
    gone: float = 30.0
    """Without a sample for so long, a task is no member any more."""
    idle: float = 0.01
    """Cores, and devices, below which a member does nothing."""


class Activity:
    """What a member used since the last sign of progress, on average."""

    __slots__ = ("cpu", "gpu", "moved", "samples")

    def __init__(self) -> None:
        self.samples = 0
        self.cpu = self.gpu = self.moved = 0.0

    def add(self, sample: TaskSample) -> None:
        self.samples += 1
        part = 1 / self.samples
        self.cpu += (sample.cpu - self.cpu) * part
        self.gpu += ((sample.gpus or 0.0) - self.gpu) * part
        self.moved += (sample.read + sample.written - self.moved) * part


class Progress:
    """One component with its present members."""

    def __init__(self, at: float) -> None:
        self.since = at
        """When it made progress last; before the first sign, when its members began."""
        self.signs = 0
        self.step: float | None = None
        self.reporters: dict[str, float] = {}
        """Member → the step of its last sign."""
        self.members: dict[str, Activity] = {}
        """Task → what it used since."""
        self._intervals: deque[float] = deque(maxlen=64)
        self._longest = 0.0

    def sample(self, task: str, sample: TaskSample) -> None:
        activity = self.members.get(task)
        if activity is None:
            activity = self.members[task] = Activity()
        activity.add(sample)

    def sign(self, task: str, step: float, at: float) -> None:
        """Note a sign of progress of a member."""
        self.reporters[task] = step
        if at <= self.since and self.signs:
            return
        if self.signs:
            self._intervals.append(at - self.since)
            self._longest = max(self._longest, at - self.since)
        self.signs += 1
        self.since, self.step = at, step if self.step is None else max(step, self.step)
        self.measure_anew()

    def measure_anew(self) -> None:
        """Forget what members used so far."""
        self.members = {name: Activity() for name in self.members}

    def window(self, limits: Limits) -> float:
        """Return the seconds without progress after which something may be wrong."""
        if self.signs < limits.signs:
            return limits.patience
        usual = limits.steps * median(self._intervals) if self._intervals else 0.0
        return max(limits.window, usual, limits.pauses * self._longest)

    def moves_data(self, limits: Limits) -> bool:
        """Return whether a member has read or written much since: a checkpoint, or data for an evaluation."""
        return any(each.moved >= limits.moved for each in self.members.values())

    def is_idle(self, limits: Limits) -> bool:
        """Return whether nine of ten members have done nothing since."""
        idle = sum(each.cpu < limits.idle and each.gpu < limits.idle for each in self.members.values())
        return idle >= 0.9 * len(self.members) > 0

    @property
    def leader(self) -> str | None:
        """Return the first member that reports, which usually evaluates and writes checkpoints for all."""
        return min(self.reporters, key=_order, default=None)


def _order(task: str) -> tuple[str, int]:
    component, _, index = task.partition(".")
    return component, int(index)
