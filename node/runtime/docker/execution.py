"""A command in the container of an attempt, started through the engine. Used by the node-api-server."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from grass.config import ClusterConfig
from grass.errors import ConflictError, GrassError, InputError, NotFoundError, UnreachableError
from node.runtime.docker.engine_json import Answer
from node.runtime.docker.exec_end import kill
from node.runtime.docker.plan import CLUSTER, container_name
from node.runtime.docker.streams import Demultiplexer, EngineTerminal
from node.runtime.kind import Output

if TYPE_CHECKING:
    from node.runtime.docker.engine import Engine

_WRITE_SECONDS = 2.0


def running_container(engine: Engine, config: ClusterConfig, key: str) -> Answer:
    """Return what the engine says about the container of a running attempt. Raises NotFoundError and ConflictError."""
    try:
        container = engine.inspect(container_name(config.name, key))
    except NotFoundError as error:
        raise NotFoundError(f"no attempt {key} on this node") from error
    if (container["Config"]["Labels"] or {}).get(CLUSTER) != config.name:
        raise NotFoundError(f"no attempt {key} on this node")
    if not container["State"]["Running"]:
        raise ConflictError(f"attempt {key} does not run now")
    return container


class ContainerExecution:
    """An ``Execution`` in a container. ``size``: rows and columns of a terminal; None: no terminal."""

    def __init__(self, config: ClusterConfig, key: str, argv: list[str], size: tuple[int, int] | None) -> None:
        from node.runtime.docker.engine import Engine  # imported at first use: it costs 15 MiB

        self._engine = Engine()
        self._tty = size is not None
        self._frames = Demultiplexer()
        try:
            self._container = str(running_container(self._engine, config, key)["Id"])
            self._id = self._engine.prepare(self._container, argv, tty=self._tty)
            self._connection = EngineTerminal(self._engine.socket, self._id, tty=self._tty)
            if size is not None:
                self.resize(*size)
        except OSError as error:
            self._engine.close()
            raise UnreachableError(f"the container engine does not answer: {error}") from error
        except GrassError:
            self._engine.close()
            raise

    @property
    def pid(self) -> None:
        return None

    def descriptors(self) -> list[int]:
        return [self._connection.fileno()]

    def read(self, descriptor: int) -> Output | None:
        data = self._connection.read()
        if data is None:
            return None
        if self._tty:
            return [("stdout", data)] if data else []
        return [(name, bytes(part)) for name, part in self._frames.feed(data)]

    def write(self, data: bytes) -> int:
        return self._connection.write(data, _WRITE_SECONDS)

    def end_input(self) -> None:
        if self._tty:
            self.write(b"\x04")
        else:
            self._connection.end_input()

    def resize(self, rows: int, columns: int) -> None:
        with suppress(InputError, ConflictError, NotFoundError):  # it has ended, or has not quite started
            self._engine.resize_terminal(self._id, rows, columns)

    def signal(self, number: int) -> None:
        """Signal the command, in a thread: the engine may take a while."""
        threading.Thread(target=self._signal, args=(number,), name="exec-signal", daemon=True).start()

    def _signal(self, number: int) -> None:
        with suppress(GrassError):
            kill(self._engine, self._container, self._id, signal.Signals(number))

    def code(self) -> int:
        return self._engine.exit_code(self._id)

    def end(self) -> None:
        """Disconnect and kill the command, which the engine would not. In a thread: the engine may take a while."""
        self._connection.close()
        threading.Thread(target=self._kill, name="exec-end", daemon=True).start()

    def _kill(self) -> None:
        with suppress(GrassError):
            kill(self._engine, self._container, self._id)
        self._engine.close()
