"""The table of all API routes. ``registry`` makes blueprints from it, ``openapi`` the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import msgspec

from grass.api.keyring import Role
from grass.wire import calls, usage_views, views

LONGEST_WAIT = 25.0
"""Seconds that one request waits, at most. The client then asks again."""
MOST_EVENTS = 10_000
MOST_JOBS = 1000
"""In one page of a list."""

_RANK = {Role.VIEWER: 0, Role.USER: 1, Role.ADMIN: 2}


class Access(str, Enum):
    """How a request must be authenticated."""

    SESSION = "session"
    """Encrypted with the key of a session that a user has opened."""
    SIGNED = "signed"
    """Signed by a user. Only for opening a session."""
    UNSIGNED = "unsigned"
    """Encrypted but not signed, of an unauthenticated client. The handler must check a secret in the body."""


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
    """``operation``: noun and name. ``role``: the lowest role that may call it.

    ``request`` and ``response``: types of ``grass.wire``. ``stream``: the reply is a sequence of encrypted objects, one
    per line, the last one marked.
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
    """Whether the handler stores the request id in the same step as its change, which saves one write."""
    access: Access = Access.SESSION

    @property
    def reads(self) -> bool:
        """Whether the call changes nothing."""
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
        """Whether a user with this role may call it."""
        return _RANK[role] >= _RANK[self.role]


_READ, _WRITE, _RULE = Role.VIEWER, Role.USER, Role.ADMIN

_ALL = Parameter("boolean", "Include finished jobs", default=False)
_JOB_LIST = {
    "all": _ALL,
    "limit": Parameter("integer", "Most jobs of the page", 100, minimum=0, maximum=MOST_JOBS),
    "before": Parameter("string", "Only jobs submitted before the job with this id"),
    "state": Parameter("string", "Only jobs in these states, separated by commas"),
    "user": Parameter("string", "Only jobs of this user"),
    "name": Parameter("string", "Only jobs whose name matches this pattern, such as train-*"),
    "tag": Parameter("string", "Only jobs with this tag: NAME or NAME=VALUE; several, separated by newlines"),
    "since": Parameter("number", "Only jobs submitted after this time, in seconds since the epoch"),
    "begun_first": Parameter("boolean", "Choose running jobs before the newest waiting or finished jobs", False),
}
_COMPONENT = Parameter("string", "Only tasks of this component")
_FIRST = Parameter(
    "integer", "This many, those that need attention first; default: all, in the order of the job", minimum=0
)
_TIMEOUT = Parameter("number", "Seconds", default=LONGEST_WAIT, minimum=0, maximum=LONGEST_WAIT)
_JOB_WAIT = {
    "timeout": Parameter(
        "number", "Seconds after which the stream ends even if the job has not ended", 3600.0, minimum=0, maximum=3600
    ),
    "progress": Parameter("boolean", "Also send an object whenever tasks change", default=False),
}
_NODE_WAIT = {
    "timeout": _TIMEOUT,
    "seen": Parameter("string", "The `mark` of the last answer: answer when the node has changed since"),
}
_EVENT_QUERY = {
    "after": Parameter("string", "Only events after this id; default: the newest `limit` events"),
    "before": Parameter("string", "Only the newest `limit` events before this id"),
    "limit": Parameter("integer", "How many of the newest events to begin with", 1000, minimum=0, maximum=MOST_EVENTS),
    "job": Parameter("string", "Only events of this job, by name or id"),
    "node": Parameter("string", "Only events of this node"),
    "user": Parameter("string", "Only what this user did"),
    "kind": Parameter("string", "Only these kinds, separated by commas; `task-*` for all that begin so"),
    "since": Parameter("number", "Only events after this time, in seconds since the epoch", minimum=0),
    "text": Parameter("string", "Only events with each of these words in the message, the kind or a name"),
    "follow": Parameter("boolean", "Continue with new events as they happen", default=False),
}

