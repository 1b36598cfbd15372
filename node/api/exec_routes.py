"""The routes of commands beside a running attempt, with its folder and environment, or in its container.

POST   /v1/exec {"key", "argv", "user", "tty", "rows", "cols"}   start it: {"id"}
GET    …/<id>/output?after=BYTES                           wait up to 20 s for more:
                                                           {"chunks": [[stream, base64]], "next", "code"}
POST   …/<id>/input {"data": base64, "end": bool}          {"taken": bytes}; send the rest again
POST   …/<id>/resize {"rows", "cols"}                      resize its terminal
DELETE …/<id>                                              end it; 60 s without a GET end it, too

``…``: ``/v1/exec/<user>/<job id>/<task>``, those for which it was started. ``code`` is null until the command has ended
and ``chunks`` is the last of its output. ``after``: bytes of output that the caller has: ``next`` of the previous
reply. With ``tty``, all output is ``stdout``. Used by ``app``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Flask, request

from grass.config import ClusterConfig
from grass.errors import InputError
from grass.model.key_text import attempt_parts, is_attempt_key
from grass.model.names import is_user_name
from grass.wire.membership_api import check_arguments
from node.api.opened import Opened, Owner
from node.api.sessions import Session
from node.api.task_exec import byte_offset, input_of
from node.runtime.registry import execute

MOST_SESSIONS = 32
_SESSION = "/v1/exec/<user>/<job_id>/<task>/<name>"
_SHAPE = 'the body must be {"key": attempt key, "argv": [string, …], "user": name, "tty": bool, "rows", "cols"}'


def add_exec(app: Flask, config: ClusterConfig, abandoned: float) -> Opened[Owner, Session]:
    """Add the routes to the application. Return what they open."""
    sessions: Opened[Owner, Session] = Opened("session", MOST_SESSIONS)

    @app.post("/v1/exec")
    def open_session() -> dict[str, str]:
        match request.get_json():
            case {"key": str(key), "argv": [*argv], "user": str(user), **rest} if (
                is_attempt_key(key) and is_user_name(user) and all(isinstance(each, str) for each in argv)
            ):
                check_arguments(argv)
                job_id, task, _ = attempt_parts(key)
                size = _size(rest) if rest.get("tty") else None
                session = Session(execute(config, key, argv, size), abandoned)
                return {"id": sessions.add(Owner(user, job_id, task), session)}
        raise InputError(_SHAPE)

    @app.get(f"{_SESSION}/output")
    def output(name: str, **owner: str) -> dict[str, object]:
        return sessions.get(Owner(**owner), name).output(byte_offset())

    @app.post(f"{_SESSION}/input")
    def give_input(name: str, **owner: str) -> dict[str, int]:
        return {"taken": sessions.get(Owner(**owner), name).input(*input_of(request.get_json()))}

    @app.post(f"{_SESSION}/resize")
    def resize(name: str, **owner: str) -> dict[str, object]:
        body = request.get_json()
        sessions.get(Owner(**owner), name).resize(*_size(body if isinstance(body, dict) else {}))
        return {}

    @app.delete(_SESSION)
    def close(name: str, **owner: str) -> dict[str, object]:
        sessions.close(Owner(**owner), name)
        return {}

    return sessions


def _size(body: Mapping[Any, Any]) -> tuple[int, int]:
    """Rows and columns."""
    rows, columns = body.get("rows", 24), body.get("cols", 80)
    if not (isinstance(rows, int) and isinstance(columns, int) and 0 < rows < 10_000 and 0 < columns < 10_000):
        raise InputError("rows, cols: must be numbers from 1 to 9999")
    return rows, columns
