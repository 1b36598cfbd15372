"""Who has a node, or only the network: what they reach after a fault. The isolated user is in ``spy``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.long.kill_matrix import patiently
from tests.support import stolen_host
from tests.support.certificates import answer, client_of

if TYPE_CHECKING:
    from tests.faults.host_bed import HostBed

HOME = "/var/lib/grass/clusters/faults"
API, NODE_API, COLLECTOR, REDIS = 51812, 51813, 24224, 6379
MAY = {"read its own orders": stolen_host.DONE, "forge a line of a task of another node": "sent"}
"""What a stolen node can do: the first shows that the others can fail. The line is not in the log: see ``reached``."""
SERVED = ("HELO", "ack", "HTTP", "+PONG")
"""What a server says to those whom it knows."""


def reached(bed: HostBed, victim: str) -> Iterator[str]:
    """Yield what n2, stolen, and a machine beside the cluster reach. ``victim``: the name of a job on n1."""
    hosts = bed.lab.hosts
    api, job = f"http://{hosts['master'].address}:{API}", patiently(lambda: bed.client.job(victim)).id
    there = [f"{HOME}/cluster.json", api, f"n1={hosts['n1'].address}:{NODE_API}", job]
    program = Path(stolen_host.__file__).read_text()
    done = hosts["n2"].attempt("/opt/grass/venv/bin/python", "-", *there, text_in=program)
    if done.code:
        yield f"the stolen node's program ended with {done.code}: {done.stderr[-200:]}"
        return
    for what, outcome in json.loads(done.stdout).items():
        if outcome not in (stolen_host.REFUSED, MAY.get(what)):
            yield f"stolen node: {what}: {outcome}"
        if what == "read its own orders" and outcome != stolen_host.DONE:
            yield f"stolen node: {what}: {outcome}"
    if any("FORGED" in line.text for line in patiently(lambda: list(bed.client.logs(victim)))):
        yield "stolen node: a forged line is in the log"
    yield from _from_outside(bed, api)


def _from_outside(bed: HostBed, api: str) -> Iterator[str]:
    master, node = (bed.lab.hosts[name].address for name in ("master", "n1"))
    head = b"POST /v1/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer guess\r\nContent-Length: 2\r\n\r\n{}"
    for address, words in (((master, COLLECTOR), b"x"), ((node, NODE_API), head), ((master, REDIS), b"PING\r\n")):
        for client in (None, client_of(None)):
            said = answer(address, client, words)
            if any(word in said for word in SERVED):
                yield f"network only: {address} says {said[:60]}"
    if (outcome := stolen_host.of_api(api, "guess")) != stolen_host.REFUSED:
        yield f"network only: API: {outcome}"
