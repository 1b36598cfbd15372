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

from grass.config import ClusterConfig
from grass.network_address import host_and_port
from grass.provision.revival import watch_supervisor
from grass.systemd import Notifier
from master.collector.server import Connection, Dropped
from master.collector.storage import Storage


def main() -> int:
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    config = ClusterConfig.load(arguments.cluster)
    lock = os.open(config.socket("collector").with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logging.getLogger(__name__).error("cluster %s: another collector runs already; this one ends", config.name)
        return 1
    watch_supervisor(config, first=False)
    asyncio.run(_serve(config, arguments.tcp or (host_and_port(config.collector) if config.collector else None)))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="master.collector", description="Receives the logs of a Grass cluster.")
    parser.add_argument("cluster", metavar="CLUSTER_JSON")
    parser.add_argument("--tcp", metavar="HOST:PORT", type=host_and_port, help="also listen on this TCP address")
    return parser.parse_args()


async def _serve(config: ClusterConfig, tcp: tuple[str, int] | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    config.logs_dir.mkdir(parents=True, exist_ok=True)
    storage, dropped = Storage(config.logs_dir), Dropped()
    path = config.socket("collector")
    path.unlink(missing_ok=True)
    os.umask(0o077)
    servers: list[asyncio.Server] = [await loop.create_unix_server(lambda: Connection(storage, dropped), str(path))]
    if tcp is not None:
        servers.append(await loop.create_server(lambda: Connection(storage, dropped), *tcp))
    logging.getLogger(__name__).info("listening on %s, writing to %s", path, config.logs_dir)
    notifier = Notifier()
    notifier.ready()
    beating = loop.create_task(_beat(notifier))
    await stop.wait()
    beating.cancel()
    for server in servers:
        server.close()
    path.unlink(missing_ok=True)


async def _beat(notifier: Notifier) -> None:
    while notifier.pause is not None:
        notifier.beat()
        await asyncio.sleep(notifier.pause)


if __name__ == "__main__":
    sys.exit(main())
