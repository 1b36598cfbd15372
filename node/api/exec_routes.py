"""The calls about commands beside a running attempt: ``EXEC`` and ``RESIZE`` of ``grass.wire.node_api``. Used by
``app``.
"""

from __future__ import annotations

from flask import Flask

from grass.config import ClusterConfig
from grass.errors import InputError
from grass.model.key_text import attempt_parts, is_attempt_key
from grass.model.names import is_user_name
from grass.wire.calls import NoContent
from grass.wire.membership_api import check_arguments
from grass.wire.node_api import EXEC, RESIZE
from node.api.channels import Channels, Owner
from node.api.commands import Command
from node.api.routes import NOTHING, add, add_channels, body
from node.runtime.registry import execute

MOST_SESSIONS = 32
_USUAL_SIZE = 24, 80
"""Rows and columns."""


def add_exec(app: Flask, config: ClusterConfig, abandoned: float) -> Channels[Owner, Command]:
    """Add the calls to the application. Return what they open."""
    sessions: Channels[Owner, Command] = Channels("session", MOST_SESSIONS)

    def start() -> str:
        asked = body(EXEC.open)
        check_attempt(asked.key, asked.user)
        check_arguments(asked.argv)
        size = _size(asked.rows, asked.cols) if asked.tty else None
        job_id, task, _ = attempt_parts(asked.key)
        command = Command(execute(config, asked.key, list(asked.argv), size), abandoned)
        return sessions.add(Owner(asked.user, job_id, task), command)

    def resize(name: str, **owner: str) -> NoContent:
        command = sessions.get(Owner(**owner), name)
        asked = body(RESIZE)
        command.resize(*_size(asked.rows, asked.cols))
        return NOTHING

    add_channels(
        app,
        EXEC,
        sessions,
        owner=Owner,
        start=start,
        output=Command.output,
        give=lambda command, asked: command.input(asked.data, asked.end),
    )
    add(app, RESIZE, resize)
    return sessions


def check_attempt(key: str, user: str) -> None:
    """Raise InputError unless these can be the key of an attempt, and a user."""
    if not is_attempt_key(key):
        raise InputError(f"key: must be the key of an attempt, got {key!r}")
    if not is_user_name(user):
        raise InputError(f"user: must be the name of a user, got {user!r}")


def _size(rows: int | None, columns: int | None) -> tuple[int, int]:
    size = _USUAL_SIZE[0] if rows is None else rows, _USUAL_SIZE[1] if columns is None else columns
    if not all(0 < each < 10_000 for each in size):
        raise InputError("rows, cols: must be numbers from 1 to 9999")
    return size
