"""Tickets and reports in tests, written as plain dicts and checked against the types of ``grass.wire``."""

from __future__ import annotations

from typing import Any

from grass.wire.reports import REPORT, Report
from grass.wire.tickets import TICKET, Ticket
from grass.wire.version import PROTOCOL, REVISION


def report(kind: str, body: dict[str, Any]) -> Report:
    """Make a ``hello``, ``heartbeat`` or ``tasks`` report. A hello has this protocol version by default."""
    spoken = {"protocol": PROTOCOL, "revision": REVISION} if kind == "hello" else {}
    return REPORT.convert({"kind": kind, **spoken, **body})


def ticket(kind: str, **body: Any) -> Ticket:
    return TICKET.convert({"kind": kind, **body})


HELLO = {"boot_id": "b", "version": "0", "address": "10.0.0.1", "api_port": 1, "resources": {"cpu": 1000}}
"""The smallest valid hello."""
