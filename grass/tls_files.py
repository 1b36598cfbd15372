"""The certificates of a host as files, and the names in them. ``grass.tls`` uses them.

Apart from it, because the configuration names the files, and not every process needs OpenSSL in its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MASTER = "master"
BACKDATED = 7200.0
"""Seconds from the begin of a certificate's time to when it was made: a node's clock may be wrong by an hour."""


@dataclass(frozen=True)
class TlsFiles:
    """Files in ``folder``: the authority's certificate, and one file with this host's key and its certificate."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def host(self) -> Path:
        """Key and certificate, in one file, so that both are replaced in one step."""
        return self.folder / "host.pem"


def identity(cluster: str, name: str) -> str:
    """Return what a certificate says about its owner: a URI. ``name``: ``node/NAME``, or ``master``."""
    return f"grass://{cluster}/{name}"


def node_identity(cluster: str, node: str) -> str:
    """Return what the certificate of a node says about it."""
    return identity(cluster, f"node/{node}")