_DAEMON_LOGS = {
    "after": Parameter("string", "Only entries after this position; default: the newest `limit` entries"),
    "limit": Parameter("integer", "How many of the newest entries to begin with", 1000, minimum=0, maximum=MOST_EVENTS),
    "daemon": Parameter("string", "Only of this daemon, such as node-agent"),
    "node": Parameter("string", "Only of daemons of this node"),
    "since": Parameter("number", "Only entries after this time, in seconds since the epoch", minimum=0),
    "follow": Parameter("boolean", "Continue with new entries as they arrive", default=False),
}

_CHANGE_QUERY = {
    "after": Parameter("string", "The `cursor` of the last piece; default: begin with a snapshot"),
    "job": Parameter("string", "Watch this job and its tasks instead of the cluster, by name or id"),
}

_CURVES = {
    "step": Parameter(
        "number", "Seconds between points: the coarsest of 2, 60 and 900 that is not above it", 2.0, minimum=0
    ),
    "since": Parameter(
        "number", "First time, in seconds since the epoch; default: 450 points before the last", minimum=0
    ),
    "until": Parameter("number", "Last time, in seconds since the epoch; default: now", minimum=0),
}
_FIRST_USERS = Parameter("integer", "Only this many tasks, those that used most cpu first; default: all", minimum=0)

