"""The log collector's server over TCP, in a thread, and the node-agent's sender."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from grass.api.collector_link import Address, TlsAddress
from grass.model.lifecycle import NodeState, TaskState
from grass.store.keys import Keys
from grass.tls import ServerContext
from grass.tls_files import TlsFiles
from grass.wire.codec import encode
from grass.wire.log_block import LogBlock
from grass.wire.node_record import NodeRecord
from grass.wire.task_record import TaskRecord
from grass.wire.tickets import TICKET, SuspectNode
from master.collector.journal import Journal
from master.collector.listener import Listener
from master.collector.owners import Owners
from master.collector.server import Connection, Dropped, NodeConnection
from master.collector.storage import Storage
from node.agent.forward import Link, Signal
from tests.doubles.memory_backend import MemoryBackend
from tests.support.certificates import ClusterFiles

KEYS = Keys("grass:test:")
JOB = "digits-0123abcd"


def key_of(node: str) -> str:
    return f"key of {node}"


class Connections:
    """Makes the connections of a server, and closes them at its end."""

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make
        self._made: weakref.WeakSet[Connection] = weakref.WeakSet()

    def make(self) -> Connection:
        made = self._make()
        self._made.add(made)
        return made

    def close(self) -> None:
        for connection in list(self._made):
            if connection._transport is not None:
                connection._transport.abort()


class Collector:
    """The collector's server in a thread, over a store in memory with the nodes n1 and n2, and a task on n1."""

    def __init__(self, folder: Path, files: ClusterFiles | None = None) -> None:
        """``files``: it speaks TLS with these certificates, of the cluster ``test``."""
        self.logs, self.backend, self.dropped = folder / "logs", MemoryBackend(), Dropped()
        self.logs.mkdir()
        for node in ("n1", "n2"):
            self.put_node(node)
        self.put_task("worker.0", 2, "n1")
        self.loop = asyncio.new_event_loop()
        storage, owners, self.daemons = Storage(self.logs), Owners(self.backend, KEYS), folder / "daemon-logs"
        journal = Journal(self.daemons)
        cluster, secure = (None, None) if files is None else ("test", ServerContext(files.master))
        if secure is not None:
            secure.note_refusals(lambda reason: self.dropped.add("handshake refused", reason))
        self.connections = Connections(lambda: NodeConnection(storage, self.dropped, owners, key_of, journal, cluster))
        self.server = Listener(self.loop, self.connections.make, secure)
        self.address = ("127.0.0.1", self.server.listen("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def put_node(self, node: str, state: NodeState = NodeState.READY) -> None:
        self.backend.apply([("HSET", KEYS.nodes, node, encode(NodeRecord(name=node, state=state)))])

    def put_task(self, task: str, attempt: int, node: str) -> None:
        record = TaskRecord(state=TaskState.RUNNING, attempt=attempt, node=node)
        self.backend.apply([("HSET", KEYS.tasks(JOB), task, encode(record))])

    def text(self, task: str = "worker.0", job: str = JOB) -> str:
        path = self.logs / job / f"{task}.jsonl"
        return path.read_text() if path.exists() else ""

    def suspects(self) -> list[str]:
        tickets = [TICKET.decode(fields["body"]) for _, fields in self.backend.stream(KEYS.tickets, "0", 99)]
        return [ticket.node for ticket in tickets if isinstance(ticket, SuspectNode)]

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.connections.close()
        self.server.close()
        for _ in range(10):  # TLS takes several rounds of the loop to close
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


def send(
    collector: Collector,
    stop: Signal,
    node: str,
    tag: str,
    *blocks: LogBlock,
    key: str | None = None,
    files: TlsFiles | None = None,
) -> bool:
    """Send as the node-agent does. Return whether everything was acknowledged. ``files``: over TLS."""
    address: Address = collector.address if files is None else TlsAddress(*collector.address, files, "test")
    link = Link(address, stop.descriptor, node, key_of(node) if key is None else key)
    try:
        return link.connected() and link.exchange([(tag, list(blocks))])
    finally:
        link.close()


def block(attempt: int, text: str, offset: int = 0) -> LogBlock:
    return LogBlock.of_data(attempt, "stdout", offset, 1.0, text.encode())
