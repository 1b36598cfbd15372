"""The command of a readiness check, run in the container of its attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grass import clock
from grass.errors import GrassError

if TYPE_CHECKING:
    from node.runtime.docker.engine import Engine

_FIRST_LOOK, _LONGEST_PAUSE = 0.02, 0.5


class Inside:
    """The engine cannot end a command alone: one that does not end in time runs on, and is not begun once more."""

    def __init__(self, cluster: str, key: str, argv: list[str]) -> None:
        self._cluster = cluster
        self._key = key
        self._argv = argv
        self._under_way: str | None = None

    def failure(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        """Why it has not ended with 0 within ``seconds``; empty when it has."""
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.plan import container_name

        engine = Engine()
        try:
            if self._under_way is None:
                self._under_way = engine.begin(container_name(self._cluster, self._key), self._argv)
            code = _code(engine, self._under_way, clock.steady() + seconds, cancelled)
        except GrassError as error:
            self._under_way = None
            return f"its check cannot run in its container: {error}"
        finally:
            engine.close()
        if code is None:
            return f"its check did not end within {seconds:g} s"
        self._under_way = None
        return f"its check ended with exit code {code}" if code else ""


def _code(engine: Engine, execution: str, until: float, cancelled: Callable[[], bool]) -> int | None:
    pause = _FIRST_LOOK
    while True:
        code: int | None = engine.execution(execution)["ExitCode"]
        if code is not None or clock.steady() > until or cancelled():
            return code
        clock.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
