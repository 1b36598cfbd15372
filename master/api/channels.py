"""What is open on a node for a client: commands beside tasks, and forwards. A client names such a channel ``NODE:ID``.

The name proves nothing. Each call passes the user, the job and the task on to the node, which finds only what was
opened for the same. Used by ``execs``, ``forwards``, ``joins`` and ``users``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from grass.errors import GrassError, NotAllowedError, NotFoundError
from grass.model.key_text import opened_name, opened_parts
from grass.model.lifecycle import NodeState
from grass.wire.calls import ExecInput, ForwardInput, NoContent
from grass.wire.channel_views import Accepted, ExecOutput, ForwardOutput
from grass.wire.node_api import END_USER, NOTHING, Answered, Asked, ChannelCalls, NodeCall
from grass.wire.node_record import NodeRecord
from master.api.call import Call, Handler
from master.node_calls.client import call_node, read_output

PAUSE = 0.5
"""Seconds after which a client asks again for output, if too many requests wait already."""
_AT_ONCE = 8
"""Nodes that are told at once to end what a user has open. ``call_node`` allows a few more, for other calls."""

_Output = TypeVar("_Output", ExecOutput, ForwardOutput)
_Input = TypeVar("_Input", ExecInput, ForwardInput)


class Channel(NamedTuple):
    """A channel. ``where``: parts of its path at the node: its owner, and its id there."""

    node: str
    where: Mapping[str, str]


def start(call: Call, calls: ChannelCalls[Asked, Any, Any], node: str, owner: Mapping[str, str], wanted: Asked) -> str:
    """Open a channel for the caller. Return its name for clients. Raises NotAllowedError for a caller who was disabled
    meanwhile.

    ``owner``: what it belongs to, besides the user, as parts of the path of later calls."""
    with call.outside():
        name = call_node(call.api.config, find_node(call, node), calls.open, wanted).id
    with ending(call, calls, Channel(node, {**owner, "user": call.user, "name": name})):
        call.check_admitted()
    return opened_name(node, name)


def find(call: Call, noun: str, name: str, owner: Mapping[str, str]) -> Channel:
    """Return what the caller has opened as ``name``. The node refuses what others have opened. Raises NotFoundError.

    ``noun``: in messages. ``owner``: as for ``start``."""
    found = opened_parts(name)
    if found is None:
        raise NotFoundError(f"{noun} {name!r}: not found")
    return Channel(found[0], {**owner, "user": call.user, "name": found[1]})


def ask(call: Call, channel: Channel, what: NodeCall[Asked, Answered], content: Asked, **where: str) -> Answered:
    """Pass a call on to the node. ``where``: further parts of its path."""
    record = find_node(call, channel.node)
    with call.outside():
        return call_node(call.api.config, record, what, content, {**channel.where, **where})


def handlers(
    calls: ChannelCalls[Any, _Output, _Input],
    given: type[_Input],
    find_channel: Callable[..., Channel],
    nothing: Callable[[int], _Output],
) -> dict[str, Handler]:
    """Return the handlers that all kinds of channels have.

    ``given``: the input. ``find_channel``: returns the channel of a call and the parameters of its path. ``nothing``:
    the output after a position, for a call that may not wait."""

    def output(call: Call, **path: str) -> _Output:
        channel, after = find_channel(call, **path), int(call.query["after"])
        with call.waiting() as granted:
            if not granted:
                return nothing(after)
            with ending(call, calls, channel):
                record = find_node(call, channel.node)
                return read_output(call.api.config, record, calls.output, channel.where, after, call.check_admitted)

    def give_input(call: Call, **path: str) -> Accepted:
        return ask(call, find_channel(call, **path), calls.input, call.read(given))

    def close(call: Call, **path: str) -> NoContent:
        return ask(call, find_channel(call, **path), calls.close, NOTHING)

    return {"output": output, "input": give_input, "delete": close}


def find_node(call: Call, name: str) -> NodeRecord:
    """Return the node's record. Raises NotFoundError."""
    record = call.api.store.node(name)
    if record is None:
        raise NotFoundError(f"node {name}: not found; it was removed from the cluster")
    return record


@contextmanager
def ending(call: Call, calls: ChannelCalls[Any, Any, Any], channel: Channel) -> Iterator[None]:
    """End the channel, if the user loses the right to it inside of the context."""
    try:
        yield
    except NotAllowedError:
        with suppress(GrassError):  # the node ends it by itself after a minute without a call
            call_node(call.api.config, find_node(call, channel.node), calls.close, NOTHING, channel.where)
        raise


def end_opened(call: Call, user: str) -> None:
    """Have nodes end what a user has open, also what no call waits for now. READY nodes are told first, so that those
    that do not answer hold up none of them."""
    nodes = iter(sorted(call.api.store.nodes(), key=lambda record: record.state is not NodeState.READY))

    def end() -> None:
        for record in nodes:  # all threads take from one iterator
            with suppress(GrassError):  # the node ends it by itself after a minute without a call
                call_node(call.api.config, record, END_USER, NOTHING, {"user": user})

    for _ in range(_AT_ONCE):
        Thread(target=end, daemon=True).start()
