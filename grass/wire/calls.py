"""The requests of the API, as JSON: one type per request. The OpenAPI document is generated from them."""

from __future__ import annotations

from typing import Any

import msgspec

Document = dict[str, Any]
"""A JSON object that other code reads: ``grass.manifest`` a user's document, ``master.api.enrolment`` a node's facts.
Any: their errors name every problem with its path, which a type here could not."""


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. An unknown field is an error."""


class NoContent(Call, frozen=True):
    pass


class SessionRequest(Call, frozen=True, forbid_unknown_fields=False):
    """Unknown fields are ignored, so that a client of another protocol gets a clear answer."""

    protocol: int
    """What the client speaks."""
    version: str
    """Of Grass on the client."""


class Submission(Call, frozen=True):
    manifest: Document
    """The user's document, in any of the dialects; ``grass.manifest`` reads it."""
    strict: bool = False
    """Refuse warnings, and what no node could ever satisfy."""
    cwd: str | None = None
    """Folder in which the tasks of a native job run, if the nodes are the client's machine."""
    id: str | None = None
    """NAME-xxxxxxxx. Sent again with the same id, nothing is started twice."""


class Preview(Call, frozen=True):
    manifest: Document


class LogQuery(Call, frozen=True):
    component: str | None = None
    index: int | None = None
    tail: int | None = None
    """So many last lines."""
    since: float | None = None
    """Only lines that are newer: seconds since the epoch."""
    follow: bool = False
    cursor: dict[str, dict[str, int]] | None = None
    """All cursors of an earlier stream, merged."""
    before: float | None = None
    """As the earlier stream said."""


class Stop(Call, frozen=True):
    grace: float | str | None = None
    """Between TERM and KILL: seconds, or a duration such as ``1m``."""


class ScheduleSubmission(Call, frozen=True):
    manifest: Document
    cwd: str | None = None
    retry: bool = False
    """Whether this repeats a submission whose reply may have been lost."""


class Exec(Call, frozen=True):
    argv: list[str]
    tty: bool = False
    """With a terminal; everything is then stdout."""
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
    """Time until its tasks are stopped: seconds or a duration. None: they run to their end."""


class NodeRemoval(Call, frozen=True):
    force: bool = False
    """Remove it even if it has tasks, or does not answer."""


class JoinTokenRequest(Call, frozen=True):
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
    """Of the join token."""
    join_id: str
    """Chosen by the machine. Sent again with the same, nothing is used twice."""
    password: str
    """The node's for redis, chosen by the machine."""
    name: str
    facts: Document
    """``address``, ``api_port``, ``version``, ``machine``, ``python``, ``resources``, ``gpus``, ``engine``."""
    check: bool = False
    """Only answer whether it could join, and what it must be able to reach."""
    node: Document = {}
    """What it offers: cpu, memory, gpu, labels, path, runtimes, mounts."""


class NodeProof(Call, frozen=True):
    token: str
    """The node's."""
    force: bool = False
