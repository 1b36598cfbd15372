"""The collector's server: receives blocks, stores them, acknowledges them. One thread, one event loop.

The loop writes blocks before it reads more bytes, so a slow disk slows the senders, and memory stays bounded. Used by
``__main__``.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
from collections import Counter
from collections.abc import Callable
from typing import cast

import msgpack

from grass.errors import UnreachableError
from grass.system.entropy import request_id
from grass.tls import peer_of
from grass.tls_files import node_identity
from grass.wire import handshake
from master.collector import journal
from master.collector.blocks import Block, block_from_record
from master.collector.owners import Owners, Verdict
from master.collector.protocol import Decoder, Message, ProtocolError
from master.collector.storage import DeletedError, Storage, Target

GROUP = 1 << 20
"""Bytes of blocks to collect from one message before they are written."""
_PERMANENT = {errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO}
"""Errors of one file that retrying cannot solve. Its blocks are dropped, because waiting would block all files."""

HANDSHAKE_SECONDS = 5.0
"""Time for the handshake of TLS, and again for that of the forward protocol."""

log = logging.getLogger(__name__)


Admits = Callable[[Target, int], bool]


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


def store(message: Message, storage: Storage, dropped: Dropped, admits: Admits | None = None) -> None:
    """Write all blocks of a message. On OSError nothing may be acknowledged: the sender retries.

    ``admits``: whether the sender may write for an attempt; None: it may write everything."""
    target = Target.of_tag(message.tag)
    blocks: list[Block] = []
    size = 0
    for record in message.records:
        block = block_from_record(record) if target is not None else None
        if block is None:
            dropped.add("foreign tag" if target is None else "malformed record", repr(message.tag))
            continue
        if admits is not None and not admits(cast(Target, target), block.attempt):
            dropped.add("not an attempt of this node", repr(message.tag))
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
    except DeletedError:
        dropped.counts["the job was deleted"] += 1  # as it should be: no warning
    except OSError as error:
        if error.errno is not None and error.errno not in _PERMANENT:
            raise
        dropped.add("file cannot be written", str(error))


class Connection(asyncio.Protocol):
    """One client. Whatever it sends, it can only break its own connection."""

    asks_for_proof = False

    def __init__(self, storage: Storage, dropped: Dropped, daemons: journal.Journal | None = None) -> None:
        self._storage = storage
        self._dropped = dropped
        self._daemons = daemons
        self._node: str | None = None
        """Who sends; None: the master's own machine."""
        self._admits: Admits | None = None
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self.settled: Callable[[], object] = lambda: None
        """Called once the client has proved who it is, and when its connection is over."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self.asks_for_proof:
            self.settled()

    def connection_lost(self, _: Exception | None) -> None:
        self.settled()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        acks: list[bytes] = []
        broken = False
        try:
            for message in self._decoder.feed(data):
                self._store(message)
                if message.chunk is not None:
                    acks.append(msgpack.packb({"ack": message.chunk}, unicode_errors="surrogateescape"))
        except ProtocolError as error:
            log.warning("connection closed: %s", error)
            broken = True
        except OSError as error:
            log.error("cannot write: %s; the sender tries again", error)
            broken = True
        except UnreachableError as error:
            log.warning("cannot find the owner of these records: %s; the sender tries again", error)
            broken = True
        if acks:
            self._transport.write(b"".join(acks))
        if broken:
            self._transport.close()

    def _store(self, message: Message) -> None:
        """Store what tasks printed, or what a daemon logged."""
        source = journal.Source.of_tag(message.tag)
        if source is None or self._daemons is None:
            store(message, self._storage, self._dropped, self._admits)
        elif self._node is not None and source.node != self._node:
            self._dropped.add("not a daemon of this node", f"{self._node}: {message.tag!r}")
        else:
            for _ in range(self._daemons.append(source, message.records)):
                self._dropped.add("malformed entry of a daemon, or too many", repr(message.tag))

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read its acknowledgements."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


class NodeConnection(Connection):
    """A node's connection over TCP: it proves with its key which node it is, and may write for its own attempts only.

    ``key_of``: the key that the collector shares with a node. ``cluster``: its name, if the certificate of the
    connection must be of the same node."""

    asks_for_proof = True

    def __init__(
        self,
        storage: Storage,
        dropped: Dropped,
        owners: Owners,
        key_of: Callable[[str], str],
        daemons: journal.Journal | None = None,
        cluster: str | None = None,
    ) -> None:
        super().__init__(storage, dropped, daemons)
        self._owners = owners
        self._key_of = key_of
        self._cluster = cluster
        self._nonce = request_id().encode()
        self._greeting: bytes | None = b""
        """What arrived of the handshake. None once it is over."""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._deadline = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, transport.close)
        cast(asyncio.Transport, transport).write(msgpack.packb(handshake.helo(self._nonce)))

    def connection_lost(self, reason: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(reason)

    def data_received(self, data: bytes) -> None:
        if self._greeting is not None:
            self._greeting += data
            data = self._greet(self._greeting)
        if data:
            super().data_received(data)

    def _greet(self, received: bytes) -> bytes:
        """Take the PING when it is complete, and answer it. Return the bytes behind it."""
        assert self._transport is not None
        unpacker = msgpack.Unpacker(raw=True, max_buffer_size=handshake.LIMIT)
        try:
            unpacker.feed(received[: handshake.LIMIT])
            message = unpacker.unpack()
            node, salt = self._identify(message)
        except msgpack.OutOfData:
            if len(received) >= handshake.LIMIT:
                self._refuse("the handshake is too long")
            return b""
        except (ValueError, msgpack.UnpackException, UnreachableError) as error:
            self._refuse(str(error))
            return b""
        self._greeting = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._node = node
        self.settled()
        self._admits = lambda target, attempt: self._owners.verdict(node, target, attempt) is Verdict.OWN
        self._transport.write(msgpack.packb(handshake.pong(salt, self._nonce, self._key_of(node))))
        return received[unpacker.tell() :]

    def _identify(self, message: object) -> tuple[str, bytes]:
        """Return node and salt. Raises ValueError unless it is a node of the cluster that knows its key."""
        node, salt, proof = handshake.ping_of(message)
        if self._cluster is not None and self._certified() != node_identity(self._cluster, node):
            raise ValueError(f"the certificate is of {self._certified()}, not of {node}")
        expected = handshake.digest(salt, node, self._nonce, self._key_of(node))
        if not hmac.compare_digest(proof.encode(), expected.encode()) or not self._owners.is_member(node):
            raise ValueError("unknown node, or another key")
        return node, salt

    def _certified(self) -> str:
        assert self._transport is not None
        return peer_of(self._transport.get_extra_info("peercert"))

    def _refuse(self, reason: str) -> None:
        assert self._transport is not None
        self._dropped.add("handshake refused", f"{self._transport.get_extra_info('peername')}: {reason}")
        self._transport.write(msgpack.packb(handshake.refusal("refused")))
        self._transport.close()
