"""The runtimes: how a node runs tasks. Pure. The package ``node.runtime.<name>`` has the runtime itself.

Used by all packages.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum


class RuntimeName(str, Enum):
    """The only list of runtimes. A new one is a line here and its package, with a ``KIND`` in the module ``kind``."""

    PROCESS = "process"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"

    @property
    def contained(self) -> bool:
        """Return whether tasks run in an image.

        They see what is mounted for them, instead of the host's files and the node-agent's environment. They are
        children of an engine, so that they go on when all processes of Grass have ended.
        """
        return self is not RuntimeName.PROCESS


RUNTIMES = tuple(each.value for each in RuntimeName)
"""As job files, settings and nodes spell them."""


def runs_without_image(runtimes: Collection[str], default_image: str) -> bool:
    """Return whether a node runs tasks that name no image: as processes, or in an image of its own settings."""
    return RuntimeName.PROCESS.value in runtimes or bool(default_image)


PROCESSES_ONLY = (RuntimeName.PROCESS.value,)
"""What a node offers unless it says more."""
OF_MACHINES = (RuntimeName.PROCESS.value, RuntimeName.DOCKER.value)
"""What a machine may offer. A namespace of Kubernetes offers pods only."""
