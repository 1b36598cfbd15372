"""Every route of the API, once: blueprints are registered from this table and the OpenAPI document is built from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import msgspec

from grass.api.keyring import Role
from grass.wire import calls, views

LONGEST_WAIT = 25.0
"""Seconds that one request waits at most; the client then asks again."""
MOST_EVENTS = 10_000
MOST_JOBS = 1000
"""In one page of a list."""

_RANK = {Role.VIEWER: 0, Role.USER: 1, Role.ADMIN: 2}


class Access(str, Enum):
    SESSION = "session"
    """A call of a session, which a user has opened."""
    SIGNED = "signed"
    """Signed by a user: opens a session."""
    GUEST = "guest"
    """Of a machine that has no user: sealed, but not signed. The handler judges by a secret in the body."""


@dataclass(frozen=True)
class Parameter:
    """One query parameter. Without a default it is optional and None when absent."""

    type: Literal["string", "boolean", "integer", "number"]
    summary: str
    default: str | bool | float | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class Route:
    """``operation``: noun and name. ``role``: the least that may call it.

    ``request`` and ``response`` are types of ``grass.wire``. ``stream``: the reply is a sequence of sealed
    objects, one a line, the last one marked.
    """

    operation: str
    address: str
    role: Role
    summary: str
    response: type[msgspec.Struct]
    request: type[calls.Call] | None = None
    query: Mapping[str, Parameter] = field(default_factory=dict)
    stream: bool = False
    takes_id: bool = False
    """The handler remembers the request's id in the very step that makes its change: one write less to wait for."""
    access: Access = Access.SESSION

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET" or self.stream

    @property
    def noun(self) -> str:
        return self.operation.partition(".")[0]

    @property
    def name(self) -> str:
        return self.operation.partition(".")[2]

    @property
    def method(self) -> str:
        return self.address.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.address.partition(" ")[2]

    def admits(self, role: Role) -> bool:
        return _RANK[role] >= _RANK[self.role]


_READ, _WRITE, _RULE = Role.VIEWER, Role.USER, Role.ADMIN

_ALL = Parameter("boolean", "Also those that have ended", default=False)
_JOB_LIST = {
    "all": _ALL,
    "limit": Parameter("integer", "How many at most", 100, minimum=0, maximum=MOST_JOBS),
    "before": Parameter("string", "Only those that were submitted before the job with this id"),
    "begun_first": Parameter("boolean", "Choose those that run before the newest that wait or have ended", False),
}
_COMPONENT = Parameter("string", "Only those of this component")
_FIRST = Parameter("integer", "So many, those that need attention first; else all, in the order of the job", minimum=0)
_TIMEOUT = Parameter("number", "Seconds", default=LONGEST_WAIT, minimum=0, maximum=LONGEST_WAIT)
_JOB_WAIT = {
    "timeout": Parameter(
        "number", "Seconds after which it ends with the job as it is", 3600.0, minimum=0, maximum=3600
    ),
    "progress": Parameter("boolean", "An object whenever its tasks got on", default=False),
}
_NODE_WAIT = {
    "timeout": _TIMEOUT,
    "seen": Parameter("string", "The `mark` of the last answer: answer when the node is another than then"),
}
_EVENT_QUERY = {
    "after": Parameter("string", "Only events after this id; without it the newest `limit`"),
    "limit": Parameter("integer", "How many of the newest to begin with", 1000, minimum=0, maximum=MOST_EVENTS),
    "job": Parameter("string", "Only events of this job, by name or id"),
    "follow": Parameter("boolean", "Go on with what happens from now on", default=False),
}

