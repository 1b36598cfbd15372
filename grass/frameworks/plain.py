"""``none``: addresses and environment as every task has them, and nothing else. Used by ``registry``."""

from __future__ import annotations

from grass.frameworks.seat import Rendered, Seat


def render(seat: Seat) -> Rendered:
    return Rendered()
