"""The store as one node-agent sees it: its desired state, the orders that change it, its reports."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grass import clock
from grass.store.backend import Backend, Entry, Op
from grass.store.keys import BELLS_KEPT, Keys


class OrdersGapError(Exception):
    """Orders were trimmed before this node read them: read ``desired`` again."""


@dataclass(frozen=True)
class Desired:
    """All that should be on the node, and the cursor from which to follow the orders."""

    entries: dict[str, dict[str, Any]]
    launch: dict[str, dict[str, Any]]
    addresses: dict[str, str]
    cursor: str


class NodeStore:
    def __init__(self, backend: Backend, keys: Keys, node: str) -> None:
        self._backend = backend
        self._node = node
        self._bell = keys.bell
        self._orders = keys.orders(node)
        self._reports = keys.reports(node)
        self._desired = (keys.desired(node), keys.launch(node), keys.addresses(node))
        self._number = 0

    def desired(self) -> Desired:
        """The cursor is read first: an order that falls in between is applied twice, which changes nothing."""
        newest = self._backend.newest(self._orders)
        self._number = order_number(newest)
        entries, launch, addresses = (self._backend.hgetall(key) for key in self._desired)
        return Desired(_decoded(entries), _decoded(launch), addresses, newest[0] if newest else "0-0")

    def orders(self, cursor: str, seconds: float) -> tuple[str, list[dict[str, Any]]]:
        """Orders after ``cursor``, waiting up to ``seconds`` for the first; and the cursor behind them."""
        found = self._backend.wait({self._orders: cursor}, seconds, limit=1000).get(self._orders, [])
        for entry in found:
            number = order_number(entry)
            if number != self._number + 1:
                raise OrdersGapError(f"order {self._number + 1} is gone, {number} is the next")
            self._number = number
        return (found[-1][0] if found else cursor), [json.loads(fields["body"]) for _, fields in found]

    def report(self, reports: list[tuple[str, dict[str, Any]]]) -> None:
        """Durable when it returns. In order; a repeat after a lost reply is harmless.

        A heartbeat can wait, so it does not ring; and it takes the place of the one before that nobody has read, so
        that a master-agent that is away for a day does not find a day of them.
        """
        now = f"{clock.wall():.3f}"
        only_alive = all(kind == "heartbeat" for kind, _ in reports)
        ops: list[Op] = []
        if only_alive and (unread := self._backend.newest(self._reports)) and unread[1].get("kind") == "heartbeat":
            ops.append(("XDEL", self._reports, unread[0]))
        ops += [
            ("XADD", self._reports, 0, "kind", kind, "body", json.dumps(body, separators=(",", ":")), "at", now)
            for kind, body in reports
        ]
        if not only_alive:
            ops.append(("XADD", self._bell, BELLS_KEPT, "node", self._node))
        self._backend.apply(ops)


def _decoded(texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {key: json.loads(text) for key, text in texts.items()}


def order_number(entry: Entry | None) -> int:
    """Orders of a node are numbered without gaps from 1, across restarts of the master-agent."""
    return int(entry[1]["number"]) if entry else 0
