"""What a standby costs an acknowledged write: the same step of the store, in turns with and without `WAIT 1`.

    python -m tests.bench.standby [--rounds 20] [--writes 200] [--delay 0.0]

Master and replica are real servers on this machine. ``--delay``: seconds that a proxy holds each piece of the link, as
a network does. Prints the median of each, and the median and spread of the differences of pairs.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import threading
import time
from contextlib import closing

from grass.store.backend import Op
from grass.store.embedded import find_server
from grass.store.replica_conf import STANDBY_USER
from tests.contract.test_replication import Master, Replica
from tests.support.waiting import wait_until

STEP: list[Op] = [
    ("HSET", "grass:test:specs", "j-1", "x" * 800),
    ("HSET", "grass:test:jobs", "j-1", "x" * 300),
    ("XADD", "grass:test:tickets", 1000, "body", "x" * 900),
    ("XADD", "grass:test:events", 1000, "body", "x" * 150),
]
"""About what a submission writes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writes", type=int, default=200)
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    server = find_server()
    master = Master(server)
    master.start()
    port = proxy(master.port, options.delay) if options.delay else master.port
    replica = Replica(server, port=port, secret=master.passwords[STANDBY_USER])
    replica.start()
    try:
        wait_until(replica.in_step, 20, "the replica")
        pairs = [measured(master, options.writes, number) for number in range(options.rounds)]
    finally:
        replica.remove()
        master.remove()
    differences = sorted(waits - alone for alone, waits in pairs)
    print(f"{server.origin} {'.'.join(map(str, server.version))}, {options.rounds} pairs of {options.writes} writes")
    print(f"  without a standby: {statistics.median(alone for alone, _ in pairs) * 1e3:.3f} ms a write")
    print(f"  with WAIT 1:       {statistics.median(waits for _, waits in pairs) * 1e3:.3f} ms a write")
    low, high = differences[len(differences) // 4], differences[-1 - len(differences) // 4]
    print(f"  difference:        {statistics.median(differences) * 1e3:.3f} ms ({low * 1e3:.3f} to {high * 1e3:.3f})")


def measured(master: Master, writes: int, number: int) -> tuple[float, float]:
    """Return seconds a write without and with the wait. Each goes first in every other pair."""
    found = [0.0, 0.0]
    for waits in (False, True) if number % 2 else (True, False):
        with closing(master.writer() if waits else master.backend("agent")) as backend:
            backend.apply(STEP)
            began = time.perf_counter()
            for _ in range(writes):
                backend.apply(STEP)
            found[waits] = (time.perf_counter() - began) / writes
    return found[0], found[1]


def proxy(port: int, delay: float) -> int:
    """Return the port of a proxy that delays each piece, in both directions."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        while piece := source.recv(1 << 16):
            time.sleep(delay)
            target.sendall(piece)

    def serve() -> None:
        while True:
            client, _ = listener.accept()
            there = socket.create_connection(("127.0.0.1", port))
            for ends in ((client, there), (there, client)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


if __name__ == "__main__":
    main()
