"""Dask as the peer of ``Executor``, in a virtual environment and a process of its own."""

from __future__ import annotations

from peer_environment import Peer, interpreter

VERSION = "2026.8.0"


class Dask(Peer):
    """A running ``distributed.LocalCluster`` with one process per core. Use as a context."""

    def __init__(self) -> None:
        super().__init__(interpreter(f"dask-{VERSION}", f"dask[distributed]=={VERSION}"), "dask_driver.py")

    def __enter__(self) -> Dask:
        return self

    def functions(self, count: int) -> dict[str, float]:
        """``seconds`` from the first of so many calls of ``abs`` in one ``map`` to the last result."""
        return self.ask({"count": count})
