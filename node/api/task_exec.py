"""Commands that a task of a job runs in another task of the job: the ``ssh`` of launchers.

    POST   /v1/tasks/exec {"key", "argv"}                        {"id"}
    GET    /v1/tasks/exec/<id>/output?after=BYTES                as for ``/v1/exec``
    POST   /v1/tasks/exec/<id>/input {"data": base64, "end": bool}
    POST   /v1/tasks/exec/<id>/signal {"signal": "TERM"}
    DELETE /v1/tasks/exec/<id>

The node-agent of the caller's node passes them on, with the caller's token. A task reaches tasks of its own job only.
"""

from __future__ import annotations

import base64
import re
import signal
import threading
from typing import Any

from flask import Flask, request

from grass.api.task_token import bearer, check
from grass.config import ClusterConfig
from grass.errors import InputError, NotAllowedError, NotFoundError, UndecodableError
from grass.wire.keys import AttemptKey
from node.api.sessions import Session, Sessions
from node.membership.files import read_secret
from node.runtime.registry import execute

PREFIX = "/v1/tasks/"
ABANDONED = 15.0
"""Seconds without a poll after which a command ends: its launcher was killed, or its machine is gone."""
POLL = 5.0
"""Seconds that a request for output waits. Well below ``ABANDONED``: it counts from the begin of a poll."""
MOST_SESSIONS = 128
SIGNALS = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2")


class TaskExec:
    """The sessions of commands, and the job that each belongs to."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._sessions = Sessions(ABANDONED, MOST_SESSIONS, POLL)
        self._owners: dict[str, str] = {}
        self._lock = threading.Lock()

    def caller(self) -> str:
        """Return the job of the task that asks. Raises NotAllowedError."""
        key, token = bearer(request.headers.get("Authorization", ""))
        check(read_secret(self._config, key.job_id), key, token)
        return key.job_id

    def open(self, job_id: str, key: AttemptKey, argv: list[str]) -> str:
        if key.job_id != job_id:
            raise NotAllowedError(f"task {key.task}: it belongs to another job")
        name = self._sessions.open(execute(self._config, str(key), argv, None))
        with self._lock:
            known = {each: job for each, job in self._owners.items() if self._sessions.has(each)}
            self._owners = {**known, name: job_id}
        return name

    def get(self, name: str) -> Session:
        """Return a session of the caller's job. Raises NotAllowedError and NotFoundError."""
        if self._owners.get(name) != self.caller():
            raise NotFoundError("no such session; it may have ended")
        return self._sessions.get(name)

    def close(self, name: str) -> None:
        self.get(name)
        self._sessions.close(name)


def add_task_exec(app: Flask, config: ClusterConfig) -> None:
    execs = TaskExec(config)

    @app.post("/v1/tasks/exec")
    def open_task_session() -> dict[str, str]:
        return {"id": execs.open(execs.caller(), *_command(request.get_json()))}

    @app.get("/v1/tasks/exec/<name>/output")
    def task_output(name: str) -> dict[str, object]:
        return execs.get(name).output(byte_offset())

    @app.post("/v1/tasks/exec/<name>/input")
    def task_input(name: str) -> dict[str, int]:
        return {"taken": execs.get(name).input(*input_of(request.get_json()))}

    @app.post("/v1/tasks/exec/<name>/signal")
    def task_signal(name: str) -> dict[str, object]:
        execs.get(name).signal(_signal(request.get_json()))
        return {}

    @app.delete("/v1/tasks/exec/<name>")
    def task_close(name: str) -> dict[str, object]:
        execs.close(name)
        return {}


def byte_offset() -> int:
    """Return the query parameter ``after``."""
    text = request.args.get("after", "0")
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InputError(f"after: must be a number of bytes, got {text!r}")
    return int(text)


def input_of(body: Any) -> tuple[bytes, bool]:
    """Return the data of a request for input, and whether it is the last."""
    try:
        return base64.b64decode(body.get("data", ""), validate=True), bool(body.get("end"))
    except (AttributeError, ValueError, TypeError) as error:
        raise InputError('the body must be {"data": base64, "end": bool}') from error


def _command(body: Any) -> tuple[AttemptKey, list[str]]:
    match body:
        case {"key": str(key), "argv": [str(), *_] as argv} if all(
            isinstance(each, str) and "\0" not in each for each in argv
        ):
            try:
                return AttemptKey.parse(key), argv
            except UndecodableError as error:
                raise InputError(str(error)) from error
    raise InputError('the body must be {"key": attempt key, "argv": [string, …]}')


def _signal(body: Any) -> int:
    match body:
        case {"signal": str(name)} if name in SIGNALS:
            return signal.Signals[f"SIG{name}"]
    raise InputError(f'the body must be {{"signal": one of {", ".join(SIGNALS)}}}')
