"""Commands that a task of a job runs in another task of the job: the ``ssh`` of launchers.

    POST   /v1/tasks/exec {"key", "argv", "id"}                  {"id"}
    GET    /v1/tasks/exec/<id>/output?after=BYTES                as for ``/v1/exec``
    POST   /v1/tasks/exec/<id>/input {"data": base64, "end": bool, "at": BYTES}
    POST   /v1/tasks/exec/<id>/signal {"signal": "TERM"}
    DELETE /v1/tasks/exec/<id>

The node-agent of the caller's node passes them on, with the caller's token. A task reaches tasks of its own job only.
A request may be repeated when its answer did not arrive: the ``id`` starts one command only, and
``at`` counts the input before. Used by ``app``.
"""

from __future__ import annotations

import base64
import re
import signal
import threading
from functools import partial
from typing import Any, NamedTuple

from flask import Flask, request

from grass.api.task_token import bearer, check
from grass.config import ClusterConfig
from grass.entropy import request_id
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError, UndecodableError
from grass.wire.keys import AttemptKey
from node.api.sessions import Session, Sessions
from node.membership.files import read_secret
from node.runtime import task_commands
from node.runtime.registry import execute

PREFIX = "/v1/tasks/"
ABANDONED = 15.0
"""Seconds without a poll after which a command ends: its launcher was killed, or its machine is gone."""
POLL = 5.0
"""Seconds that a request for output waits. Well below ``ABANDONED``: it counts from the begin of a poll."""
MOST_SESSIONS = 128
MOST_REMEMBERED = 8 * MOST_SESSIONS
"""Sessions whose ids are known, so that a request that was on its way for long does not start its command again."""
SIGNALS = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2")


_ID = re.compile(r"[A-Za-z0-9]{16,64}")


class Command(NamedTuple):
    key: AttemptKey
    argv: list[str]
    id: str


class TaskExec:
    """The sessions of commands, and the job that each belongs to."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._sessions = Sessions(ABANDONED, MOST_SESSIONS, POLL)
        self._owners: dict[str, str] = {}
        self._starting = threading.Lock()

    def caller(self) -> str:
        """Return the job of the task that asks. Raises NotAllowedError."""
        key, token = bearer(request.headers.get("Authorization", ""))
        check(read_secret(self._config, key.job_id), key, token)
        return key.job_id

    def open(self, job_id: str, wanted: Command) -> str:
        """Start the command, or return its session if an earlier request with the same id has started it."""
        if wanted.key.job_id != job_id:
            raise NotAllowedError(f"task {wanted.key.task}: it belongs to another job")
        with self._starting:
            if wanted.id in self._owners:
                if self._owners[wanted.id] != job_id or not self._sessions.has(wanted.id):
                    raise ConflictError(f"command {wanted.id}: it was started before, and has ended")
                return wanted.id
            name = wanted.id or request_id()
            execution = execute(self._config, str(wanted.key), wanted.argv, None)
            task_commands.note(self._config, name, str(wanted.key), execution.pid)
            self._sessions.open(execution, name, partial(task_commands.drop, self._config, name))
            self._owners = {**self._owners, name: job_id}  # replaced: other threads read it
            ended = [each for each in self._owners if not self._sessions.has(each)]
            for each in ended[: max(0, len(self._owners) - MOST_REMEMBERED)]:
                del self._owners[each]
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
    """Add the routes to the application."""
    execs = TaskExec(config)

    @app.post("/v1/tasks/exec")
    def open_task_session() -> dict[str, str]:
        return {"id": execs.open(execs.caller(), _command(request.get_json()))}

    @app.get("/v1/tasks/exec/<name>/output")
    def task_output(name: str) -> dict[str, object]:
        return execs.get(name).output(byte_offset())

    @app.post("/v1/tasks/exec/<name>/input")
    def task_input(name: str) -> dict[str, int]:
        return {"taken": execs.get(name).input(*input_of(request.get_json()), _at(request.get_json()))}

    @app.post("/v1/tasks/exec/<name>/signal")
    def task_signal(name: str) -> dict[str, object]:
        execs.get(name).signal(_signal(request.get_json()))
        return {}

    @app.delete("/v1/tasks/exec/<name>")
    def task_close(name: str) -> dict[str, object]:
        execs.close(name)
        return {}


def _at(body: Any) -> int | None:
    match body.get("at"):
        case None:
            return None
        case int(at) if at >= 0 and not isinstance(at, bool):
            return at
    raise InputError("at: must be a number of bytes")


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


def _command(body: Any) -> Command:
    match body:
        case {"key": str(key), "argv": [str(), *_] as argv, **rest} if all(
            isinstance(each, str) and "\0" not in each for each in argv
        ):
            name = rest.get("id", "")
            if not isinstance(name, str) or (name and not _ID.fullmatch(name)):
                raise InputError("id: must be 16 to 64 letters and digits")
            try:
                return Command(AttemptKey.parse(key), argv, name)
            except UndecodableError as error:
                raise InputError(str(error)) from error
    raise InputError('the body must be {"key": attempt key, "argv": [string, …]}')


def _signal(body: Any) -> int:
    match body:
        case {"signal": str(name)} if name in SIGNALS:
            return signal.Signals[f"SIG{name}"]
    raise InputError(f'the body must be {{"signal": one of {", ".join(SIGNALS)}}}')
