"""Machines that Grass sets up: one port, over a subprocess here or over SSH there.

``from grass.hosts import Host, Done, LocalHost``; ``SshHost`` is in ``grass.hosts.ssh``.
"""

from grass.hosts.errors import (
    AccessRefusedError,
    BecomeRootError,
    CommandFailedError,
    CommandTimeoutError,
    HostKeyError,
    HostUnreachableError,
)
from grass.hosts.local import LocalHost
from grass.hosts.port import Ask, Become, Done, Host, Stdin
from grass.hosts.words import Secret, command_line, shown

__all__ = [
    "AccessRefusedError",
    "Ask",
    "Become",
    "BecomeRootError",
    "CommandFailedError",
    "CommandTimeoutError",
    "Done",
    "Host",
    "HostKeyError",
    "HostUnreachableError",
    "LocalHost",
    "Secret",
    "Stdin",
    "command_line",
    "shown",
]
