"""Work that is set aside because an internal error occurred while deciding on it, so that other jobs go on. No I/O.

The handler of the error finds the current work in ``Step.work`` and sets it aside (``fault_containment.py``). It is
tried again when something in the cluster has changed, after a wait that doubles with each failure. Nothing of this is
stored: a master-agent that starts tries everything. Used by this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from grass.backoff import wait_after
from grass.model.exhaustive import assert_never
from grass.model.reasons import Reason, ReasonCode

FIRST_WAIT = 1.0
MOST_WAIT = 300.0
"""Bounds of the wait before the next try, in seconds."""


class Work(NamedTuple):
    """What was being done, and for what: ``name`` is a job id, or the name of a node or schedule."""

    kind: Literal["plan", "settle", "leave", "due"]
    name: str
    item: str = ""
    """For ``due``: the kind of the agenda item."""


@dataclass(frozen=True)
class SetAside:
    """Why one piece of work is set aside, and until when."""

    reason: Reason
    until: float
    """Steady time before which it is not tried again."""
    epoch: int
    """``SetAsideWork.epoch`` at the failure. The work is tried again once that has grown."""


class SetAsideWork:
    """What is set aside now. ``epoch`` grows whenever something happens that may change the outcome of planning."""

    def __init__(self) -> None:
        self.epoch = 0
        self.next_check: float | None = None
        """Steady time of the earliest ``retry`` in the agenda."""
        self._out: dict[Work, SetAside] = {}
        self._failures: dict[Work, int] = {}

    def __contains__(self, work: Work) -> bool:
        return work in self._out

    def get(self, work: Work) -> SetAside | None:
        return self._out.get(work)

    def add(self, work: Work, error: BaseException, now: float) -> SetAside:
        """Set the work aside. Return the reason that users see, and when it is tried again."""
        failures = self._failures[work] = self._failures.get(work, 0) + 1
        wait = wait_after(failures, FIRST_WAIT, MOST_WAIT)
        message = (
            f"internal error while {_doing(work)} ({type(error).__name__}: {error}); set aside and tried again when "
            "something changes; see the master-agent's log for details"
        )
        reason = Reason(ReasonCode.SET_ASIDE, message, {"failures": failures})
        left = self._out[work] = SetAside(reason, now + wait, self.epoch)
        return left

    def take_due(self, now: float) -> list[Work]:
        """Remove and return the work that may be tried again: its wait is over, and something has changed."""
        found = [work for work, left in self._out.items() if left.until <= now and left.epoch < self.epoch]
        for work in found:
            del self._out[work]
        return found

    def readmit(self, work: Work) -> None:
        """Stop setting the work aside, whether or not anything has changed."""
        self._out.pop(work, None)

    def forget(self, name: str) -> None:
        """Drop all work of a job, node or schedule that has ended or is gone."""
        for work in [work for work in self._failures if work.name == name]:
            self._out.pop(work, None)
            del self._failures[work]

    def __bool__(self) -> bool:
        return bool(self._out)


def _doing(work: Work) -> str:
    match work.kind:
        case "plan":
            return "planning this job"
        case "settle":
            return "checking whether this job has ended"
        case "leave":
            return f"draining node {work.name}"
        case "due":
            return f"running a timer ({work.item})"
        case _:
            assert_never(work.kind)
