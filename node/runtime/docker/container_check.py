"""What a readiness check needs of the container of its attempt: a command run in it, its address."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from grass import clock
from grass.backoff import Backoff
from grass.errors import GrassError

if TYPE_CHECKING:
    from node.runtime.docker.engine import Engine

_FIRST_LOOK, _LONGEST_PAUSE = 0.02, 0.5


class ContainerCheck:
    """The engine cannot end a command alone: one that does not end in time runs on, and is not begun once more.

    ``own_network``: it does not have the host's. What accepts connections to its ports on the host is then the engine,
    whether or not anything listens in the container.
    """

    def __init__(self, cluster: str, key: str, argv: list[str], *, own_network: bool = False) -> None:
        self._cluster = cluster
        self._key = key
        self._own_network = own_network
        self._address = ""
        self._argv = argv
        self._under_way: str | None = None

    def addresses(self) -> tuple[str, ...] | None:
        """Where its ports answer, as far as the engine knows by now; None: where the host's do. Raises GrassError."""
        if not self._own_network:
            return None
        if not self._address:
            self._address = self._found_address()
        return (self._address,) if self._address else ()

    def failure(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        """Why it has not ended with 0 within ``seconds``; empty when it has."""
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.plan import container_name

        try:
            with closing(Engine()) as engine:
                if self._under_way is None:
                    self._under_way = engine.begin(container_name(self._cluster, self._key), self._argv)
                code = _code(engine, self._under_way, clock.steady() + seconds, cancelled)
        except GrassError as error:
            self._under_way = None
            return f"its check cannot run in its container: {error}"
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
