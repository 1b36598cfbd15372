"""The calls about ``forwards``: ``FORWARD`` and ``CLOSE_CONNECTION`` of ``grass.wire.node_api``. Used by ``app``."""

from __future__ import annotations

from flask import Flask

from grass.errors import InputError
from grass.node_config import NodeHome
from grass.wire.calls import NoContent
from grass.wire.keys import AttemptKey
from grass.wire.node_api import CLOSE_CONNECTION, FORWARD, NOTHING
from node.api.channels import Channels, Owner
from node.api.forwards import Forward
from node.api.routes import add, add_channels, body
from node.runtime.registry import reach

MOST_FORWARDS = 64


def add_forwards(app: Flask, config: NodeHome, abandoned: float) -> Channels[Owner, Forward]:
    """Add the calls to the application. Return what they open."""
    forwards: Channels[Owner, Forward] = Channels("forward", MOST_FORWARDS)

    def start() -> str:
        asked = body(FORWARD.open)
        key = AttemptKey.parse(asked.key)
        forward = Forward(reach(config, asked.key), asked.port, abandoned)
        return forwards.add(Owner(asked.user, key.job_id), forward)

    def close_connection(name: str, number: str, **owner: str) -> NoContent:
        if not (number.isascii() and number.isdecimal()):
            raise InputError(f"connection: must be a number, got {number!r}")
        forwards.get(Owner(**owner), name).close(int(number))
        return NOTHING

    add_channels(app, FORWARD, forwards, Owner, start, Forward.output, Forward.give)
    add(app, CLOSE_CONNECTION, close_connection)
    return forwards
