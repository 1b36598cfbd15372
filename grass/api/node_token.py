"""The secret shared by the master and one node. It is derived, so that the master stores no list. Pure."""

from __future__ import annotations

import hmac


def node_token(master_secret: str, node: str) -> str:
    """Return the node's token. ``master_secret``: ``node_token`` in the master's secrets."""
    return hmac.digest(master_secret.encode(), node.encode(), "sha256").hex()
