"""The type of a route of the API. The table of routes is in ``job_routes``, ``cluster_routes`` and ``routes``.

Used by this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import msgspec

from grass.api.keyring import Role
from grass.wire import calls

_RANK = {Role.VIEWER: 0, Role.USER: 1, Role.ADMIN: 2}


class Access(str, Enum):
    """How a request must be authenticated."""

    SESSION = "session"
    """Encrypted with the key of a session that a user has opened."""
    SIGNED = "signed"
    """Signed by a user. Only for opening a session."""
    UNSIGNED = "unsigned"
    """Encrypted but not signed, of an unauthenticated client. The handler must check a secret in the body."""


@dataclass(frozen=True)
class Parameter:
    """One query parameter. Without a default it is optional and None when absent."""

    type: Literal["string", "boolean", "integer", "number"]
    summary: str
    default: str | bool | float | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class Route:
    """One call of the API.

    ``operation``: noun and name, such as ``job.stop``. ``address``: method and path. ``role``: the lowest role that may
    call it. ``request`` and ``response``: types of ``grass.wire``. ``stream``: the reply is a sequence of encrypted
    objects, one per line, the last one marked.
    """

    operation: str
    address: str
    role: Role
    summary: str
    response: type[msgspec.Struct]
    request: type[calls.Call] | None = None
    query: Mapping[str, Parameter] = field(default_factory=dict)
    stream: bool = False
    takes_id: bool = False
    """Whether the handler stores the request id in the same step as its change, which saves one write."""
    access: Access = Access.SESSION

    @property
    def reads(self) -> bool:
        """Return whether the call changes nothing."""
        return self.method == "GET" or self.stream

    @property
    def noun(self) -> str:
        return self.operation.partition(".")[0]

    @property
    def name(self) -> str:
        return self.operation.partition(".")[2]

    @property
    def method(self) -> str:
        return self.address.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.address.partition(" ")[2]

    def admits(self, role: Role) -> bool:
        """Return whether a user with this role may call it."""
        return _RANK[role] >= _RANK[self.role]


READ, WRITE, RULE = Role.VIEWER, Role.USER, Role.ADMIN
"""The lowest role for a route, by what its call does."""
