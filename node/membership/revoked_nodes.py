"""The nodes that were removed from the cluster: their certificates would be valid for days more, and are refused.

The node-agent learns them from redis and writes the file. The node-api-server reads it, also while redis is away. Used
by ``node.agent.loop`` and ``node.api.app``.
"""

from __future__ import annotations

import threading
from pathlib import Path

from grass.config import ClusterConfig
from grass.errors import UndecodableError
from grass.system import clock
from grass.system.private_file import write_private
from grass.tls_files import node_identity
from grass.wire.codec import Form, encode

_KEPT = 30 * 86_400.0
"""Seconds for which a removed node is remembered; longer than any certificate of a node is valid."""
_NODES: Form[dict[str, float]] = Form(dict[str, float])


def add(config: ClusterConfig, nodes: dict[str, float]) -> None:
    """Remember nodes: name → wall seconds of the master at their removal. Called by the node-agent only."""
    path = _file(config)
    known = {**_read(path), **nodes}
    oldest = clock.wall() - _KEPT
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, encode({name: at for name, at in known.items() if at > oldest}))


class Revoked:
    """What the file says. It is read again when it changed. For any thread."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._path = _file(config)
        self._lock = threading.Lock()
        self._read: tuple[int, int] | None = None
        self._at: dict[str, float] = {}
        """By the name in the certificate."""

    def refuses(self, peer: str, since: float) -> bool:
        """Return whether the certificate of ``peer``, made at ``since``, is from before its removal."""
        with self._lock:
            there = _edition(self._path)
            if there != self._read:
                cluster = self._config.name
                self._at = {node_identity(cluster, node): at for node, at in _read(self._path).items()}
                self._read = there
            return since <= self._at.get(peer, -1.0)


def _edition(path: Path) -> tuple[int, int] | None:
    """Return what differs after each change, also of two within one tick of the kernel's clock: each is another file.
    None: there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _file(config: ClusterConfig) -> Path:
    return config.node_dir / "revoked.json"


def _read(path: Path) -> dict[str, float]:
    try:
        return _NODES.decode(path.read_bytes())
    except (FileNotFoundError, UndecodableError):
        return {}
