"""A user's recent use of the cluster, for fair shares, and what the user keeps in the share.

Written by the master-agent, read by the API server.
"""

from __future__ import annotations

from typing import NamedTuple

from grass.wire.codec import Form


class UsageRecord(NamedTuple):
    """The decayed usage of one user. By user in the hash ``usage``. As JSON: a list."""

    value: float
    """Share of the cluster times seconds, decayed to ``at``."""
    at: float
    """Steady seconds."""
    boot: str
    """Boot that ``at`` belongs to."""


USAGE_RECORD: Form[UsageRecord] = Form(UsageRecord)
KEPT_FILES: Form[dict[str, int]] = Form(dict[str, int])
"""By user in the hash ``kept-files``: ``space`` in bytes and ``files`` in number, if a quota limits them."""
