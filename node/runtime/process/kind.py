"""The ``RuntimeKind`` of processes of the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from grass.config import ClusterConfig
from grass.errors import ConflictError, NotFoundError
from node.runtime.kind import Execution, SignedOff, Trial
from node.runtime.process.client import ProcessRuntime, ask
from node.runtime.process.execution import ProcessExecution
from node.runtime.protocol import Launch

_NVML = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"


class ProcessKind:
    host_view = True

    def open(
        self, config: ClusterConfig, share_is_mounted: Callable[[], bool], signed_off: SignedOff
    ) -> ProcessRuntime:
        return ProcessRuntime(config.socket("shepherd"))

    def execute(self, config: ClusterConfig, key: str, argv: list[str], size: tuple[int, int] | None) -> Execution:
        return ProcessExecution(self.pid(config, key), argv, size)

    def pid(self, config: ClusterConfig, key: str) -> int:
        for attempt in ask(config.socket("shepherd"), "list"):
            if attempt.key == key:
                if attempt.pid is None or attempt.ended is not None:
                    raise ConflictError(f"attempt {key} does not run now")
                return attempt.pid
        raise NotFoundError(f"no attempt {key} on this node")

    def inside(self, config: ClusterConfig, key: str, argv: list[str], launch: Launch) -> None:
        return None

    def trial(self, config: ClusterConfig, said: str, gpus: Sequence[int]) -> Trial:
        script = f"echo {said}" + (f'; exec "{sys.executable}" -c "{_NVML}"' if gpus else "")
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GRASS_DATA": str(config.data_dir)}
        launch = Launch(["/bin/sh", "-c", script], env, None, 5.0)
        return Trial(ProcessRuntime(config.socket("shepherd")), launch, "look into the shepherd's log")
