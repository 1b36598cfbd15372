"""What the first boot loads on a machine on Azure, by real nft in network namespaces: who reaches the metadata service,
and how nodes reach the Internet through the master.

``internet`` stands for all that is outside, with the metadata service; it knows no way to the nodes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.azure.resources import _CLOSED_METADATA, _ROUTER
from tests.support.needs import require, require_root
from tests.support.waiting import wait_until

METADATA, WIRE_SERVER, OUTSIDE = "169.254.169.254", "168.63.129.16", "203.0.113.9"
MASTER_OUT, MASTER_IN, NODE = "192.0.2.2", "10.60.2.1", "10.60.2.4"
_SERVE = """
import socket, sys
with socket.create_server(("", 80)) as listener:
    while True:
        there, (address, _) = listener.accept()
        with there:
            there.sendall(address.encode())
"""
_ASK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], 80), timeout=3) as there:
        print(there.recv(100).decode())
except OSError as error:
    print("refused" if isinstance(error, ConnectionRefusedError) else type(error).__name__)
"""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout.strip()


class Net:
    """Namespaces ``node`` – ``master`` – ``internet``, as on Azure."""

    def __init__(self) -> None:
        self.of = {name: f"grass-{os.getpid()}-{name}" for name in ("node", "master", "internet")}

    def at(self, name: str, *command: str) -> str:
        return run("ip", "netns", "exec", self.of[name], *command)

    def make(self, folder: Path) -> None:
        for name in self.of.values():
            run("ip", "netns", "add", name)
        self._link("master", "out", f"{MASTER_OUT}/24", "internet", "in", "192.0.2.1/24")
        self._link("node", "eth", f"{NODE}/24", "master", "in", f"{MASTER_IN}/24")
        self.at("node", "ip", "route", "add", "default", "via", MASTER_IN)
        self.at("master", "ip", "route", "add", "default", "via", "192.0.2.1")
        for address in (METADATA, WIRE_SERVER, OUTSIDE):
            self.at("internet", "ip", "address", "add", f"{address}/32", "dev", "in")
        self.at("master", "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        rules = folder / "rules.nft"
        rules.write_text(_CLOSED_METADATA + _ROUTER.format(nodes="10.60.2.0/23", network="10.60.0.0/22"))
        self.at("master", "nft", "-f", str(rules))

    def _link(self, one: str, ours: str, address: str, other: str, theirs: str, there: str) -> None:
        first, second = self.of[one], self.of[other]
        run("ip", "link", "add", ours, "netns", first, "type", "veth", "peer", "name", theirs, "netns", second)
        for name, device, found in ((one, ours, address), (other, theirs, there)):
            self.at(name, "ip", "address", "add", found, "dev", device)
            self.at(name, "ip", "link", "set", device, "up")
            self.at(name, "ip", "link", "set", "lo", "up")

    def ask(self, name: str, address: str, *user: str) -> str:
        """Return which address the server saw, or why it was not reached."""
        return self.at(name, *user, sys.executable, "-c", _ASK, address)

    def close(self) -> None:
        for name in self.of.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    require_root()
    require(shutil.which("nft") is not None and shutil.which("ip") is not None, "nft and ip", "nftables, iproute2")
    made = Net()
    server = None
    try:
        made.make(tmp_path)
        server = subprocess.Popen(["ip", "netns", "exec", made.of["internet"], sys.executable, "-c", _SERVE])
        wait_until(lambda: made.ask("internet", OUTSIDE) not in ("refused", "TimeoutError"))
        yield made
    finally:
        if server is not None:
            server.kill()
            server.wait()
        made.close()


def test_nodes_reach_the_internet_as_the_master_and_the_metadata_service_answers_root_of_the_machine_alone(
    net: Net,
) -> None:
    assert net.ask("node", OUTSIDE) == MASTER_OUT, "the master is their way out, under its address"
    assert net.ask("node", OUTSIDE, *NOBODY) == MASTER_OUT
    assert net.ask("master", OUTSIDE, *NOBODY) == MASTER_OUT
    assert net.ask("master", METADATA) == MASTER_OUT, "the autoscaler is root"
    for address in (METADATA, WIRE_SERVER):
        assert net.ask("master", address, *NOBODY) == "refused", "tasks on the master are not"
        assert net.ask("node", address) == "refused", "nothing is forwarded there, as from a container"
