"""The routes of what is not about one job: sessions, nodes, images, users, events, usage, the cluster.

Used by ``routes``.
"""

from __future__ import annotations

from grass.wire import (
    calls,
    change_views,
    checks,
    event_views,
    image_views,
    join_views,
    node_views,
    status_views,
    usage_views,
    user_views,
    views,
)
from grass.wire.waits import LONGEST_WAIT
from master.api.route import READ, RULE, WRITE, Access, Parameter, Route

MOST_EVENTS = 10_000
"""Most events in one answer."""
_TIMEOUT = Parameter("number", "Seconds", default=LONGEST_WAIT, minimum=0, maximum=LONGEST_WAIT)
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

CLUSTER_ROUTES: tuple[Route, ...] = (
    Route(
        "session.open",
        "POST /v1/session",
        READ,
        "Open a session; all other calls of a user are encrypted with its key",
        views.SessionView,
        calls.SessionRequest,
        access=Access.SIGNED,
    ),
    Route("nodes.list", "GET /v1/nodes", READ, "List nodes", node_views.NodesView),
    Route("nodes.show", "GET /v1/nodes/{node}", READ, "Show one node", node_views.NodeView),
    Route(
        "nodes.wait",
        "GET /v1/nodes/{node}/wait",
        READ,
        "Wait until the node has changed, or time is up",
        node_views.NodeWaited,
        query=_NODE_WAIT,
    ),
    Route(
        "nodes.cordon",
        "POST /v1/nodes/{node}/cordon",
        RULE,
        "Place no new tasks on the node",
        node_views.NodeAccepted,
        calls.NoContent,
    ),
    Route(
        "nodes.uncordon",
        "POST /v1/nodes/{node}/uncordon",
        RULE,
        "Let the node accept tasks again, also after a drain",
        node_views.NodeAccepted,
        calls.NoContent,
    ),
    Route(
        "checks.begin",
        "POST /v1/node-checks",
        RULE,
        "Begin a check of nodes: start the job that holds them while the caller measures",
        checks.CheckBegun,
        calls.NodeCheckRequest,
        takes_id=True,
    ),
    Route(
        "checks.finish",
        "POST /v1/node-checks/{job}/result",
        RULE,
        "End a check with what was measured, and get the verdicts; bad nodes and devices get no new tasks",
        checks.CheckedView,
        calls.NodeCheckResult,
    ),
    Route(
        "checks.list", "GET /v1/nodes/{node}/checks", READ, "List checks of a node, newest first", checks.NodeChecksView
    ),
    Route(
        "checks.release",
        "POST /v1/nodes/{node}/release",
        RULE,
        "End the quarantine of a node and its devices that a check began",
        node_views.NodeAccepted,
        calls.NoContent,
    ),
    Route(
        "nodes.drain",
        "POST /v1/nodes/{node}/drain",
        RULE,
        "Empty the node: no new tasks; at the deadline its tasks are placed elsewhere",
        node_views.NodeAccepted,
        calls.Drain,
    ),
    Route(
        "nodes.remove",
        "POST /v1/nodes/{node}/remove",
        RULE,
        "Remove the node from the cluster",
        node_views.NodeAccepted,
        calls.NodeRemoval,
    ),
    Route(
        "joins.token",
        "POST /v1/join-tokens",
        RULE,
        "Make a token with which machines join",
        join_views.JoinTokenView,
        calls.JoinTokenRequest,
    ),
    Route(
        "joins.tokens",
        "GET /v1/join-tokens",
        RULE,
        "List join tokens, without their secrets",
        join_views.JoinTokensView,
    ),
    Route(
        "joins.revoke",
        "DELETE /v1/join-tokens/{token}",
        RULE,
        "Revoke a join token, by its id; nodes that joined with it stay",
        join_views.JoinTokenRow,
    ),
    Route(
        "joins.terms",
        "GET /v1/join-terms",
        RULE,
        "Show what a join token would contain, without its secret",
        join_views.JoinTerms,
    ),
    Route(
        "joins.check",
        "POST /v1/join-terms",
        RULE,
        "Check whether a machine could join, and what it must be able to reach; needs no token",
        join_views.JoinedView,
        calls.JoinQuestion,
    ),
    Route(
        "joins.join",
        "POST /v1/join",
        RULE,
        "Join: make a machine with a token a node, or check whether it could be one",
        join_views.JoinedView,
        calls.Join,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.show",
        "GET /v1/join/{node}",
        RULE,
        "Called by a node: wait until it has changed, or time is up",
        node_views.NodeWaited,
        calls.NodeProof,
        query=_NODE_WAIT,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.reach",
        "GET /v1/join/{node}/reach",
        RULE,
        "Called by a node: whether the master reaches its API",
        node_views.NodeReached,
        calls.NodeProof,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.certificate",
        "POST /v1/join/{node}/certificate",
        RULE,
        "Called by a node: get a certificate for a key that it made",
        join_views.CertificateView,
        calls.CertificateRequest,
        access=Access.UNSIGNED,
    ),
    Route(
        "joins.leave",
        "DELETE /v1/join/{node}",
        RULE,
        "Called by a node: leave the cluster",
        node_views.NodeWaited,
        calls.NodeProof,
        query=_NODE_WAIT,
        access=Access.UNSIGNED,
    ),
    Route(
        "images.sign",
        "POST /v1/images",
        WRITE,
        "Sign off an image that was pushed: nodes load it with this digest only",
        image_views.ImageView,
        calls.ImageSignOff,
    ),
    Route(
        "images.forget",
        "POST /v1/images/forget",
        WRITE,
        "Forget the digest of a removed image",
        image_views.ImageView,
        calls.ImageName,
    ),
    Route("users.list", "GET /v1/users", RULE, "List users", user_views.UsersView),
    Route(
        "users.add",
        "POST /v1/users",
        RULE,
        "Add a user, and make the invitation with which they log in",
        user_views.UserInvitation,
        calls.UserRequest,
    ),
    Route(
        "users.role",
        "POST /v1/users/{user}/role",
        RULE,
        "Change what a user may do",
        user_views.UserView,
        calls.UserRole,
    ),
    Route(
        "users.disable",
        "POST /v1/users/{user}/disable",
        RULE,
        "Refuse all calls of a user; on request, stop their jobs and schedules",
        user_views.UserView,
        calls.UserEnd,
    ),
    Route(
        "users.enable",
        "POST /v1/users/{user}/enable",
        RULE,
        "Accept calls of a disabled user again",
        user_views.UserView,
        calls.NoContent,
    ),
    Route(
        "users.rotate",
        "POST /v1/users/{user}/rotate",
        RULE,
        "Make an invitation with which a user replaces their key; the old key is valid until then",
        user_views.UserInvitation,
        calls.UserRotation,
    ),
    Route(
        "users.remove",
        "POST /v1/users/{user}/remove",
        RULE,
        "Remove a user; on request, stop their jobs and schedules",
        user_views.UserView,
        calls.UserEnd,
    ),
    Route("users.key", "POST /v1/own-key", READ, "Replace the caller's own key", user_views.OwnKeyView, calls.UserKey),
    Route(
        "users.login",
        "POST /v1/login",
        READ,
        "Use an invitation: register the key that was made on the user's machine",
        user_views.OwnKeyView,
        calls.Login,
        access=Access.UNSIGNED,
    ),
    Route(
        "events.list",
        "GET /v1/events",
        READ,
        "List events: what happened and who did it, oldest first",
        event_views.EventPiece,
        query=_EVENT_QUERY,
        stream=True,
    ),
    Route(
        "daemons.logs",
        "GET /v1/daemon-logs",
        RULE,
        "Stream what the daemons of master and nodes logged, in the order of arrival",
        event_views.DaemonLogPiece,
        query=_DAEMON_LOGS,
        stream=True,
    ),
    Route(
        "shares.show", "GET /v1/shares", READ, "Show who has how much, and who is served next", user_views.SharesView
    ),
    Route(
        "changes.follow",
        "GET /v1/changes",
        READ,
        "Follow the cluster, or one job with its tasks: a snapshot, then what changes",
        change_views.ChangePiece,
        query=_CHANGE_QUERY,
        stream=True,
    ),
    Route(
        "usage.cluster",
        "GET /v1/usage",
        READ,
        "Show capacity against use of the cluster over time",
        usage_views.ClusterUsageView,
        query=_CURVES,
    ),
    Route(
        "usage.node",
        "GET /v1/nodes/{node}/usage",
        READ,
        "Show what a node uses, now and over time",
        usage_views.NodeUsageView,
        query=_CURVES,
    ),
    Route(
        "usage.job",
        "GET /v1/jobs/{job}/usage",
        READ,
        "Show what a job and its tasks used",
        usage_views.JobUsageView,
        query={"first": _FIRST_USERS, **_CURVES},
    ),
    Route(
        "usage.task",
        "GET /v1/jobs/{job}/tasks/{task}/usage",
        READ,
        "Show what a task uses, now and over time",
        usage_views.TaskUsageView,
        query=_CURVES,
    ),
    Route(
        "usage.metrics",
        "GET /v1/jobs/{job}/metrics",
        READ,
        "Show the figures that tasks of a job reported of themselves, as curves",
        usage_views.JobMetricsView,
    ),
    Route(
        "status.show", "GET /v1/status", READ, "Summarise the cluster, and show who is calling", status_views.StatusView
    ),
)
