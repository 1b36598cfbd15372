"""Where `/metrics` is served over TLS, for scrapers on other machines. Pure.

Used by ``policy``, ``grass.api.metrics_tls``, ``grass.manifest.metrics`` and ``master.api.metrics_tls``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MetricsListen:
    """Section ``metrics`` of the settings. ``listen``: ``host:port``. The others are PEM files on the master's host.

    ``clients``: certificates of the authorities whose client certificates need no token; None: all send the token.
    """

    listen: str
    certificate: str
    key: str
    clients: str | None = None
