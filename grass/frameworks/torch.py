"""``torch``: one process per task, with the ranks of the membership at its start (``init_method="env://"``).

There is no elasticity: the group of a process cannot change. Use ``torchrun`` for that. Used by ``registry``.
"""

from __future__ import annotations

from grass.frameworks.seat import Rendered, Seat, integer

DEFAULT_PORT = 29500
PORT = "master"
"""Name of the component's port on which rank 0 listens. Without such a port, option ``port`` or 29500."""


def render(seat: Seat) -> Rendered:
    members, own = seat.membership.members, seat.member
    rank = own.rank if own else seat.index
    first = members[0] if members else None
    port = first.ports.get(PORT) if first else seat.ports.get(PORT)
    return Rendered(
        {
            "MASTER_ADDR": first.address if first else seat.address,
            "MASTER_PORT": str(port or integer(seat.framework, "port", DEFAULT_PORT)),
            "RANK": str(rank),
            "WORLD_SIZE": str(max(1, len(members), seat.membership.desired)),
            "GROUP_RANK": str(rank),
            "NODE_RANK": str(rank),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
        }
    )
