"""Work on which deciding failed: a defect of Grass. It is left out for a while, so that everybody else goes on. No I/O.

Whoever catches the error learns from ``Step.work`` whose work it was, and sets that aside. It is tried again when
something in the cluster has changed, no sooner than a wait that doubles each time. Only the memory knows of it: a
master-agent that starts tries everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from grass.model.exhaustive import assert_never
from grass.model.reasons import Reason, ReasonCode

FIRST_WAIT = 1.0
MOST_WAIT = 300.0
"""Seconds until the next try."""


class Work(NamedTuple):
    """What was being done, and for whom: a job id, the name of a node or schedule."""

    kind: Literal["plan", "settle", "leave", "due"]
    name: str
    item: str = ""
    """Of ``due``: the kind of the agenda's item."""


@dataclass(frozen=True)
class SetAside:
    reason: Reason
    until: float
    """Steady seconds before which it is not tried again."""
    epoch: int
    """``Aside.epoch`` at the failure: it is tried again when that has grown."""


class Aside:
    """What is left out now. ``epoch`` grows when something happens after which planning may come out differently."""

    def __init__(self) -> None:
        self.epoch = 0
        self.look_at: float | None = None
        """Steady seconds of the earliest ``retry`` in the agenda."""
        self._out: dict[Work, SetAside] = {}
        self._failures: dict[Work, int] = {}

    def __contains__(self, work: Work) -> bool:
        return work in self._out

    def get(self, work: Work) -> SetAside | None:
        return self._out.get(work)

    def leave_out(self, work: Work, error: BaseException, now: float) -> SetAside:
        failures = self._failures[work] = self._failures.get(work, 0) + 1
        wait = min(MOST_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 32))
        message = (
            f"internal error while {_doing(work)} ({type(error).__name__}: {error}); set aside and tried again when "
            "something changes; the master-agent's log has the details"
        )
        reason = Reason(ReasonCode.SET_ASIDE, message, {"failures": failures})
        left = self._out[work] = SetAside(reason, now + wait, self.epoch)
        return left

    def ripe(self, now: float) -> list[Work]:
        """What may be tried again: it has waited, and something has changed. It is not left out any more."""
        found = [work for work, left in self._out.items() if left.until <= now and left.epoch < self.epoch]
        for work in found:
            del self._out[work]
        return found

    def let_in(self, work: Work) -> None:
        """Try it now, whether or not anything has changed."""
        self._out.pop(work, None)

    def forget(self, name: str) -> None:
        """It has ended, or is gone."""
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
            return "looking for this job's outcome"
        case "leave":
            return f"draining node {work.name}"
        case "due":
            return f"doing what was due ({work.item})"
        case _:
            assert_never(work.kind)
