"""The node's internal REST interface, called by the master. A request without the node's token is refused.

    GET    /v1/status                                        the state of this machine and its shepherd
    DELETE /v1/users/<user>                                  end what this Grass user has open here, of both kinds below
    POST   /v1/image {"image", "programs"}                   which of these programs an image of the engine has on its
                                                             PATH: {"programs": [name] | null}; null: not known

A command beside a running attempt, with its folder and environment, or in its container (``sessions.py``):

    POST   /v1/exec {"key", "argv", "user", "tty", "rows", "cols"}   start it: {"id"}
    GET    /v1/exec/<id>/output?after=BYTES                  wait up to 20 s for more:
                                                             {"chunks": [[stream, base64]], "next", "code"}
    POST   /v1/exec/<id>/input {"data": base64, "end": bool} {"taken": bytes}; send the rest again
    POST   /v1/exec/<id>/resize {"rows", "cols"}             resize its terminal
    DELETE /v1/exec/<id>                                     end it; 60 s without a GET end it, too

``code`` is null until the command has ended and ``chunks`` is the last of its output. ``after``: bytes of output that
the caller has: ``next`` of the previous reply. With ``tty``, all output is ``stdout``.

Tasks use ``/v1/tasks/exec``, with their own tokens (``task_exec.py``).
Connections to a port of an attempt: ``forward_routes``.

Errors are ``{"error": {"code", "message"}}`` with the status of their class in ``grass.errors``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from flask import Flask, request
from werkzeug.exceptions import HTTPException

from grass import __version__, clock
from grass.config import ClusterConfig
from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.frameworks.programs import KNOWN
from grass.model.key_text import is_attempt_key
from grass.serving.worker import PEER, PEER_SINCE
from grass.tls_files import MASTER, identity
from node.api.forward_routes import add_forwards
from node.api.forwards import Forwards
from node.api.sessions import ABANDONED, Sessions
from node.api.task_exec import PREFIX, add_task_exec, byte_offset, input_of
from node.membership.revoked_nodes import Revoked
from node.runtime.process.client import ask
from node.runtime.registry import execute, programs

MOST_BODY = 1 << 16
"""Bytes of a request; input of a command comes in smaller pieces."""


def create_app(config: ClusterConfig, token: str, *, abandoned: float = ABANDONED) -> Flask:
    """Make the application. ``token``: the node's. Raises InputError without one."""
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
        if request.path.startswith(PREFIX):
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

    sessions, forwards = Sessions(abandoned), Forwards(abandoned)
    _add_exec(app, config, sessions)
    add_task_exec(app, config)
    add_forwards(app, config, forwards)

    _add_image(app, config)

    @app.delete("/v1/users/<user>")
    def end_user(user: str) -> dict[str, object]:
        forwards.close_of(user)
        sessions.close_of(user)
        return {}

    return app


def _add_image(app: Flask, config: ClusterConfig) -> None:
    @app.post("/v1/image")
    def image() -> dict[str, object]:
        match request.get_json():
            case {"image": str(name), "programs": [*wanted]} if all(each in KNOWN for each in wanted):
                return {"programs": programs(config, name, wanted)}
        raise InputError('the body must be {"image": string, "programs": [name, …]}')


def _add_exec(app: Flask, config: ClusterConfig, sessions: Sessions) -> None:
    @app.post("/v1/exec")
    def open_session() -> dict[str, str]:
        match request.get_json():
            case {"key": str(key), "argv": [str(), *_] as argv, **rest} if is_attempt_key(key) and all(
                isinstance(each, str) and "\0" not in each for each in argv
            ):
                size = _size(rest) if rest.get("tty") else None
                return {"id": sessions.open(execute(config, key, argv, size), user=str(rest.get("user", "")))}
        raise InputError(
            'the body must be {"key": attempt key, "argv": [string, …], "user", "tty": bool, "rows", "cols"}'
        )

    @app.get("/v1/exec/<name>/output")
    def output(name: str) -> dict[str, object]:
        return sessions.get(name).output(byte_offset())

    @app.post("/v1/exec/<name>/input")
    def give_input(name: str) -> dict[str, int]:
        return {"taken": sessions.get(name).input(*input_of(request.get_json()))}

    @app.post("/v1/exec/<name>/resize")
    def resize(name: str) -> dict[str, object]:
        body = request.get_json()
        sessions.get(name).resize(*_size(body if isinstance(body, dict) else {}))
        return {}

    @app.delete("/v1/exec/<name>")
    def close(name: str) -> dict[str, object]:
        sessions.close(name)
        return {}


def _size(body: Mapping[Any, Any]) -> tuple[int, int]:
    """Rows and columns."""
    rows, columns = body.get("rows", 24), body.get("cols", 80)
    if not (isinstance(rows, int) and isinstance(columns, int) and 0 < rows < 10_000 and 0 < columns < 10_000):
        raise InputError("rows, cols: must be numbers from 1 to 9999")
    return rows, columns


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
    return {"error": {"code": "bad-request", "message": error.description or error.name}}, error.code or 500
