"""The node's internal REST interface, called by the master. A request without the node's token is refused.

    GET    /v1/status                                        the state of this machine and its shepherd
    DELETE /v1/users/<user>                                  end what this Grass user has open here
    POST   /v1/image {"image", "programs"}                   which of these programs an image of the engine has on its
                                                             PATH: {"programs": [name] | null}; null: not known

What the master opens for users: ``exec_routes`` (commands beside attempts), ``forward_routes`` (ports of attempts). Its
routes name the user, the job and the task, and find only what was opened for them. Tasks use ``/v1/tasks/exec``, with
their own tokens (``task_exec``).

Errors are ``{"error": {"code", "message"}}`` with the status of their class in ``grass.errors``.
"""

from __future__ import annotations

import hmac

from flask import Flask, request
from werkzeug.exceptions import HTTPException

from grass import __version__, clock
from grass.config import ClusterConfig
from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from grass.frameworks.programs import KNOWN
from grass.serving.worker import PEER, PEER_SINCE
from grass.tls_files import MASTER, identity
from grass.wire.membership_api import MOST_BODY
from node.api import task_exec
from node.api.exec_routes import add_exec
from node.api.forward_routes import add_forwards
from node.api.sessions import ABANDONED
from node.membership.revoked_nodes import Revoked
from node.runtime.process.client import ask
from node.runtime.registry import programs


def create_app(
    config: ClusterConfig, token: str, *, abandoned: float = ABANDONED, of_tasks: float = task_exec.ABANDONED
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

    @app.get("/v1/status")
    def status() -> dict[str, object]:
        return _status(config)

    opened = (add_exec(app, config, abandoned), add_forwards(app, config, abandoned))
    task_exec.add_task_exec(app, config, of_tasks)
    _add_image(app, config)

    @app.delete("/v1/users/<user>")
    def end_user(user: str) -> dict[str, object]:
        for each in opened:
            each.cancel(lambda owner: owner.user == user)
        return {}

    return app


def _add_image(app: Flask, config: ClusterConfig) -> None:
    @app.post("/v1/image")
    def image() -> dict[str, object]:
        match request.get_json():
            case {"image": str(name), "programs": [*wanted]} if all(each in KNOWN for each in wanted):
                return {"programs": programs(config, name, wanted)}
        raise InputError('the body must be {"image": string, "programs": [name, …]}')


def _status(config: ClusterConfig) -> dict[str, object]:
    body: dict[str, object] = {
        "node": config.node.name,
        "version": __version__,
        "boot_id": clock.boot_id(),
        "steady": clock.steady(),
    }
    try:
        known = ask(config.socket("shepherd"), "list")
    except UnreachableError as error:
        return {**body, "shepherd": str(error), "running": None, "ended": None}
    running = sum(attempt.ended is None for attempt in known)
    return {**body, "shepherd": "ok", "running": running, "ended": len(known) - running}


def _refusal(error: GrassError) -> tuple[dict[str, object], int]:
    return {"error": {"code": error.code, "message": str(error)}}, error.http_status


def _http_refusal(error: HTTPException) -> tuple[dict[str, object], int]:
    kind = NotFoundError if error.code == NotFoundError.http_status else InputError
    return {"error": {"code": kind.code, "message": error.description or error.name}}, error.code or 500
