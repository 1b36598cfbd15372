"""Errors of hosts, by what the caller can do about them.

HostUnreachableError (UnreachableError)   nothing answers there: address, port, network, is the machine up
AccessRefusedError (InputError)           it answers and does not let this user in
├── HostKeyError                          … it is not the machine that it was
└── BecomeRootError                       … it lets the user in, but not become root
CommandFailedError                        a command ended with something else than 0
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
