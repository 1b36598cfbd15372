"""Questions of the API server to the monitor: for the page ``/metrics``, and for what users keep in the share.

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


class ApiFigures(msgspec.Struct, tag_field="ask", tag="page"):
    """A question for the page. It says how the API server is doing."""

    operations: dict[str, Operation] = {}
    """By ``operationId``."""
    waiting: int = 0
    """Requests that wait or follow now."""


class KeptQuestion(msgspec.Struct, frozen=True, tag_field="ask", tag="kept"):
    """A question for what users keep in the share, to be measured now."""


class KeptAnswer(msgspec.Struct, frozen=True):
    """What users with a quota keep in the share, at the last measurement of all that may have changed."""

    users: dict[str, dict[str, int]]
    """User → ``space`` in bytes, and number of ``files``."""
    age: float | None = None
    """Seconds since that measurement began. None: there was none yet."""


QUESTION: Form[ApiFigures | KeptQuestion] = Form(ApiFigures | KeptQuestion)
KEPT_ANSWER: Form[KeptAnswer] = Form(KeptAnswer)
