"""The runtimes that this node offers, as one; what belongs to containers is imported only where they are offered."""

from __future__ import annotations

from grass.config import ClusterConfig
from grass.errors import InputError
from node.agent.passed import mounted
from node.runtime.composite import CompositeRuntime
from node.runtime.process.client import ProcessRuntime
from node.runtime.protocol import Runtime

PROCESS, DOCKER = "process", "docker"


def open_runtime(config: ClusterConfig) -> Runtime:
    """Raises InputError for one that does not exist."""
    made = {name: _open(config, name) for name in config.node.runtimes}
    return next(iter(made.values())) if len(made) == 1 else CompositeRuntime(made)


def _open(config: ClusterConfig, name: str) -> Runtime:
    if name == PROCESS:
        return ProcessRuntime(config.socket("shepherd"))
    if name == DOCKER:
        from node.agent.images import Images
        from node.runtime.docker.engine import Engine
        from node.runtime.docker.runtime import DockerRuntime

        folder, state = config.data_dir / "images", config.node_dir / "images.json"
        images = Images(Engine(), folder, state, mounted=mounted(config))
        return DockerRuntime(config, Engine(), images)
    raise InputError(f"node.runtimes: must be of process and docker, got {name!r}")
