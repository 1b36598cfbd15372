"""The secret shared by the master and one node. It is derived, so that the master stores no list. Pure.

Each join has another token: a machine that was removed cannot use its own for a later node of the same name.
Used by ``master.api`` and ``master.collector``.
"""

from __future__ import annotations

import hmac

_JOIN = 16
"""Hexadecimal digits of a token that say to which join it belongs."""


def node_token(master_secret: str, node: str, joined: str = "") -> str:
    """Return the node's token. ``master_secret``: ``node_token`` in the master's secrets.

    ``joined``: ``digest`` of the node's record, which differs at each join.
    """
    join = joined[:_JOIN]
    return f"{join}.{hmac.digest(master_secret.encode(), f'{node}:{join}'.encode(), 'sha256').hex()}"


def is_node_token(given: str, master_secret: str, node: str, joined: str | None) -> bool:
    """Return whether this is the token of the node. ``joined``: as in ``node_token``.

    None: the node is gone. Then the token of any of its joins is accepted, so that its machine learns this.
    """
    join = given.partition(".")[0] if joined is None else joined
    return hmac.compare_digest(given.encode(), node_token(master_secret, node, join).encode())
