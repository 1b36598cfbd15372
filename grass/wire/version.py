"""The protocol that this version of Grass speaks: one number, said in every hello and by the API.

It grows with each change of this package after which an older or newer peer could misunderstand. Peers with another
number do not work together: the master quarantines such a node, and the API refuses such a client, both with a reason.
"""

from __future__ import annotations

PROTOCOL = 1


def mismatch(peer: str, protocol: int, version: str, own_version: str) -> str | None:
    """Why ``peer`` ("node n1") is refused; None: it speaks the same protocol. ``protocol`` 0: it named none."""
    if protocol == PROTOCOL:
        return None
    spoken = f"protocol {protocol}" if protocol else "no known protocol"
    return (
        f"{peer} speaks {spoken} (Grass {version or 'of an unknown version'}), the master speaks protocol {PROTOCOL} "
        f"(Grass {own_version}); install Grass {own_version} there"
    )
