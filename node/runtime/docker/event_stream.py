"""The stream of the engine's events. When it breaks, the engine counts as away, and the stream is opened again.

Used by ``ends``, ``output`` and ``runtime``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from grass.backoff import Backoff
from grass.system import clock
from node.runtime.docker.engine import Engine
from node.runtime.docker.streams import EngineStream
from node.runtime.reactor import Reactor

_FIRST_RETRY, _LONGEST_RETRY = 0.05, 2.0
_DIED = "die"
_FILTERS = '{"type":["container"],"event":["die","kill"]}'

log = logging.getLogger(__name__)


class EventStream:
    """The open stream of events.

    ``connected`` is called when the stream is open, ``broken`` when it has ended, ``died`` with the id of each
    container that ended. ``killed`` is called with the id of each container that got a signal through the engine.

    ``ended``: wall time at which the engine closed the stream, as it does when it ends. None: it has not, or it was
    this side that gave up.
    """

    def __init__(
        self,
        engine: Engine,
        reactor: Reactor,
        connected: Callable[[], None],
        broken: Callable[[], None],
        died: Callable[[str], None],
        killed: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._reactor = reactor
        self._connected = connected
        self._broken = broken
        self._died, self._killed = died, killed
        self._stream: EngineStream | None = None
        self._event = b""
        """The beginning of an incomplete event."""
        self._retry = Backoff(_FIRST_RETRY, _LONGEST_RETRY)
        self.ended: float | None = None
        self.connection = 0
        """Number of the present connection, so that answers that belong to an earlier one are recognised."""
        reactor.after(0.0, self._connect)

    @property
    def up(self) -> bool:
        return self._stream is not None

    def reset_retry(self) -> None:
        """Note that the engine answers requests: after the next break, it is tried again soon."""
        self._retry.reset()

    def disconnect(self, why: str) -> None:
        """Close the stream, because the engine does not answer, and try again after a while."""
        if self._stream is not None:
            while said := self._stream.read():
                pass
            if said is None:  # also when a request noticed it first
                self.ended = clock.wall()
            self.close()
            self._broken()
            self._try_again(why)

    def close(self) -> None:
        if self._stream is not None:
            self._reactor.unwatch(self._stream.fileno())
            self._stream.close()
            self._stream, self._event = None, b""

    def _connect(self) -> None:
        try:
            self._stream = EngineStream(self._engine.socket, "/events", filters=_FILTERS)
        except OSError as error:
            self._try_again(str(error))
            return
        self.connection += 1
        self._reactor.watch(self._stream.fileno(), self._on_event)
        self._engine.renew()
        self._connected()

    def _try_again(self, why: str) -> None:
        if self._retry.fresh:
            log.warning("the container engine does not answer: %s; trying again", why)
        self._reactor.after(self._retry.next(), self._connect)

    def _on_event(self) -> None:
        assert self._stream is not None
        data = self._stream.read()
        if data is None or self._stream.status not in (None, 200):
            self.disconnect("it closed the connection")
            return
        *lines, self._event = (self._event + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event["status"] == _DIED:
                self._died(event["id"])
            else:
                self._killed(event["id"])
