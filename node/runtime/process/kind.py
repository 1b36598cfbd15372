"""The ``RuntimeKind`` of processes of the host. Loaded by the registry, by its name."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence
from functools import partial

from grass.errors import ConflictError, GrassError, NotFoundError
from grass.node_config import NodeHome
from grass.system import clock
from node.runtime.isolation.visible_files import PROBE_USER
from node.runtime.kind import Execution, RuntimeKind, SignedOff, Trial
from node.runtime.process.beside import Child, OfShepherd
from node.runtime.process.client import ProcessRuntime, ask
from node.runtime.process.execution import ProcessExecution, StartBeside
from node.runtime.protocol import Launch
from node.runtime.reach import HostReach
from node.runtime.shepherd_messages import ListAttempts

_GLANCE = 0.2
_NVML = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"


def _beside(config: NodeHome, key: str, pid: int) -> StartBeside:
    """Return what starts commands beside an attempt, whose process is ``pid``."""
    if config.node.isolate is None:
        return partial(Child, pid)
    return partial(OfShepherd, config.socket("shepherd"), key)


class IsolatedInside:
    """The readiness check of an isolated attempt: a command in its view, under its account."""

    def __init__(self, config: NodeHome, key: str, argv: list[str]) -> None:
        self._config = config
        self._key = key
        self._argv = argv

    def answers(self, port: int) -> None:
        return None

    def failure(self, seconds: float, cancelled: Callable[[], bool]) -> str:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            path = self._config.socket("shepherd")
            command = OfShepherd(path, self._key, self._argv, {}, [nothing] * 3, False)
        except GrassError as error:
            return f"its check cannot run: {error}"
        finally:
            os.close(nothing)
        try:
            until = clock.steady() + seconds
            while not command.has_ended():
                if cancelled() or clock.steady() >= until:
                    return f"its check did not end within {seconds:g} s"
                select.select([command], [], [], min(_GLANCE, max(0.0, until - clock.steady())))
            code = command.code()
            ended = f"with exit code {code}" if code > 0 else f"by signal {-code}"
            return f"its check ended {ended}" if code else ""
        finally:
            command.kill()
            command.close()


def _pid(config: NodeHome, key: str) -> int:
    for attempt in ask(config.socket("shepherd"), ListAttempts()):
        if attempt.key == key:
            if attempt.pid is None or attempt.ended is not None:
                raise ConflictError(f"attempt {key} does not run now")
            return attempt.pid
    raise NotFoundError(f"no attempt {key} on this node")


class ProcessKind:
    def version(self) -> str:
        return ""

    def open(self, config: NodeHome, share_is_mounted: Callable[[], bool], signed_off: SignedOff) -> ProcessRuntime:
        return ProcessRuntime(config.socket("shepherd"))

    def execute(self, config: NodeHome, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
        pid = _pid(config, key)
        return ProcessExecution(pid, argv, size, _beside(config, key, pid))

    def reach(self, config: NodeHome, key: str) -> HostReach:
        return HostReach(config, key, _pid)

    def first_process(self, config: NodeHome, key: str) -> int:
        return _pid(config, key)

    def programs(self, config: NodeHome, image: str, wanted: Sequence[str]) -> tuple[str, ...] | None:
        return None

    def inside(self, config: NodeHome, key: str, argv: list[str], launch: Launch) -> IsolatedInside | None:
        return IsolatedInside(config, key, argv) if argv and config.node.isolate else None

    def sweep(self, config: NodeHome, *, remove: bool) -> None:
        """The shepherd ends its processes with itself."""

    def trial(self, config: NodeHome, said: str, gpus: Sequence[int]) -> Trial:
        script = f"echo {said}" + (f'; exec "{sys.executable}" -c "{_NVML}"' if gpus else "")
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GRASS_DATA": str(config.data_dir)}
        launch = Launch(["/bin/sh", "-c", script], env, None, 5.0, user=PROBE_USER)
        return Trial(ProcessRuntime(config.socket("shepherd")), launch, "look into the shepherd's log")


KIND: RuntimeKind = ProcessKind()
