"""Commands that a task of a job runs in another task of the job: the ``ssh`` of launchers.

    POST   /v1/tasks/exec {"key", "argv", "id"}                  {"id"}: of the session
    GET    /v1/tasks/exec/<id>/output?after=BYTES                as for ``/v1/exec``
    POST   /v1/tasks/exec/<id>/input {"data": base64, "end": bool, "at": BYTES}
    POST   /v1/tasks/exec/<id>/signal {"signal": "TERM"}
    DELETE /v1/tasks/exec/<id>

The node-agent of the caller's node passes them on, with the caller's token. A task reaches tasks of its own job only,
and sessions that it has opened itself. A request may be repeated when its answer did not arrive: the ``id`` of a
request starts one command only, and ``at`` counts the input before. Used by ``app`` and ``exec_routes``.
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
from grass.errors import ConflictError, InputError, NotAllowedError, UndecodableError
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import check_arguments
from node.api.opened import Opened
from node.api.sessions import Session
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
"""Requests whose ids are known, so that a request that was on its way for long does not start its command again."""
SIGNALS = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2")


_ID = re.compile(r"[A-Za-z0-9]{16,64}")


class Command(NamedTuple):
    key: AttemptKey
    argv: list[str]
    id: str


class TaskExec:
    """The sessions of commands. Each belongs to the attempt that asked for it."""

    def __init__(self, config: ClusterConfig, abandoned: float) -> None:
        self._config = config
        self._abandoned = abandoned
        self._sessions: Opened[AttemptKey, Session] = Opened("session", MOST_SESSIONS)
        self._started: dict[tuple[AttemptKey, str], str] = {}
        """Session of a request with an id of its own."""
        self._starting = threading.Lock()

    def caller(self) -> AttemptKey:
        """Return the attempt that asks. Raises NotAllowedError."""
        key, token = bearer(request.headers.get("Authorization", ""))
        check(read_secret(self._config, key.job_id), key, token)
        return key

    def open(self, caller: AttemptKey, wanted: Command) -> str:
        """Start the command, or return its session if an earlier request with the same id has started it."""
        if wanted.key.job_id != caller.job_id:
            raise NotAllowedError(f"task {wanted.key.task}: it belongs to another job")
        with self._starting:
            known = self._started.get((caller, wanted.id))
            if known is None:
                return self._open(caller, wanted)
            if not self._sessions.has(known):
                raise ConflictError(f"command {wanted.id}: it was started before, and has ended")
            return known

    def get(self, name: str) -> Session:
        """Return a session of the caller. Raises NotAllowedError and NotFoundError."""
        return self._sessions.get(self.caller(), name)

    def close(self, name: str) -> None:
        self._sessions.close(self.caller(), name)

    def _open(self, caller: AttemptKey, wanted: Command) -> str:
        execution, note = execute(self._config, str(wanted.key), wanted.argv, None), request_id()
        task_commands.note(self._config, note, str(wanted.key), execution.pid)
        session = Session(execution, self._abandoned, POLL, partial(task_commands.drop, self._config, note))
        name = self._sessions.add(caller, session)
        if wanted.id:
            self._started[caller, wanted.id] = name
            ended = [each for each, session in self._started.items() if not self._sessions.has(session)]
            for each in ended[: max(0, len(self._started) - MOST_REMEMBERED)]:
                del self._started[each]
        return name


def add_task_exec(app: Flask, config: ClusterConfig, abandoned: float) -> None:
    """Add the routes to the application."""
    execs = TaskExec(config, abandoned)

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
        case {"key": str(key), "argv": [*argv], **rest} if all(isinstance(each, str) for each in argv):
            check_arguments(argv)
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
