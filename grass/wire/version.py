"""The number of the protocol that this version of Grass speaks. It is in every hello and in the API.

It grows with each incompatible change of this package. The master quarantines a node with another number, and the API
refuses such a client, both with a reason. Used by ``grass.api``, ``master.agent``, ``master.api`` and ``node.agent``.
"""

from __future__ import annotations

PROTOCOL = 2


def mismatch(peer: str, protocol: int, version: str, own_version: str) -> str | None:
    """Return why ``peer`` ("node n1") is refused; None: same protocol. ``protocol`` 0: it stated none."""
    if protocol == PROTOCOL:
        return None
    spoken = f"protocol {protocol}" if protocol else "no known protocol"
    return (
        f"{peer} speaks {spoken} (Grass {version or 'of an unknown version'}), the master speaks protocol {PROTOCOL} "
        f"(Grass {own_version}); install Grass {own_version} there"
    )
