"""Answers `POST /v1/stacks`: what the processes of attempts of this node do now. Used by ``app``."""

from __future__ import annotations

from grass.errors import InputError
from grass.model.key_text import is_attempt_key
from grass.node_config import NodeHome
from grass.wire.node_api import STACKS, NodeStacks
from node.api.routes import body
from node.runtime.stacks.collect import collect

MOST = 256
"""Attempts in one call."""


def stacks(config: NodeHome) -> NodeStacks:
    keys = body(STACKS).keys
    if len(keys) > MOST or not all(map(is_attempt_key, keys)):
        raise InputError(f"keys: must be keys of at most {MOST} attempts")
    return collect(config, keys)
