"""``tf``: the variable ``TF_CONFIG`` of TensorFlow's distribution strategies.

The cluster has each component of the job that has a port of the given name (option ``port``, by default ``tf``), except
``evaluator``, which TensorFlow keeps out of it. Used by ``registry``.
"""

from __future__ import annotations

from grass.frameworks.seat import Rendered, Seat
from grass.model.framework import TF_PORT
from grass.network_address import network_address
from grass.wire.codec import encode

EVALUATOR = "evaluator"


def render(seat: Seat) -> Rendered:
    name = str(seat.framework.options.get("port", TF_PORT))
    cluster: dict[str, list[str]] = {}
    for component, membership in seat.memberships.items():
        if component == EVALUATOR:
            continue
        for member in sorted(membership.members, key=lambda each: each.rank):
            if name in member.ports:
                cluster.setdefault(component, []).append(network_address(member.address, member.ports[name]))
    own = seat.member
    config = {"cluster": cluster, "task": {"type": seat.component, "index": own.rank if own else seat.index}}
    return Rendered({"TF_CONFIG": encode(config)})
