"""Parse the arguments of `grass node add` into hosts. Pure. Used by ``provisioner``."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grass.errors import InputError
from grass.manifest.on_premises import Become, HostSettings, Login, spelled_host
from grass.manifest.values import Wrong
from grass.provision.provisioner import NodeRequest


def wanted_hosts(request: NodeRequest, master: Login) -> list[HostSettings]:
    """Return the hosts that the request names. Missing parts of a login are taken from the master's.

    Raises InputError: an argument is not a host, or names the same host twice.
    """
    hosts = [host_of(word, request.key, request.become, master) for word in request.hosts]
    check_distinct(hosts)
    return hosts


def host_of(word: str, key: str | None, become: str | None, master: Login) -> HostSettings:
    """Return one host. Raises InputError: the word is not a host."""
    login = replace(master, port=22, key=str(Path(key).absolute()) if key else master.key)
    if become is not None:
        login = replace(login, become=Become(become))
    try:
        return spelled_host(word, login)
    except Wrong as wrong:
        raise InputError(f"HOST {wrong}") from wrong


def check_distinct(wanted: Sequence[HostSettings]) -> None:
    """Check that no machine is named twice; it would join twice at the same time. Raises InputError."""
    seen = set()
    for host in wanted:
        address = (_normalized(host.address), host.login.port)
        if address in seen:
            raise InputError(f"{host.endpoint} is named twice; each machine joins once")
        seen.add(address)


def _normalized(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower().rstrip(".")
