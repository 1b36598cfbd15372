"""The client's side of a channel: of what is open for it on a node. Used by ``execution`` and ``forwarding``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from grass.api.transport import Transport, with_query
from grass.system import clock
from grass.wire.calls import Call, ExecInput, ForwardInput
from grass.wire.channel_views import ExecOutput, ExecStarted, ForwardOutput, ForwardStarted
from grass.wire.codec import Form, builtins
from grass.wire.node_api import ChannelCalls

LARGEST_INPUT = 32 * 1024
NODE_SECONDS, OUTPUT_SECONDS = 10.0, 30.0
"""Seconds that the master waits for an answer of the task's node, and for output."""

_Started = TypeVar("_Started", ExecStarted, ForwardStarted)
_Output = TypeVar("_Output", ExecOutput, ForwardOutput)


class Channel(Generic[_Started, _Output]):
    """An open channel. ``opened``: what the master said of it."""

    def __init__(
        self,
        transport: Transport,
        path: str,
        wanted: Call,
        opened: Form[_Started],
        calls: ChannelCalls[Any, _Output, Any],
    ) -> None:
        """``calls``: those of the node, whose answers the master passes on."""
        self._transport = transport
        self._calls: ChannelCalls[Any, _Output, Any] = calls
        self.opened: _Started = transport.read(opened, "POST", path, builtins(wanted), wait=NODE_SECONDS)
        self._path = f"{path}/{quote(self.opened.id, safe='')}"

    def answers(self) -> Iterator[_Output]:
        """Yield what the task sends, for as long as the caller asks."""
        after = 0
        while True:
            target = with_query(f"{self._path}/output", {"after": after})
            answer = self._transport.read(self._calls.output.answered, "GET", target, wait=OUTPUT_SECONDS)
            yield answer
            after = answer.next
            if answer.pause:
                clock.sleep(answer.pause)

    def give(self, content: ExecInput | ForwardInput) -> int:
        """Send input. Return how many bytes were accepted."""
        return self._calls.input.answered.convert(self.post("input", content)).taken

    def post(self, verb: str, content: Call) -> object:
        return self._transport.call("POST", f"{self._path}/{verb}", builtins(content), wait=NODE_SECONDS)

    def close(self, part: str = "") -> None:
        """End it, or a part of it."""
        self._transport.call("DELETE", self._path + part, wait=NODE_SECONDS)
