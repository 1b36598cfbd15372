"""Readiness checks inside a container: run a command in it, find its address. Used by ``kind``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from grass.backoff import Backoff
from grass.errors import GrassError
from grass.system import clock
from node.runtime.reach import answers

if TYPE_CHECKING:
    from node.runtime.docker.engine import Engine

_FIRST_LOOK, _LONGEST_PAUSE = 0.02, 0.5


class ContainerCheck:
    """The check of one attempt. The engine cannot end a command: one that is late runs on, and is not started again.

    ``own_network``: the container does not use the host's network. The engine then accepts connections to its ports on
    the host whether or not a program listens in the container, so its own address is checked.
    """

    def __init__(self, cluster: str, key: str, argv: list[str], *, own_network: bool = False) -> None:
        self._cluster = cluster
        self._key = key
        self._own_network = own_network
        self._address = ""
        self._argv = argv
        self._under_way: str | None = None

    def answers(self, port: int) -> bool | None:
        """Return whether a program listens on a port of the container's address. None: it shares the host's network.
        Raises GrassError."""
        if not self._own_network:
            return None
        if not self._address:
            self._address = self._found_address()
        return bool(self._address) and answers((self._address,), port)

    def failure(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        """Return why the command has not ended with 0 within ``seconds``; empty if it has."""
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.plan import container_name

        try:
            with closing(Engine()) as engine:
                if self._under_way is None:
                    self._under_way = engine.begin(container_name(self._cluster, self._key), self._argv)
                code = _code(engine, self._under_way, clock.steady() + seconds, cancelled)
        except GrassError as error:
            self._under_way = None
            return f"its check cannot run in the container: {error}"
        if code is None:
            return f"its check did not end within {seconds:g} s"
        self._under_way = None
        return f"its check ended with exit code {code}" if code else ""

    def _found_address(self) -> str:
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.plan import container_name

        with closing(Engine()) as engine:
            networks = engine.inspect(container_name(self._cluster, self._key))["NetworkSettings"]["Networks"]
        return next((str(each["IPAddress"]) for each in networks.values() if each["IPAddress"]), "")


def _code(engine: Engine, execution: str, until: float, cancelled: Callable[[], bool]) -> int | None:
    pause = Backoff(_FIRST_LOOK, _LONGEST_PAUSE, 1.5)
    while True:
        code: int | None = engine.execution(execution)["ExitCode"]
        if code is not None or clock.steady() > until or cancelled():
            return code
        clock.sleep(pause.next())
