"""Machines that Grass sets up: one interface, over subprocesses on this machine or over SSH.

``from grass.hosts import Host, Done, LocalHost``; ``SshHost`` is in ``grass.hosts.ssh``.
Used by ``grass.provision`` and the tunnel of the API's client. A host knows nothing of clusters.
"""

from grass.hosts.command_line import Secret, command_line, shown
from grass.hosts.errors import (
    AccessRefusedError,
    BecomeRootError,
    CommandFailedError,
    CommandTimeoutError,
    HostKeyError,
    HostUnreachableError,
)
from grass.hosts.host import Ask, Become, Done, Host, Stdin
from grass.hosts.local import LocalHost

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
