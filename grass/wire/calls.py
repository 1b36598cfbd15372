"""Requests to the API, as JSON: one type each. The OpenAPI document is generated from them."""

from __future__ import annotations

from typing import Any

import msgspec

Document = dict[str, Any]
"""A JSON object that other code reads: ``grass.manifest`` a user's document, ``master.api.enrolment`` a node's facts.
Any: their errors name every problem with its path, which a type here could not."""


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all requests. Unknown fields are errors."""


class NoContent(Call, frozen=True):
    pass


class SessionWish(Call, frozen=True, forbid_unknown_fields=False):
    """Opens a session. Clients of every protocol can send it, so that an older one gets a clear answer."""

    protocol: int
    """The client's protocol."""
    version: str
    """The client's version of Grass."""


class Submission(Call, frozen=True):
    manifest: Document
    """The user's document, in any dialect."""
    strict: bool = False
    """Refuse jobs with warnings, and jobs that no node could ever run."""
    cwd: str | None = None
    """Folder in which the tasks of a native job run, if the nodes are the client's machine."""
    id: str | None = None
    """NAME-xxxxxxxx. A request that is repeated with the same id starts nothing twice."""


class Preview(Call, frozen=True):
    manifest: Document


class LogQuery(Call, frozen=True):
    component: str | None = None
    index: int | None = None
    tail: int | None = None
    """Number of last lines."""
    since: float | None = None
    """Only newer lines: seconds since the epoch."""
    follow: bool = False
    cursor: dict[str, dict[str, int]] | None = None
    """All cursors of an earlier stream, merged."""
    before: float | None = None
    """Value of the earlier stream."""


class Stop(Call, frozen=True):
    grace: float | str | None = None
    """Between TERM and KILL: seconds, or a duration such as ``1m``."""


class ScheduleSubmission(Call, frozen=True):
    manifest: Document
    cwd: str | None = None
    again: bool = False
    """Set when the submission is repeated, because its reply may have been lost."""


class Exec(Call, frozen=True):
    argv: list[str]
    tty: bool = False
    """With a terminal; all output is then stdout."""
    rows: int | None = None
    cols: int | None = None


class ExecInput(Call, frozen=True):
    data: str
    """Base64."""
    end: bool = False


class ExecSize(Call, frozen=True):
    rows: int
    cols: int


class Drain(Call, frozen=True):
    deadline: float | str | None = None
    """Time until its tasks are stopped: seconds or a duration. None: wait for their end."""


class NodeRemoval(Call, frozen=True):
    force: bool = False
    """Even if it has tasks or does not answer."""


class JoinTokenWish(Call, frozen=True):
    name: str | None = None
    """The only node that may use it."""
    uses: int = 1
    expires: float = 3600.0
    """Seconds."""


class JoinQuestion(Call, frozen=True):
    name: str
    facts: Document
    node: Document = {}
    password: str = "none"


class Join(Call, frozen=True):
    secret: str
    """Secret of the join token."""
    join_id: str
    """Chosen by the machine. A request that is repeated with the same id uses the token once."""
    password: str
    """The node's password for redis, chosen by the machine."""
    name: str
    facts: Document
    """``address``, ``api_port``, ``version``, ``machine``, ``python``, ``resources``, ``gpus``, ``engine``."""
    check: bool = False
    """Only answer whether it could join, and which endpoints it must be able to reach."""
    node: Document = {}
    """What it offers: cpu, memory, gpu, labels, path, runtimes, mounts."""


class NodeProof(Call, frozen=True):
    token: str
    """The node's token."""
    force: bool = False
