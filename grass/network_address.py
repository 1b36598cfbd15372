"""Conversion between ``host:port`` and its parts; an IPv6 address is in brackets. Pure. Used by all packages."""

from __future__ import annotations

WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 # for comparison
"""Addresses to listen on that mean all addresses of the machine."""


def wildcard(like: str) -> str:
    """Return the wildcard of the family of ``like``. A host name counts as IPv4."""
    return "::" if ":" in like else "0.0.0.0"  # noqa: S104 # what the caller's user asked for


def host_and_port(text: str) -> tuple[str, int]:
    """Split ``10.0.0.1:24224`` or ``[fd00::1]:24224``. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def network_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
