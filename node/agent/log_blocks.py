"""Cut a task's output into blocks (``grass.wire.log_block``). Pure; called by the shipper.

A block has at most ``BLOCK`` bytes and ends after a newline if there is one. It never ends inside a UTF-8 code point
of UTF-8 text, so text stays text.
"""

from __future__ import annotations

BLOCK = 64 * 1024


def block_end(data: bytes, start: int = 0, *, flush: bool = False, end: bool = False) -> int:
    """Return the end of the block that begins at ``start``; ``start`` itself means: wait for more.

    ``flush``: an incomplete line has waited long enough. ``end``: nothing follows ``data``.
    """
    stop = min(start + BLOCK, len(data))
    newline = data.rfind(b"\n", start, stop)
    if newline >= 0:
        return newline + 1
    if end and stop == len(data):
        return stop
    if flush or stop - start == BLOCK:
        return _before_torn_code_point(data, start, stop)
    return start


def _before_torn_code_point(data: bytes, start: int, stop: int) -> int:
    """Return ``stop``, or up to three bytes before it if ``stop`` is inside a code point."""
    for back in range(1, min(3, stop - start) + 1):
        byte = data[stop - back]
        if byte & 0xC0 == 0x80:
            continue
        width = 4 if 0xF0 <= byte <= 0xF4 else 3 if 0xE0 <= byte < 0xF0 else 2 if 0xC2 <= byte < 0xE0 else 1
        return stop - back if width > back else stop
    return stop
