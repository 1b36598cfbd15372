"""The collector's server: receives blocks, stores them, acknowledges them. One thread, one event loop.

The loop writes blocks before it reads more bytes, so a slow disk slows the senders, and memory stays bounded.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from typing import cast

import msgpack

from master.collector.blocks import Block, block_from_record
from master.collector.protocol import Decoder, Message, ProtocolError
from master.collector.storage import Storage, Target

GROUP = 1 << 20
"""Bytes of blocks to collect from one message before they are written."""
_PERMANENT = {errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO}
"""Errors of one file that retrying cannot solve. Its blocks are dropped, because waiting would block all files."""

log = logging.getLogger(__name__)


class Dropped:
    """Counts what was not stored, and logs the 1st, 2nd, 4th, 8th … time, so that the log stays short."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, why: str, example: str) -> None:
        """Count one more."""
        self.counts[why] += 1
        count = self.counts[why]
        if count & (count - 1) == 0:
            log.warning("dropped: %s (%.200s); %d since start", why, example, count)


def store(message: Message, storage: Storage, dropped: Dropped) -> None:
    """Write all blocks of a message. On OSError nothing may be acknowledged: the sender retries."""
    target = Target.of_tag(message.tag)
    blocks: list[Block] = []
    size = 0
    for record in message.records:
        block = block_from_record(record) if target is not None else None
        if block is None:
            dropped.add("foreign tag" if target is None else "malformed record", repr(message.tag))
            continue
        blocks.append(block)
        size += len(block.data) + 256
        if size >= GROUP:
            _append(cast(Target, target), blocks, storage, dropped)
            blocks, size = [], 0
    if target is not None and blocks:
        _append(target, blocks, storage, dropped)


def _append(target: Target, blocks: list[Block], storage: Storage, dropped: Dropped) -> None:
    try:
        storage.append(target, blocks)
    except OSError as error:
        if error.errno is not None and error.errno not in _PERMANENT:
            raise
        dropped.add("file cannot be written", str(error))


class Connection(asyncio.Protocol):
    """One client. Whatever it sends, it can only break its own connection."""

    def __init__(self, storage: Storage, dropped: Dropped) -> None:
        self._storage = storage
        self._dropped = dropped
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        acks: list[bytes] = []
        broken = False
        try:
            for message in self._decoder.feed(data):
                store(message, self._storage, self._dropped)
                if message.chunk is not None:
                    acks.append(msgpack.packb({"ack": message.chunk}, unicode_errors="surrogateescape"))
        except ProtocolError as error:
            log.warning("connection closed: %s", error)
            broken = True
        except OSError as error:
            log.error("cannot write: %s; the sender tries again", error)
            broken = True
        if acks:
            self._transport.write(b"".join(acks))
        if broken:
            self._transport.close()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its acknowledgements."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
