"""Commands that a task of a job runs in another task of the job: the ``ssh`` of launchers. ``TASK_EXEC`` and ``SIGNAL``
of ``grass.wire.node_api``.

The node-agent of the caller's node passes them on, with the caller's token. A task reaches tasks of its own job only,
and sessions that it has opened itself. A request may be repeated when its answer did not arrive: the ``id`` of a
request starts one command only, and ``at`` counts the input before. Used by ``app``.
"""

from __future__ import annotations

import re
import signal
import threading
from functools import partial

from flask import Flask, request

from grass.api.task_token import bearer, check
from grass.errors import ConflictError, InputError, NotAllowedError
from grass.node_config import NodeHome
from grass.system.entropy import request_id
from grass.wire.calls import NoContent
from grass.wire.keys import AttemptKey
from grass.wire.membership_api import check_arguments
from grass.wire.node_api import NOTHING, SIGNAL, TASK_EXEC, OpenTaskExec
from node.api.channels import Channels
from node.api.commands import Command
from node.api.routes import add, add_channels, body
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
_ID = re.compile(r"[A-Za-z0-9]{16,64}")


class TaskExec:
    """The sessions of commands. Each belongs to the attempt that asked for it."""

    def __init__(self, config: NodeHome, abandoned: float) -> None:
        self._config = config
        self._abandoned = abandoned
        self.sessions: Channels[AttemptKey, Command] = Channels("session", MOST_SESSIONS)
        self._started: dict[tuple[AttemptKey, str], str] = {}
        """Session of a request with an id of its own."""
        self._starting = threading.Lock()

    def caller(self) -> AttemptKey:
        """Return the attempt that asks. Raises NotAllowedError."""
        key, token = bearer(request.headers.get("Authorization", ""))
        check(read_secret(self._config, key.job_id), key, token)
        return key

    def open(self) -> str:
        """Start a command, or return its session if an earlier request with the same id has started it."""
        caller, wanted = self.caller(), body(TASK_EXEC.open)
        key = AttemptKey.parse(wanted.key)
        check_arguments(wanted.argv)
        if wanted.id and not _ID.fullmatch(wanted.id):
            raise InputError("id: must be 16 to 64 letters and digits")
        if key.job_id != caller.job_id:
            raise NotAllowedError(f"task {key.task}: it belongs to another job")
        with self._starting:
            known = self._started.get((caller, wanted.id))
            if known is None:
                return self._open(caller, wanted)
            if not self.sessions.has(known):
                raise ConflictError(f"command {wanted.id}: it was started before, and has ended")
            return known

    def signal(self, name: str) -> NoContent:
        command = self.sessions.get(self.caller(), name)
        command.signal(signal.Signals[f"SIG{body(SIGNAL).signal}"])
        return NOTHING

    def _open(self, caller: AttemptKey, wanted: OpenTaskExec) -> str:
        execution, note = execute(self._config, wanted.key, wanted.argv, None), request_id()
        task_commands.note(self._config, note, wanted.key, execution.pid)
        command = Command(execution, self._abandoned, POLL, partial(task_commands.drop, self._config, note))
        name = self.sessions.add(caller, command)
        if wanted.id:
            self._started[caller, wanted.id] = name
            ended = [each for each, session in self._started.items() if not self.sessions.has(session)]
            for each in ended[: max(0, len(self._started) - MOST_REMEMBERED)]:
                del self._started[each]
        return name


def add_task_exec(app: Flask, config: NodeHome, abandoned: float) -> None:
    """Add the calls to the application."""
    execs = TaskExec(config, abandoned)
    add_channels(app, TASK_EXEC, execs.sessions, execs.caller, execs.open, Command.output, Command.give)
    add(app, SIGNAL, execs.signal)
