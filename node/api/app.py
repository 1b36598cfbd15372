"""The node's internal REST interface. Every request carries the node's token; nobody else gets an answer.

    GET  /v1/status                                     this machine and its shepherd at a glance
    GET  /v1/attempts                                   what the shepherd knows: ``Observed``, as objects
    GET  /v1/logs/<attempt key>?stream=&offset=&limit=  raw bytes of a stream, as they lie on the disk now
    POST /v1/probe {"host", "port"}                     whether this machine can connect there

Errors are ``{"error": {"code", "message"}}`` with the status of their class in ``grass.errors``.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import socket
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from grass import __version__, clock
from grass.config import ClusterConfig
from grass.errors import GrassError, InputError, NotAllowedError, NotFoundError, UnreachableError
from node.runtime.attempts import Folders
from node.runtime.process import ask
from node.runtime.protocol import Observed

STREAMS = ("stdout", "stderr")
MOST_BYTES = 4 << 20
"""Of a stream in one reply; ask again with the next offset."""
_PROBE_SECONDS = 2.0
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_KEY = re.compile(rf"{_NAME}/{_NAME}\.[0-9]+/[1-9][0-9]*")


def create_app(config: ClusterConfig, token: str) -> Flask:
    if not token:
        raise InputError("the node has no token; its API would be open to everybody, so it does not start")
    app = Flask("grass-node")
    app.config["MAX_CONTENT_LENGTH"] = 1 << 16
    expected = f"Bearer {token}".encode()

    @app.before_request
    def authorise() -> None:
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, expected):
            raise NotAllowedError("this is for the cluster's own programs; the node's token is missing or wrong")

    app.register_error_handler(GrassError, _refusal)
    app.register_error_handler(HTTPException, _http_refusal)

    @app.get("/v1/status")
    def status() -> dict[str, Any]:
        return _status(config)

    @app.get("/v1/attempts")
    def attempts() -> dict[str, Any]:
        return {"attempts": [attempt._asdict() for attempt in _attempts(config)]}

    @app.get("/v1/logs/<path:key>")
    def logs(key: str) -> Response:
        return _log(config, key)

    @app.post("/v1/probe")
    def probe() -> dict[str, bool]:
        return {"open": _answers(request.get_json())}

    return app


def _attempts(config: ClusterConfig) -> list[Observed]:
    return ask(config.socket("shepherd"), "list")


def _status(config: ClusterConfig) -> dict[str, Any]:
    body: dict[str, Any] = {
        "node": config.node.name,
        "version": __version__,
        "boot_id": clock.boot_id(),
        "steady": clock.steady(),
    }
    try:
        known = _attempts(config)
    except UnreachableError as error:
        return {**body, "shepherd": str(error), "running": None, "ended": None}
    running = sum(attempt.ended is None for attempt in known)
    return {**body, "shepherd": "ok", "running": running, "ended": len(known) - running}


def _log(config: ClusterConfig, key: str) -> Response:
    stream = request.args.get("stream", "stdout")
    offset = _number("offset", 0)
    limit = min(_number("limit", MOST_BYTES), MOST_BYTES)
    if stream not in STREAMS:
        raise InputError(f"stream: must be one of {', '.join(STREAMS)}, got {stream!r}")
    if not _KEY.fullmatch(key):
        raise InputError(f"{key!r} is not an attempt key (JOB-ID/COMPONENT.INDEX/ATTEMPT)")
    path = Folders(str(config.node_dir / "attempts")).path(key, stream)
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            size = file.seek(0, 2)
            file.seek(offset)
            data = file.read(limit)
    except FileNotFoundError as error:
        raise NotFoundError(f"attempt {key} has no {stream} on this node (any more)") from error
    headers = {"Grass-Offset": str(offset), "Grass-Size": str(size)}
    return Response(data, mimetype="application/octet-stream", headers=headers)


def _number(name: str, default: int) -> int:
    text = request.args.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InputError(f"{name}: must be a number of bytes, got {text!r}")
    return int(text)


def _answers(body: Any) -> bool:
    match body:
        case {"host": str(host), "port": int(port)} if 0 < port < 65536:
            with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_PROBE_SECONDS):
                return True
            return False
    raise InputError('the body must be {"host": string, "port": 1 to 65535}')


def _refusal(error: GrassError) -> tuple[dict[str, Any], int]:
    return {"error": {"code": error.code, "message": str(error)}}, error.http_status


def _http_refusal(error: HTTPException) -> tuple[dict[str, Any], int]:
    return {"error": {"code": "bad-request", "message": error.description or error.name}}, error.code or 500
