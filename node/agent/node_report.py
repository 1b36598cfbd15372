"""What the node-agent tells the master of its node: the hello and the heartbeats. Used by ``loop``.

It measures and collects; when something is told, and through what, the loop decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from grass.config import ClusterConfig
from grass.model.reasons import Reason
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import Heartbeat
from grass.wire.hello import Hello, Probe
from node.agent.gpu import GpuWatch
from node.agent.programs import Programs
from node.agent.usage import Usage, hello
from node.agent.versions import Versions
from node.runtime import control_groups


class NodeReport:
    """Makes the hello and the heartbeats.

    ``watch``: measures the GPUs. ``probe``: its result. ``path``: where programs are looked for, as in PATH.
    """

    def __init__(
        self,
        config: ClusterConfig,
        gpus: Sequence[GpuDevice],
        watch: GpuWatch,
        probe: Probe | None,
        path: str | None,
    ) -> None:
        self._config = config
        self._gpus = gpus
        self._watch = watch
        self._probe = probe
        self._usage = Usage(config.node_dir)
        self._programs = Programs(path)
        self._versions = Versions(config.node.runtimes, gpus)

    def start(self) -> None:
        self._programs.start()
        self._versions.start()

    def stop(self) -> None:
        self._programs.stop()
        self._versions.stop()

    def hello(self, blocked_by: tuple[Reason, ...]) -> Hello:
        """Return what the node has. ``blocked_by``: why nothing starts on it now."""
        versions = {**self._versions.now(), **control_groups.limits(self._config.node_dir)}
        return hello(self._config, self._gpus, self._probe, blocked_by, self._programs.now(), versions)

    def heartbeat(self, blocked_by: tuple[Reason, ...]) -> Heartbeat:
        """Return how the node is now. ``blocked_by``: as for ``hello``."""
        return Heartbeat(self._usage.sample(self._watch.reading().samples), blocked_by, self._programs.now())
