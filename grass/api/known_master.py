"""The master as a node knows it since it joined: where it asks for certificates, and whose key they are proven by.

The key outlives moves, failovers and restores, and each new cluster has another one: it tells clusters of one name
apart. Used by ``grass.provision.host_certificate`` and ``node.api.app``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from grass.errors import UndecodableError
from grass.system.private_file import write_private
from grass.tls_files import TlsFiles
from grass.wire.codec import Form, encode


class Master(msgspec.Struct, frozen=True):
    """Where the node asks for its next certificate. ``key``: thumbprint of the master's key."""

    urls: tuple[str, ...]
    key: str


MASTER: Form[Master] = Form(Master)


def master_file(files: TlsFiles) -> Path:
    return files.folder / "master.json"


def point_to(files: TlsFiles, urls: tuple[str, ...]) -> None:
    """Let the node ask there for certificates. Without the file, which a join writes, nothing is written."""
    with suppress(OSError, UndecodableError):
        known = MASTER.decode(master_file(files).read_bytes())
        write_private(master_file(files), encode(msgspec.structs.replace(known, urls=urls)))


def cluster_key(files: TlsFiles) -> str:
    """Return the thumbprint of the key of the node's cluster; empty: the file is missing or damaged."""
    try:
        return MASTER.decode(master_file(files).read_bytes()).key
    except (OSError, UndecodableError):
        return ""
