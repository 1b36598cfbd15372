"""How the API server is doing, for ``/metrics``: what it sends to the monitor with each question for the page.

Used by ``master.api`` and ``master.monitor``.
"""

from __future__ import annotations

import msgspec

from grass.wire.codec import Form

LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the classes of latency, in seconds. One more class holds what took longer."""


class Operation(msgspec.Struct):
    """The requests of one route since the API server began."""

    counts: list[int]
    """Requests in each class of ``LATENCIES``; a stream counts until its first object."""
    seconds: float = 0.0
    """Sum of their latencies, in seconds."""
    errors: int = 0
    """Requests that were answered with a status of 500 or more."""


class ApiFigures(msgspec.Struct):
    operations: dict[str, Operation] = {}
    """By ``operationId``."""
    waiting: int = 0
    """Requests that wait or follow now."""


API_FIGURES: Form[ApiFigures] = Form(ApiFigures)
