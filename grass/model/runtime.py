"""The names of the runtimes: how a node runs tasks. Pure. ``node.runtime.registry`` has the runtimes themselves.

Used by all packages.
"""

from __future__ import annotations

from enum import Enum


class RuntimeName(str, Enum):
    PROCESS = "process"
    DOCKER = "docker"


RUNTIMES = tuple(each.value for each in RuntimeName)
"""As job files, settings and nodes spell them."""

PROCESSES_ONLY = (RuntimeName.PROCESS.value,)
"""What a node offers unless it says more."""
