"""Conversion between ``host:port`` and its parts; an IPv6 address is in brackets. Pure."""

from __future__ import annotations


def host_and_port(text: str) -> tuple[str, int]:
    """Split ``10.0.0.1:24224`` or ``[fd00::1]:24224``. Raises ValueError."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def network_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
