"""The order of tasks that work together: neighbours in the network are neighbours in rank. Pure.

Used by ``master.agent.members``, which makes memberships, and by ``master.api.ranks``, which shows them.
"""

from __future__ import annotations

from collections.abc import Sequence


def rank_key(path: Sequence[str], index: int) -> tuple[tuple[str, ...], int]:
    """Return the key to sort members by. ``path``: topology of the node of a task, from the outside in."""
    return tuple(path), index
