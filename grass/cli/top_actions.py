"""What a user may do with a job in `grass top`. Pure but for ``act``. The API checks the rights again.

Used by ``top`` and ``top_pages``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from grass.model.lifecycle import JobState

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView


class Action(NamedTuple):
    """One key that changes a job.

    ``key``: one character. ``verb``: as in the command. ``note``: what happens. ``done``: said after it was done.
    """

    key: str
    verb: str
    note: str
    done: str
    act: Callable[[Client, str], object]


_STOP = Action(
    "x", "stop", "Its tasks get TERM, and KILL after their grace.", "is being stopped", lambda c, job: c.stop(job)
)
_HOLD = Action("h", "hold", "Nothing of it starts until it is released.", "is held", lambda c, job: c.hold(job))
_RELEASE = Action("h", "release", "It starts as soon as it is its turn.", "is released", lambda c, job: c.release(job))
_RERUN = Action(
    "R", "rerun", "A new run with the same file.", "was submitted as a new run", lambda c, job: c.rerun(job)
)


def offered(job: JobView | None, user: str, role: str) -> list[Action]:
    """Return what this user may do with the job now."""
    if job is None or role == "viewer" or (role == "user" and job.user != user):
        return []
    if job.state.ended:
        return [_RERUN]
    if job.state is not JobState.QUEUED:
        return [_STOP]
    return [_STOP, _RELEASE if job.held else _HOLD]


def question(action: Action, job: JobView) -> str:
    """Return what to confirm. The command that does the same comes before the note, which a narrow screen cuts."""
    return f"{action.verb.capitalize()} {job.name} (y/n)? `grass job {action.verb} {job.id}`. {action.note}"