ROUTES: tuple[Route, ...] = (
    Route(
        "session.open",
        "POST /v1/session",
        _READ,
        "Open a session; all other calls of a user are encrypted with its key",
        views.SessionView,
        calls.SessionRequest,
        access=Access.SIGNED,
    ),
    Route("jobs.list", "GET /v1/jobs", _READ, "List a page of jobs, oldest first", views.JobsView, query=_JOB_LIST),
    Route(
        "jobs.start",
        "POST /v1/jobs",
        _WRITE,
        "Start a job; it is stored when the call answers",
        views.StartedView,
        calls.Submission,
        takes_id=True,
    ),
    Route(
        "jobs.plan",
        "POST /v1/plan",
        _READ,
        "Show where a job would go if it were started now; changes nothing",
        views.PlanView,
        calls.Preview,
    ),
    Route(
        "jobs.show",
        "GET /v1/jobs/{job}",
        _READ,
        "Show one job, by name (its latest run) or id",
        views.JobView,
        query={"specification": Parameter("boolean", "Include what its file said", default=False)},
    ),
    Route("jobs.delete", "DELETE /v1/jobs/{job}", _WRITE, "Delete a finished job with its logs", views.JobView),
    Route(
        "jobs.tasks",
        "GET /v1/jobs/{job}/tasks",
        _READ,
        "List the tasks of a job",
        views.TasksView,
        query={"component": _COMPONENT, "first": _FIRST},
    ),
    Route(
        "jobs.attempts",
        "GET /v1/jobs/{job}/attempts",
        _READ,
        "List the attempts of a job's tasks, or of one task: the newest, and up to 20 earlier ones of each",
        views.AttemptsView,
        query={"task": Parameter("string", "Only attempts of this task, such as worker.3")},
    ),
    Route("jobs.why", "GET /v1/jobs/{job}/why", _READ, "Explain why a job or parts of it do not run", views.WhyView),
    Route(
        "jobs.wait",
        "GET /v1/jobs/{job}/wait",
        _READ,
        "Wait for a job: its state now, and again when it has ended",
        views.WaitedView,
        query=_JOB_WAIT,
        stream=True,
    ),
    Route(
        "jobs.logs",
        "POST /v1/jobs/{job}/logs",
        _READ,
        "Stream what the tasks of a job printed",
        views.LogPiece,
        calls.LogQuery,
        stream=True,
    ),
    Route(
        "jobs.stop",
        "POST /v1/jobs/{job}/stop",
        _WRITE,
        "Stop a job, or some of its tasks; no effect on a finished job",
        views.JobView,
        calls.Stop,
    ),
    Route(
        "jobs.rerun",
        "POST /v1/jobs/{job}/rerun",
        _WRITE,
        "Start a finished job again, or only the tasks of it that did not succeed",
        views.StartedView,
        calls.Rerun,
        takes_id=True,
    ),
    Route(
        "jobs.hold",
        "POST /v1/jobs/{job}/hold",
        _WRITE,
        "Start nothing of a queued job until it is released",
        views.JobView,
        calls.NoContent,
    ),
    Route(
        "jobs.release",
        "POST /v1/jobs/{job}/release",
        _WRITE,
        "Let a held job start",
        views.JobView,
        calls.NoContent,
    ),
    Route(
        "jobs.set",
        "POST /v1/jobs/{job}/set",
        _WRITE,
        "Change the priority of a queued job",
        views.JobView,
        calls.JobChange,
    ),
    Route(
        "operations.list",
        "GET /v1/jobs/{job}/operations",
        _READ,
        "List the operations on a job: what goes on or waits, and the newest that have ended",
        views.OperationsView,
    ),
    Route(
        "operations.file",
        "POST /v1/jobs/{job}/operations",
        _WRITE,
        "Change an active job: scale, suspend, resume, restart it, or replace a task",
        views.OperationView,
        calls.OperationRequest,
    ),
    Route(
        "operations.wait",
        "GET /v1/jobs/{job}/operations/{operation}",
        _READ,
        "Show one operation; wait until it has ended, or time is up",
        views.OperationWaited,
        query={"timeout": Parameter("number", "Seconds", default=0.0, minimum=0, maximum=LONGEST_WAIT)},
    ),
    Route(
        "operations.cancel",
        "DELETE /v1/jobs/{job}/operations/{operation}",
        _WRITE,
        "Cancel an operation that waits, or a scale-out whose new tasks are no members yet",
        views.OperationView,
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
        "Wait for more output of the command; the exit code at its end",
        views.ExecOutput,
        query={"after": Parameter("integer", "Bytes of output that the client has already", 0, minimum=0)},
    ),
    Route(
        "exec.input",
        "POST /v1/jobs/{job}/tasks/{task}/exec/{session}/input",
        _WRITE,
        "Write to the command's standard input",
        views.ExecAccepted,
        calls.ExecInput,
    ),
    Route(
        "exec.resize",
        "POST /v1/jobs/{job}/tasks/{task}/exec/{session}/resize",
        _WRITE,
        "Change the size of the command's terminal",
        calls.NoContent,
        calls.ExecSize,
    ),
    Route(
        "exec.delete",
        "DELETE /v1/jobs/{job}/tasks/{task}/exec/{session}",
        _WRITE,
        "End the command if it still runs",
        calls.NoContent,
    ),
    Route(
        "forward.start",
        "POST /v1/jobs/{job}/forward",
        _WRITE,
        "Prepare connections to a port of a running task, such as that of its web page",
        views.ForwardStarted,
        calls.Forward,
    ),
    Route(
        "forward.output",
        "GET /v1/jobs/{job}/forward/{forward}/output",
        _WRITE,
        "Wait for what the task sends on the connections",
        views.ForwardOutput,
        query={"after": Parameter("integer", "Chunks that the client has already", 0, minimum=0)},
    ),
    Route(
        "forward.input",
        "POST /v1/jobs/{job}/forward/{forward}/input",
        _WRITE,
        "Send data on a connection; its first data opens it",
        views.ForwardAccepted,
        calls.ForwardInput,
    ),
    Route(
        "forward.close",
        "DELETE /v1/jobs/{job}/forward/{forward}/connections/{connection}",
        _WRITE,
        "Close one connection",
        calls.NoContent,
    ),
    Route(
        "forward.delete",
        "DELETE /v1/jobs/{job}/forward/{forward}",
        _WRITE,
        "End the forward with all its connections",
        calls.NoContent,
    ),
    Route("schedules.list", "GET /v1/schedules", _READ, "List schedules", views.SchedulesView),
    Route(
        "schedules.start",
        "POST /v1/schedules",
        _WRITE,
        "Start a batch of jobs or a cron rule",
        views.ScheduleView,
        calls.ScheduleSubmission,
    ),
    Route("schedules.show", "GET /v1/schedules/{schedule}", _READ, "Show one schedule", views.ScheduleView),
    Route(
        "schedules.stop",
        "POST /v1/schedules/{schedule}/stop",
        _WRITE,
        "Stop a schedule: it starts no more jobs",
        views.ScheduleView,
    ),
    Route(
        "schedules.pause",
        "POST /v1/schedules/{schedule}/pause",
        _WRITE,
        "Let a cron rule start nothing until it is resumed",
        views.ScheduleView,
        calls.ScheduleRequest,
    ),
    Route(
        "schedules.resume",
        "POST /v1/schedules/{schedule}/resume",
        _WRITE,
        "Let a paused cron rule go on; times that passed meanwhile are left out",
        views.ScheduleView,
        calls.ScheduleRequest,
    ),
    Route(
        "schedules.run",
        "POST /v1/schedules/{schedule}/run",
        _WRITE,
        "Start the job of a cron rule now, or the jobs of a finished batch again",
        views.ScheduleView,
        calls.ScheduleRequest,
    ),
    Route(
        "schedules.delete",
        "DELETE /v1/schedules/{schedule}",
        _WRITE,
        "Remove a schedule that is no active batch; its jobs stay",
        views.ScheduleView,
    ),
    Route("nodes.list", "GET /v1/nodes", _READ, "List nodes", views.NodesView),
    Route("nodes.show", "GET /v1/nodes/{node}", _READ, "Show one node", views.NodeView),
    Route(
        "nodes.wait",
        "GET /v1/nodes/{node}/wait",
        _READ,
        "Wait until the node has changed, or time is up",
        views.NodeWaited,
        query=_NODE_WAIT,
    ),
    Route(
        "nodes.cordon",
        "POST /v1/nodes/{node}/cordon",
        _RULE,
        "Place no new tasks on the node",
        views.NodeAccepted,
        calls.NoContent,
    ),
    Route(
        "nodes.uncordon",
        "POST /v1/nodes/{node}/uncordon",
        _RULE,
        "Let the node accept tasks again, also after a drain",
        views.NodeAccepted,
        calls.NoContent,
    ),
    Route(
        "nodes.drain",
        "POST /v1/nodes/{node}/drain",
        _RULE,
        "Empty the node: no new tasks; at the deadline its tasks are placed elsewhere",
        views.NodeAccepted,
        calls.Drain,
    ),
    Route(
        "nodes.remove",
        "POST /v1/nodes/{node}/remove",
        _RULE,
        "Remove the node from the cluster",
        views.NodeAccepted,
        calls.NodeRemoval,
    ),
    Route(
        "joins.token",
        "POST /v1/join-tokens",
        _RULE,
        "Make a token with which machines join",
        views.JoinTokenView,
        calls.JoinTokenRequest,
    ),
    Route(
        "joins.tokens", "GET /v1/join-tokens", _RULE, "List join tokens, without their secrets", views.JoinTokensView
    ),
    Route(
        "joins.revoke",
        "DELETE /v1/join-tokens/{token}",
        _RULE,
        "Revoke a join token, by its id; nodes that joined with it stay",
        views.JoinTokenRow,
    ),
    Route(
        "joins.terms",
        "GET /v1/join-terms",
        _RULE,
        "Show what a join token would contain, without its secret",
        views.JoinTerms,
    ),
    Route(
        "joins.check",
        "POST /v1/join-terms",
        _RULE,
        "Check whether a machine could join, and what it must be able to reach; needs no token",
        views.JoinedView,
        calls.JoinQuestion,
    ),
    Route(
        "joins.join",
        "POST /v1/join",
        _RULE,
        "Join: make a machine with a token a node, or check whether it could be one",
        views.JoinedView,
        calls.Join,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.show",
        "GET /v1/join/{node}",
        _RULE,
        "Called by a node: wait until it has changed, or time is up",
        views.NodeWaited,
        calls.NodeProof,
        query=_NODE_WAIT,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.reach",
        "GET /v1/join/{node}/reach",
        _RULE,
        "Called by a node: whether the master reaches its API",
        views.NodeReached,
        calls.NodeProof,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.certificate",
        "POST /v1/join/{node}/certificate",
        _RULE,
        "Called by a node: get a certificate for a key that it made",
        views.CertificateView,
        calls.CertificateRequest,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.leave",
        "DELETE /v1/join/{node}",
        _RULE,
        "Called by a node: leave the cluster",
        views.NodeWaited,
        calls.NodeProof,
        query=_NODE_WAIT,
        access=Access.UNSIGNED,
    ),
    Route(
        "images.sign",
        "POST /v1/images",
        _WRITE,
        "Sign off an image that was pushed: nodes load it with this digest only",
        views.ImageView,
        calls.ImageSignOff,
    ),
    Route(
        "images.forget",
        "POST /v1/images/forget",
        _WRITE,
        "Forget the digest of a removed image",
        views.ImageView,
        calls.ImageName,
    ),
    Route("users.list", "GET /v1/users", _RULE, "List users", views.UsersView),
    Route(
        "users.add",
        "POST /v1/users",
        _RULE,
        "Add a user, and make the invitation with which they log in",
        views.UserInvitation,
        calls.UserRequest,
    ),
    Route(
        "users.role",
        "POST /v1/users/{user}/role",
        _RULE,
        "Change what a user may do",
        views.UserView,
        calls.UserRole,
    ),
    Route(
        "users.disable",
        "POST /v1/users/{user}/disable",
        _RULE,
        "Refuse all calls of a user; on request, stop their jobs and schedules",
        views.UserView,
        calls.UserEnd,
    ),
    Route(
        "users.enable",
        "POST /v1/users/{user}/enable",
        _RULE,
        "Accept calls of a disabled user again",
        views.UserView,
        calls.NoContent,
    ),
    Route(
        "users.rotate",
        "POST /v1/users/{user}/rotate",
        _RULE,
        "Make an invitation with which a user replaces their key; the old key is valid until then",
        views.UserInvitation,
        calls.UserRotation,
    ),
    Route(
        "users.remove",
        "POST /v1/users/{user}/remove",
        _RULE,
        "Remove a user; on request, stop their jobs and schedules",
        views.UserView,
        calls.UserEnd,
    ),
    Route("users.key", "POST /v1/own-key", _READ, "Replace the caller's own key", views.UserView, calls.UserKey),
    Route(
        "users.login",
        "POST /v1/login",
        _READ,
        "Use an invitation: register the key that was made on the user's machine",
        views.UserView,
        calls.Login,
        access=Access.UNSIGNED,
    ),
    Route(
        "events.list",
        "GET /v1/events",
        _READ,
        "List events: what happened and who did it, oldest first",
        views.EventPiece,
        query=_EVENT_QUERY,
        stream=True,
    ),
    Route(
        "daemons.logs",
        "GET /v1/daemon-logs",
        _RULE,
        "Stream what the daemons of master and nodes logged, in the order of arrival",
        views.DaemonLogPiece,
        query=_DAEMON_LOGS,
        stream=True,
    ),
    Route("shares.show", "GET /v1/shares", _READ, "Show who has how much, and who is served next", views.SharesView),
    Route(
        "changes.follow",
        "GET /v1/changes",
        _READ,
        "Follow the cluster, or one job with its tasks: a snapshot, then what changes",
        views.ChangePiece,
        query=_CHANGE_QUERY,
        stream=True,
    ),
    Route(
        "usage.cluster",
        "GET /v1/usage",
        _READ,
        "Show capacity against use of the cluster over time",
        usage_views.ClusterUsageView,
        query=_CURVES,
    ),
    Route(
        "usage.node",
        "GET /v1/nodes/{node}/usage",
        _READ,
        "Show what a node uses, now and over time",
        usage_views.NodeUsageView,
        query=_CURVES,
    ),
    Route(
        "usage.job",
        "GET /v1/jobs/{job}/usage",
        _READ,
        "Show what a job and its tasks used",
        usage_views.JobUsageView,
        query={"first": _FIRST_USERS},
    ),
    Route(
        "usage.task",
        "GET /v1/jobs/{job}/tasks/{task}/usage",
        _READ,
        "Show what a task uses, now and over time",
        usage_views.TaskUsageView,
        query=_CURVES,
    ),
    Route(
        "usage.metrics",
        "GET /v1/jobs/{job}/metrics",
        _READ,
        "Show the figures that tasks of a job reported of themselves, as curves",
        usage_views.JobMetricsView,
    ),
    Route("status.show", "GET /v1/status", _READ, "Summarise the cluster, and show who is calling", views.StatusView),
)