ROUTES: tuple[Route, ...] = (
    Route(
        "session.open",
        "POST /v1/session",
        _READ,
        "A session, under whose key all other calls of a user are sealed",
        views.SessionView,
        calls.SessionWish,
        access=Access.SIGNED,
    ),
    Route("jobs.list", "GET /v1/jobs", _READ, "The newest jobs, oldest first", views.JobsView, query=_JOB_LIST),
    Route(
        "jobs.start",
        "POST /v1/jobs",
        _WRITE,
        "Start a job; durable when it answers",
        views.StartedView,
        calls.Submission,
        takes_id=True,
    ),
    Route(
        "jobs.plan",
        "POST /v1/plan",
        _READ,
        "Where a job would go if it were started now; changes nothing",
        views.PlanView,
        calls.Preview,
    ),
    Route("jobs.show", "GET /v1/jobs/{job}", _READ, "One job, by name (its latest run) or id", views.JobView),
    Route("jobs.delete", "DELETE /v1/jobs/{job}", _WRITE, "Delete an ended job with its logs", views.JobView),
    Route(
        "jobs.tasks",
        "GET /v1/jobs/{job}/tasks",
        _READ,
        "The tasks of a job",
        views.TasksView,
        query={"component": _COMPONENT, "first": _FIRST},
    ),
    Route("jobs.why", "GET /v1/jobs/{job}/why", _READ, "Why a job or parts of it do not run", views.WhyView),
    Route(
        "jobs.wait",
        "GET /v1/jobs/{job}/wait",
        _READ,
        "How the job is now, and when it has ended",
        views.WaitedView,
        query=_JOB_WAIT,
        stream=True,
    ),
    Route(
        "jobs.logs",
        "POST /v1/jobs/{job}/logs",
        _READ,
        "What the tasks of a job printed",
        views.LogPiece,
        calls.LogQuery,
        stream=True,
    ),
    Route(
        "jobs.stop",
        "POST /v1/jobs/{job}/stop",
        _WRITE,
        "Stop a job; an ended one stays as it is",
        views.JobView,
        calls.Stop,
    ),
    Route(
        "exec.start",
        "POST /v1/jobs/{job}/tasks/{task}/exec",
        _WRITE,
        "Run a command beside a running task",
        views.ExecStarted,
        calls.Exec,
    ),
    Route(
        "exec.output",
        "GET /v1/jobs/{job}/tasks/{task}/exec/{session}/output",
        _WRITE,
        "More of what it prints, waiting for it; its exit code in the end",
        views.ExecOutput,
        query={"after": Parameter("integer", "Bytes of output that the caller has", 0, minimum=0)},
    ),
    Route(
        "exec.input",
        "POST /v1/jobs/{job}/tasks/{task}/exec/{session}/input",
        _WRITE,
        "To its standard input",
        views.ExecTaken,
        calls.ExecInput,
    ),
    Route(
        "exec.resize",
        "POST /v1/jobs/{job}/tasks/{task}/exec/{session}/resize",
        _WRITE,
        "Its terminal has another size",
        calls.NoContent,
        calls.ExecSize,
    ),
    Route(
        "exec.delete",
        "DELETE /v1/jobs/{job}/tasks/{task}/exec/{session}",
        _WRITE,
        "End it, if it has not ended",
        calls.NoContent,
    ),
    Route("schedules.list", "GET /v1/schedules", _READ, "All schedules", views.SchedulesView),
    Route(
        "schedules.start",
        "POST /v1/schedules",
        _WRITE,
        "Start a batch of jobs or a cron rule",
        views.ScheduleView,
        calls.ScheduleSubmission,
    ),
    Route("schedules.show", "GET /v1/schedules/{schedule}", _READ, "One schedule", views.ScheduleView),
    Route(
        "schedules.stop", "POST /v1/schedules/{schedule}/stop", _WRITE, "Start nothing more of it", views.ScheduleView
    ),
    Route("nodes.list", "GET /v1/nodes", _READ, "All nodes", views.NodesView),
    Route("nodes.show", "GET /v1/nodes/{node}", _READ, "One node", views.NodeView),
    Route(
        "nodes.wait",
        "GET /v1/nodes/{node}/wait",
        _READ,
        "Answers when the node has changed, or time is up",
        views.NodeWaited,
        query=_NODE_WAIT,
    ),
    Route(
        "nodes.cordon",
        "POST /v1/nodes/{node}/cordon",
        _RULE,
        "Nothing new is placed there",
        views.NodeAsked,
        calls.NoContent,
    ),
    Route(
        "nodes.uncordon",
        "POST /v1/nodes/{node}/uncordon",
        _RULE,
        "It takes tasks again, also after a drain",
        views.NodeAsked,
        calls.NoContent,
    ),
    Route(
        "nodes.drain",
        "POST /v1/nodes/{node}/drain",
        _RULE,
        "Nothing new; at the deadline its tasks go elsewhere",
        views.NodeAsked,
        calls.Drain,
    ),
    Route(
        "nodes.remove",
        "POST /v1/nodes/{node}/remove",
        _RULE,
        "It leaves the cluster",
        views.NodeAsked,
        calls.NodeRemoval,
    ),
    Route(
        "joins.token",
        "POST /v1/join-tokens",
        _RULE,
        "A token with which machines join",
        views.JoinTokenView,
        calls.JoinTokenWish,
    ),
    Route("joins.terms", "GET /v1/join-terms", _RULE, "What a token would say, but for its secret", views.JoinTerms),
    Route(
        "joins.check",
        "POST /v1/join-terms",
        _RULE,
        "Whether a machine could join, and what it must be able to reach; without a token",
        views.JoinedView,
        calls.JoinQuestion,
    ),
    Route(
        "joins.join",
        "POST /v1/join",
        _RULE,
        "A machine with a token becomes a node, or asks whether it could",
        views.JoinedView,
        calls.Join,
        access=Access.GUEST,
    ),
    Route(
        "joins.show",
        "GET /v1/join/{node}",
        _RULE,
        "A node asks for itself: answers when it has changed, or time is up",
        views.NodeWaited,
        calls.NodeProof,
        query=_NODE_WAIT,
        access=Access.GUEST,
    ),
    Route(
        "joins.reach",
        "GET /v1/join/{node}/reach",
        _RULE,
        "A node asks whether the master reaches its API",
        views.NodeReached,
        calls.NodeProof,
        access=Access.GUEST,
    ),
    Route(
        "joins.leave",
        "DELETE /v1/join/{node}",
        _RULE,
        "A node leaves by itself",
        views.NodeWaited,
        calls.NodeProof,
        query=_NODE_WAIT,
        access=Access.GUEST,
    ),
    Route(
        "events.list",
        "GET /v1/events",
        _READ,
        "What happened and who did it, oldest first",
        views.EventPiece,
        query=_EVENT_QUERY,
        stream=True,
    ),
    Route("status.show", "GET /v1/status", _READ, "The cluster at a glance, and who is asking", views.StatusView),
)
