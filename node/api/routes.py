"""Adds the calls of ``grass.wire.node_api`` to the application.

Used by ``app``, ``commands``, ``forward_routes`` and ``task_exec``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from flask import Flask, Response, request

from grass.errors import InputError, UndecodableError
from grass.wire.calls import NoContent
from grass.wire.channel_views import Accepted
from grass.wire.codec import encode
from grass.wire.node_api import NOTHING, Answered, Asked, ChannelCalls, Given, NodeCall, Opened
from node.api.channels import Channel, Channels

_Owner = TypeVar("_Owner")
_Channel = TypeVar("_Channel", bound=Channel[Any])


def add(app: Flask, call: NodeCall[Asked, Answered], answer: Callable[..., Answered]) -> None:
    """Add one call. ``answer`` gets the parts of its path, and calls ``body`` once it knows who asks."""

    def view(**path: str) -> Response:
        try:
            return Response(encode(answer(**path)), mimetype="application/json")
        except UndecodableError as error:
            raise InputError(f"the body: {error}") from error

    app.add_url_rule(call.path, f"{call.method} {call.path}", view, methods=[call.method])


def body(call: NodeCall[Asked, Answered]) -> Asked:
    """Return the body of the present request. Raises UndecodableError."""
    return call.asked.decode(request.get_data())


def add_channels(
    app: Flask,
    calls: ChannelCalls[Asked, Answered, Given],
    channels: Channels[_Owner, _Channel],
    owner: Callable[..., _Owner],
    start: Callable[[], str],
    output: Callable[[_Channel, int], Answered],
    give: Callable[[_Channel, Given], int],
) -> None:
    """Add the calls that all kinds of channels have.

    ``owner``: who asks, from the other parts of the path. ``start``: opens a channel, and returns its id."""

    def take(name: str, **path: str) -> Answered:
        return output(channels.get(owner(**path), name), _after())

    def give_input(name: str, **path: str) -> Accepted:
        return Accepted(give(channels.get(owner(**path), name), body(calls.input)))

    def close(name: str, **path: str) -> NoContent:
        channels.close(owner(**path), name)
        return NOTHING

    add(app, calls.open, lambda: Opened(start()))
    add(app, calls.output, take)
    add(app, calls.input, give_input)
    add(app, calls.close, close)


def _after() -> int:
    """Return the query parameter ``after``."""
    text = request.args.get("after", "0")
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InputError(f"after: must be a number, got {text!r}")
    return int(text)
