"""The secret between the master and one node: derived, so that the master stores none. Pure."""

from __future__ import annotations

import hmac


def node_token(master_secret: str, node: str) -> str:
    """``master_secret``: ``node_token`` in the master's secrets."""
    return hmac.digest(master_secret.encode(), node.encode(), "sha256").hex()
