"""The body of an answer over HTTP, within bounds: a node that was taken over must not fill the memory of its caller.

Used by ``master.api.node_client`` and ``node.membership.forwarding``.
"""

from __future__ import annotations

from http.client import HTTPResponse

from grass import clock
from grass.model.amounts import show_memory

MOST = 16 << 20
"""Bytes. The longest answer of a sound node is the last words of a forward: 8 MiB, encoded in base64."""


def read_body(response: HTTPResponse, seconds: float, most: int = MOST) -> bytes:
    """Return the body. Raises OSError for one of more than ``most`` bytes, or one that takes longer than ``seconds``.

    A single read waits as long as the time-out of the socket says.
    """
    until = clock.steady() + seconds
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise OSError(f"its answer has more than {show_memory(most)}")
        if clock.steady() > until:
            raise TimeoutError(f"its answer took longer than {seconds:g} s")
    return b"".join(pieces)
