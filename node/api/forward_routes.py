"""The calls about ``forwards``: ``FORWARD`` and ``CLOSE_CONNECTION`` of ``grass.wire.node_api``. Used by ``app``."""

from __future__ import annotations

from flask import Flask

from grass.config import ClusterConfig
from grass.errors import InputError
from grass.model.key_text import job_of
from grass.wire.calls import NoContent
from grass.wire.node_api import CLOSE_CONNECTION, FORWARD
from node.api.channels import Channels, Owner
from node.api.exec_routes import check_attempt
from node.api.forwards import Forward
from node.api.routes import NOTHING, add, add_channels, body
from node.runtime.registry import reach

MOST_FORWARDS = 64


def add_forwards(app: Flask, config: ClusterConfig, abandoned: float) -> Channels[Owner, Forward]:
    """Add the calls to the application. Return what they open."""
    forwards: Channels[Owner, Forward] = Channels("forward", MOST_FORWARDS)

    def start() -> str:
        asked = body(FORWARD.open)
        check_attempt(asked.key, asked.user)
        forward = Forward(reach(config, asked.key), asked.port, abandoned)
        return forwards.add(Owner(asked.user, job_of(asked.key)), forward)

    def close_connection(name: str, number: str, **owner: str) -> NoContent:
        if not (number.isascii() and number.isdecimal()):
            raise InputError(f"connection: must be a number, got {number!r}")
        forwards.get(Owner(**owner), name).close(int(number))
        return NOTHING

    add_channels(
        app,
        FORWARD,
        forwards,
        owner=Owner,
        start=start,
        output=Forward.output,
        give=lambda forward, asked: forward.send(asked.connection, asked.at, asked.data, end=asked.end),
    )
    add(app, CLOSE_CONNECTION, close_connection)
    return forwards
