"""Errors of hosts, by what the caller can do about them.

Used by ``host``, ``local``, ``ssh`` and ``grass.hosts``.

HostUnreachableError (UnreachableError)   no answer: check address, port, network and the machine
AccessRefusedError (InputError)           the machine refuses this user
├── HostKeyError                          … its host key differs from the pinned one
└── BecomeRootError                       … the user can log in but not become root
CommandFailedError                        a command ended with a code other than 0
└── CommandTimeoutError                   … or did not end in time
"""

from __future__ import annotations

from grass.errors import GrassError, InputError, UnreachableError


class HostUnreachableError(UnreachableError):
    code = "unreachable"


class AccessRefusedError(InputError):
    code = "access-refused"


class HostKeyError(AccessRefusedError):
    code = "host-key"


class BecomeRootError(AccessRefusedError):
    code = "become-root"


class CommandFailedError(GrassError):
    code = "command-failed"


class CommandTimeoutError(CommandFailedError):
    code = "command-timeout"
