"""Grass turns the machines you have into a cluster for distributed training and simulation.

``from grass import Client`` is the whole public Python interface. It is loaded at first use, so that ``import grass``,
which every daemon and every CLI call does, stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Client", "__version__"]

if TYPE_CHECKING:
    from grass.api.client import Client


def __getattr__(name: str) -> object:
    if name == "Client":
        from grass.api.client import Client

        return Client
    raise AttributeError(f"module 'grass' has no attribute {name!r}")
