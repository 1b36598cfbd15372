"""Connections that have proved nothing yet: how many there may be, and which to close for the next one. Pure.

Whoever reaches a port can open connections, without a certificate or a key. Used by the front and the log collector.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Newcomers(Generic[T]):
    """The connections by address, the oldest of each first.

    ``most``: of all addresses together. ``of_address``: of one.
    """

    def __init__(self, most: int, of_address: int) -> None:
        self._most = most
        self._of_address = of_address
        self._by_address: dict[str, dict[T, None]] = {}
        self._addresses: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def __iter__(self) -> Iterator[T]:
        return iter(self._addresses)

    def add(self, address: str, peer: T) -> None:
        self._by_address.setdefault(address, {})[peer] = None
        self._addresses[peer] = address

    def remove(self, peer: T) -> None:
        """Forget a connection that was closed, or that has proved who it is. Unknown ones are ignored."""
        address = self._addresses.pop(peer, None)
        if address is not None:
            del self._by_address[address][peer]
            if not self._by_address[address]:
                del self._by_address[address]

    def to_close(self, address: str, others: int = 0) -> T | None:
        """Return the connection to close before one of ``address`` is taken; None: there is room.

        It is the oldest of this address if that has too many, otherwise of the address that has the most. ``others``:
        connections that count, too, but are none of these.
        """
        own = self._by_address.get(address, {})
        if len(own) >= self._of_address:
            return next(iter(own))
        if self._addresses and len(self._addresses) + others >= self._most:
            busiest = max(self._by_address, key=lambda each: len(self._by_address[each]))
            return next(iter(self._by_address[busiest]))
        return None
