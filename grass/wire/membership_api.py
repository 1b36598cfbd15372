"""Requests and answers of the membership API, which the node-agent serves to tasks (docs/reference/membership-api.md).

Every answer has the generation of the task's component and the epoch of the master-agent that made it. Used by tasks,
and by ``node.membership``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from grass.errors import InputError
from grass.wire.codec import Form
from grass.wire.membership import Member

LONGEST_WAIT = 60.0
"""Seconds that a request may wait."""
MOST_VALUE = 16_384
"""Characters of a value in the key-value store."""
MOST_ARGUMENTS = 65_536
"""Bytes of a command beside a task, in UTF-8: of its program and all of its arguments."""
MOST_BODY = 512 * 1024
"""Bytes of a request of a task, and of one to a node-api-server. JSON may write a character of a value in 12 bytes, and
a byte of an argument in 6."""
DEFAULT_TTL, LONGEST_TTL = 86_400.0, 7 * 86_400.0
"""Seconds that a value stays."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """The membership of the task's component: ``GET /v1/world?after=GENERATION&wait=SECONDS``."""

    generation: int
    epoch: int
    desired: int
    min: int
    max: int
    unit: int
    members: tuple[Member, ...]
    rank: int | None
    """Rank of the asking attempt. None: it is not a member yet, or no longer."""
    released: bool
    """Whether it was a member and is none now: its component was scaled in, or it was replaced."""


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the membership has changed since: ``GET /v1/pulse?after=GENERATION&wait=SECONDS``."""

    generation: int
    epoch: int
    changed: bool
    released: bool


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``POST /v1/leave``: the node reports that the attempt may be stopped."""

    generation: int
    epoch: int


class BarrierState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a barrier: ``POST /v1/barrier/NAME?wait=SECONDS``.

    The call joins the barrier, and waits until every member of this generation has joined it.
    """

    generation: int
    """Generation to which the barrier belongs. When the membership changes, the barrier ends without having passed."""
    epoch: int
    passed: bool
    arrived: int
    expected: int


class KeyState(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it is now: ``GET /v1/kv/KEY?revision=REVISION&wait=SECONDS``, ``PUT`` and ``DELETE /v1/kv/KEY``."""

    generation: int
    epoch: int
    key: str
    value: str | None
    revision: str
    """Another one after each write; empty: there is no such key."""
    stored: bool = False
    """After PUT and DELETE: whether this request changed it."""


class KeyChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /v1/kv/KEY``."""

    value: str
    ttl: float = DEFAULT_TTL
    expect: str | None = None
    """Store it only if the key has this revision; empty: only if there is no such key."""


class TaskExec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /v1/exec``: a command beside another task of the job."""

    host: str
    """A task (``worker.3``) or the host name of a member (``worker-3-1``)."""
    argv: tuple[str, ...]
    id: str = ""
    """Made up by the caller: 16 to 64 letters and digits. A repeated request with it gets the same session."""


class RefusedRequest(msgspec.Struct, frozen=True):
    """Why a request was refused. ``code``: of the class in ``grass.errors``."""

    code: str
    message: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to a request that was refused. Without a valid token, it has neither generation nor epoch; those of a
    node-api-server have none."""

    error: RefusedRequest
    generation: int | None = None
    epoch: int | None = None


class SharedValue(msgspec.Struct, frozen=True, array_like=True):
    """A value in the store, under ``shared:<space>:<key>``."""

    revision: str
    value: str


KEY_CHANGE: Form[KeyChange] = Form(KeyChange)


def check_arguments(argv: Sequence[str]) -> None:
    """Raise InputError unless this can be the command of a task."""
    if not argv or sum(len(each.encode("utf-8", "replace")) for each in argv) > MOST_ARGUMENTS:
        raise InputError(f"argv: must be a command of at most {MOST_ARGUMENTS:,} bytes")
    if any("\0" in each for each in argv):
        raise InputError("argv: an argument cannot contain the character NUL")


TASK_EXEC: Form[TaskExec] = Form(TaskExec)
REFUSAL: Form[Refusal] = Form(Refusal)
SHARED_VALUE: Form[SharedValue] = Form(SharedValue)
