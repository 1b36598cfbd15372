"""What the shepherd does for others where users are isolated, and they may not: commands beside attempts, and removal.

Used by ``node.runtime.shepherd``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from grass.model.exhaustive import assert_never
from grass.model.key_text import is_attempt_key, job_of
from node.runtime import proc
from node.runtime.attempts import Attempt, Folders
from node.runtime.isolation.tasks import IsolatedTasks
from node.runtime.server import Client
from node.runtime.shepherd_messages import (
    Account,
    AttemptList,
    EndedBeside,
    Failed,
    GiveScratch,
    KillBeside,
    RemoveJobs,
    RemoveScratch,
    Reply,
    RunBeside,
    RunsBeside,
    ServiceRequest,
    SignalBeside,
)
from node.runtime.spawn import NOT_EXECUTABLE, CannotStartError

_STREAMS = 3


class IsolationService:
    """Handles each ``ServiceRequest``. At most one command for each client."""

    def __init__(
        self,
        tasks: IsolatedTasks,
        attempts: Mapping[str, Attempt],
        folders: Folders,
        reply: Callable[[Client, Reply], None],
    ) -> None:
        self._tasks = tasks
        self._attempts = attempts
        self._folders = folders
        self._reply = reply
        self._commands: dict[int, Client] = {}
        """Pid of each running command → its client."""
        self._removals: dict[int, set[str]] = {}
        """Pid of each removal of scratch folders → the folders of their jobs."""

    def handle(self, client: Client, request: ServiceRequest) -> None:
        match request:
            case RunBeside():
                self._start(client, request)
            case SignalBeside(number):
                for pid in self._of(client):
                    proc.signal_group(pid, number)
            case KillBeside():
                self._kill(client)
            case RemoveScratch(keys):
                self._remove(keys)
                self._reply(client, AttemptList([]))
            case GiveScratch():
                self._reply(client, self._given(request))
            case RemoveJobs(job_ids):
                here = {job_of(key) for key, attempt in self._attempts.items() if attempt.ended is None}
                self._tasks.remove_jobs([job_id for job_id in job_ids if job_id not in here])
                self._reply(client, AttemptList([]))
            case _:
                assert_never(request)

    def reaped(self, pid: int, status: int) -> None:
        """Tell the client of a child that was reaped, if it was a command. ``status``: as from wait().

        After a removal, the folders of jobs go, too, that are empty now: the node-agent could not remove them before.
        """
        self._tasks.mending.reaped(pid, status)
        for folder in self._removals.pop(pid, ()):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106
        client = self._commands.pop(pid, None)
        if client is not None:
            self._reply(client, EndedBeside(status))

    def gone(self, client: Client) -> None:
        """Kill the command of a client that disconnected."""
        self._kill(client)
        self._commands = {pid: its for pid, its in self._commands.items() if its is not client}

    def _start(self, client: Client, command: RunBeside) -> None:
        streams, client.descriptors = client.descriptors, []
        attempt = self._attempts.get(command.key)
        try:
            if attempt is None or attempt.pid is None or attempt.main_ended is not None or attempt.ended is not None:
                raise CannotStartError(NOT_EXECUTABLE, "cannot start the command: its task does not run now")
            if len(streams) != _STREAMS or not command.argv or self._of(client):
                raise CannotStartError(NOT_EXECUTABLE, "cannot start the command: the request is malformed")
            pid = self._tasks.beside(attempt.pid, command.argv, command.env, streams, tty=command.tty)
        except CannotStartError as error:
            self._reply(client, Failed(error.code, str(error)))
            return
        finally:
            for descriptor in streams:
                os.close(descriptor)
        self._commands[pid] = client
        self._reply(client, RunsBeside(pid))

    def _remove(self, keys: list[str]) -> None:
        ended = {scratch: self._folders.job(key) for key in keys if (scratch := self._ended_scratch(key))}
        if ended:
            self._removals[self._tasks.remove(list(ended))] = set(ended.values())

    def _given(self, asked: GiveScratch) -> Account | Failed:
        key = asked.key
        try:
            if key in self._attempts or self._ended_scratch(key) is None:
                raise CannotStartError(NOT_EXECUTABLE, f"{key!r} is not an attempt of a container")
            return Account(self._tasks.give(key, asked.user))
        except CannotStartError as error:
            return Failed(error.code, str(error))

    def _of(self, client: Client) -> list[int]:
        return [pid for pid, its in self._commands.items() if its is client]

    def _kill(self, client: Client) -> None:
        for pid in self._of(client):
            proc.kill_session(pid)

    def _ended_scratch(self, key: str) -> str | None:
        """Return the scratch folder of an attempt that does not run; None for anything else."""
        attempt = self._attempts.get(key)
        return self._folders.scratch(key) if is_attempt_key(key) and (not attempt or attempt.ended) else None
