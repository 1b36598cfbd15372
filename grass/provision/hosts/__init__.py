"""Machines that Grass sets up: one port, over a subprocess here or over SSH there.

``from grass.provision.hosts import Host, Done, LocalHost``; ``SshHost`` is in ``grass.provision.hosts.ssh``.
"""

from grass.provision.hosts.errors import (
    AccessRefusedError,
    BecomeRootError,
    CommandFailedError,
    CommandTimeoutError,
    HostKeyError,
    HostUnreachableError,
)
from grass.provision.hosts.local import LocalHost
from grass.provision.hosts.port import Become, Done, Host, Stdin
from grass.provision.hosts.words import Secret, command_line, shown

__all__ = [
    "AccessRefusedError",
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
