"""How long the server keeps a request of the API open, at most.

Apart from ``calls``, so that the client need not load its types. Used by ``grass.api`` and ``master.api``.
"""

from __future__ import annotations

LONGEST_WAIT = 25.0
"""Seconds that one request may wait on the server. The client then asks again."""
LONGEST_STREAM = 3600.0
"""Seconds that one stream about a job may last. The client then opens another."""
