"""The network of one lab: its own bridge with fixed addresses, in a subnet that is free on this machine."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass

from .command import LabError, attempt, docker, run

CANDIDATES = tuple(ipaddress.IPv4Network(f"10.{second}.{third}.0/24") for second in (213, 217) for third in range(64))
FIRST_HOST = 10  # .1 is the machine itself


@dataclass(frozen=True)
class Network:
    """A network. ``name``: docker's name of the network; ``subnet``: a /24."""

    name: str
    subnet: ipaddress.IPv4Network

    def address(self, index: int) -> str:
        """Return the address of the ``index``-th host: 0 is the master, 1 is n1."""
        return str(self.subnet[FIRST_HOST + index])

    def remove(self) -> None:
        docker("network", "rm", self.name)


def find(name: str) -> Network | None:
    found = attempt(["docker", "network", "inspect", name])
    if found.code != 0:
        return None
    return Network(name, ipaddress.IPv4Network(json.loads(found.stdout)[0]["IPAM"]["Config"][0]["Subnet"]))


def create(name: str, *, offline: bool) -> Network:
    """Make the network. ``offline``: hosts reach one another and this machine, but nothing beyond."""
    taken = _taken()
    for subnet in CANDIDATES:
        if any(subnet.overlaps(other) for other in taken):
            continue
        options = ["--subnet", str(subnet), "--label", f"grass.lab={name}", *(["--internal"] if offline else [])]
        if attempt(["docker", "network", "create", *options, name]).code == 0:  # another lab may have been faster
            return Network(name, subnet)
    raise LabError(f"no free subnet for the network {name}: all of {CANDIDATES[0]} … {CANDIDATES[-1]} are in use")


def _taken() -> list[ipaddress.IPv4Network]:
    """Return the networks to which this machine has routes, except the default route."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]))
    words = [route["dst"] for route in routes]
    return [ipaddress.IPv4Network(word, strict=False) for word in words if word[0].isdigit()]
