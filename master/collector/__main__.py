"""``python -m master.collector CLUSTER_JSON [--tcp HOST:PORT]``: the built-in log collector.

Listens on the cluster's ``collector.sock`` and, with --tcp, on TCP. Ends on SIGTERM. One per cluster: a lock beside the
socket prevents a second collector from replacing the socket.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import os
import signal
import sys
from collections.abc import Callable

from grass import __version__
from grass.api.daemon_entry import FORMAT
from grass.api.node_token import node_token
from grass.config import ClusterConfig, Secrets
from grass.network_address import host_and_port
from grass.store.keys import Keys
from grass.supervision.supervisor_watch import watch_supervisor
from grass.system.systemd import Notifier
from grass.tls import ServerContext
from grass.wire.handshake import collector_key
from master.collector.journal import Journal, OwnLog, folder_of
from master.collector.listener import Listener
from master.collector.owners import Owners
from master.collector.server import Connection, Dropped, NodeConnection
from master.collector.storage import Storage

RENEW_SECONDS = 60.0
"""How often it looks whether its certificate was renewed."""


def main() -> int:
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, format=FORMAT)
    config = ClusterConfig.load(arguments.cluster)
    lock = os.open(config.socket("collector").with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logging.getLogger(__name__).error("cluster %s: another collector runs already; this one ends", config.name)
        return 1
    watch_supervisor(config, first=False)
    tcp = arguments.tcp or (host_and_port(config.collector) if config.collector else None)
    asyncio.run(_serve(config, tcp, None if arguments.open else _of_nodes(config) if tcp else None))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="master.collector", description="Receives the logs of a Grass cluster.")
    parser.add_argument("cluster", metavar="CLUSTER_JSON")
    parser.add_argument("--tcp", metavar="HOST:PORT", type=host_and_port, help="also listen on this TCP address")
    parser.add_argument("--open", action="store_true", help="take records from anyone who reaches the TCP address")
    return parser.parse_args()


Make = Callable[[Storage, Dropped, Journal], Connection]


def _of_nodes(config: ClusterConfig) -> Make:
    """Return what makes a connection of a node. Each node's key is derived from its token, as the node does."""
    from grass.store.connect import open_backend  # imported here: --open uses no store, and needs no client of it

    secrets = Secrets.load(config.home)
    owners = Owners(open_backend(config, secrets, "api"), Keys(config.key_prefix))

    cluster = config.name if config.tls else None

    def key_of(node: str) -> str:
        return collector_key(node_token(secrets.node_token, node, owners.joined(node) or ""))

    return lambda storage, dropped, journal: NodeConnection(storage, dropped, owners, key_of, journal, cluster)


async def _serve(config: ClusterConfig, tcp: tuple[str, int] | None, of_nodes: Make | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config.logs_dir.mkdir(parents=True, exist_ok=True)
    storage, dropped, journal = Storage(config.logs_dir), Dropped(), Journal(folder_of(config))
    logging.getLogger().addHandler(OwnLog(journal))
    logging.getLogger(__name__).info("collector started, version %s, process %d", __version__, os.getpid())
    path = config.socket("collector")
    path.unlink(missing_ok=True)
    os.umask(0o077)
    servers: list[asyncio.Server | Listener] = [
        await loop.create_unix_server(lambda: Connection(storage, dropped, journal), str(path))
    ]
    renewing: asyncio.Task[None] | None = None
    if tcp is not None:
        make = of_nodes or Connection
        context = ServerContext(config.tls_files) if config.tls else None
        if context is not None:
            context.note_refusals(lambda reason: dropped.add("handshake refused", reason))
        listener = Listener(loop, lambda: make(storage, dropped, journal), context)
        listener.listen(*tcp)
        servers.append(listener)
        renewing = None if context is None else loop.create_task(_renew(context))
    logging.getLogger(__name__).info("listening on %s, writing to %s", path, config.logs_dir)
    notifier = Notifier()
    notifier.ready()
    beating = loop.create_task(_beat(notifier))
    await stop.wait()
    beating.cancel()
    if renewing is not None:
        renewing.cancel()
    for server in servers:
        server.close()
    path.unlink(missing_ok=True)


async def _renew(context: ServerContext) -> None:
    """Use renewed certificates."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        context.current()


async def _beat(notifier: Notifier) -> None:
    while notifier.pause is not None:
        notifier.beat()
        await asyncio.sleep(notifier.pause)


if __name__ == "__main__":
    sys.exit(main())
