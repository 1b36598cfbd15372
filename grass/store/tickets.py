"""The port through which a ticket is filed: of the API, and of what decides for itself, such as a rule of the monitor.

It can ask the master-agent for anything, and change nothing by itself. Used by ``api_store`` and ``master.monitor``.
"""

from __future__ import annotations

from grass.store.backend import Backend
from grass.store.keys import Keys
from grass.wire.codec import encode
from grass.wire.tickets import FREEING, Ticket


class Tickets:
    """Files tickets: operations on jobs (``ScaleJob`` and others), and all else that the master-agent is asked for."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys

    def ticket(self, ticket: Ticket) -> None:
        """File a ticket. It is durable when this returns. One that ends or frees something works on a full disk."""
        urgent = isinstance(ticket, FREEING)
        self._backend.apply([("XADD", self._keys.tickets, 0, "body", encode(ticket))], urgent=urgent)
