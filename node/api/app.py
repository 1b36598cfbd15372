"""The node's internal REST interface, called by the master. A request without the node's token is refused.

Its calls are in ``grass.wire.node_api``: the state of this machine, programs of images, and what the master opens for
users (``commands``, ``forward_routes``). Those name the user, the job and the task, and find only what was opened
for them. Tasks use ``/v1/tasks/exec``, with their own tokens (``task_exec``).

A refusal is a ``Refusal``, with the status of its class in ``grass.errors``.
"""

from __future__ import annotations

import hmac
from pathlib import Path

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from grass import __version__
from grass.api.known_master import cluster_key
from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.frameworks.programs import KNOWN
from grass.node_config import NodeHome
from grass.serving.worker import PEER, PEER_SINCE
from grass.system import clock
from grass.tls_files import MASTER, identity
from grass.wire.calls import NoContent
from grass.wire.codec import encode
from grass.wire.membership_api import MOST_BODY, Refusal, RefusedRequest
from grass.wire.node_api import (
    END_USER,
    MASTER_LIVES,
    NEW_MASTER,
    NOTHING,
    PROGRAMS,
    STACKS,
    STATUS,
    VOTE,
    FoundPrograms,
    NodeStatus,
)
from grass.wire.version import PROTOCOL, REVISION
from node.api import task_exec
from node.api.channels import ABANDONED
from node.api.commands import add_exec
from node.api.forward_routes import add_forwards
from node.api.new_master import take as new_master_of
from node.api.routes import add, body
from node.api.stacks import stacks
from node.api.witness import WitnessDesk
from node.membership.revoked_nodes import Revoked
from node.runtime.process.client import ask
from node.runtime.registry import programs
from node.runtime.shepherd_messages import ListAttempts


def create_app(
    config: NodeHome, token: str, *, abandoned: float = ABANDONED, of_tasks: float = task_exec.ABANDONED
) -> Flask:
    """Make the application. ``token``: the node's. Raises InputError without one.

    ``abandoned``, ``of_tasks``: seconds without a poll after which what users and tasks have opened ends."""
    if not token:
        raise InputError("this node has no token; its API does not start, because it would be open to everybody")
    app = Flask("grass-node")
    app.config["MAX_CONTENT_LENGTH"] = MOST_BODY
    expected, removed = f"Bearer {token}".encode(), Revoked(config)

    @app.before_request
    def authorise() -> None:
        peer = request.environ.get(PEER, "")
        if removed.refuses(peer, request.environ.get(PEER_SINCE, 0.0)):
            raise NotAllowedError(
                f"the certificate of {peer} is no longer valid: the node was removed from the cluster"
            )
        if request.path.startswith(task_exec.PREFIX):
            return  # each of these routes checks the task's token
        if config.tls and peer != identity(config.name, MASTER):
            raise NotAllowedError("the certificate is not the master's; only the master may use this part of the API")
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, expected):
            raise NotAllowedError(
                "the node's token is missing or wrong; only the cluster's own programs may use this API"
            )

    app.register_error_handler(GrassError, _refusal)
    app.register_error_handler(HTTPException, _http_refusal)

    opened = (add_exec(app, config, abandoned), add_forwards(app, config, abandoned))
    task_exec.add_task_exec(app, config, of_tasks)

    def end_user(user: str) -> NoContent:
        for each in opened:
            each.cancel(lambda owner: owner.user == user)
        return NOTHING

    add(app, STATUS, lambda: _status(config))
    add(app, STACKS, lambda: stacks(config))
    add(app, PROGRAMS, lambda: _found_programs(config))
    add(app, END_USER, end_user)
    # read once, as the token and the certificates are: what an earlier cluster says reaches no record of the next one
    cluster = cluster_key(config.tls_files)
    desk = WitnessDesk(Path(config.home), clock.steady, cluster)
    add(app, MASTER_LIVES, lambda: desk.hear(body(MASTER_LIVES)))

    def new_master() -> NoContent:
        new_master_of(config, body(NEW_MASTER), cluster)
        return NOTHING

    add(app, NEW_MASTER, new_master)
    add(app, VOTE, lambda: desk.vote(body(VOTE)))
    return app


def _found_programs(config: NodeHome) -> FoundPrograms:
    asked = body(PROGRAMS)
    if not all(each in KNOWN for each in asked.programs):
        raise InputError(f"programs: must be some of {', '.join(KNOWN)}")
    return FoundPrograms(programs(config, asked.image, asked.programs))


def _status(config: NodeHome) -> NodeStatus:
    state, running, ended = "ok", None, None
    try:
        known = ask(config.socket("shepherd"), ListAttempts())
        running = sum(attempt.ended is None for attempt in known)
        ended = len(known) - running
    except UnreachableError as error:
        state = str(error)
    return NodeStatus(
        config.node.name, __version__, clock.boot_id(), clock.steady(), state, running, ended, PROTOCOL, REVISION
    )


def _refusal(error: GrassError) -> Response:
    return _refused(error.code, str(error), error.http_status)


def _http_refusal(error: HTTPException) -> Response:
    kind = NotFoundError if error.code == NotFoundError.http_status else InputError
    return _refused(kind.code, error.description or error.name, error.code or 500)


def _refused(code: str, message: str, status: int) -> Response:
    return Response(encode(Refusal(error=RefusedRequest(code, message))), status, mimetype="application/json")
