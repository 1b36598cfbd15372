"""The settings of one cluster as its daemons see them: a frozen tree, read once from ``cluster.json``.

Written by ``grass.provision``; each daemon gets the path as its only argument. Secrets are not in it (``Secrets``).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from grass.atomic_file import replace_file
from grass.model.policy import ClusterPolicy
from grass.private_file import write_private


@dataclass(frozen=True)
class RedisConfig:
    """Where redis listens: a unix socket (the embedded server), or a host and port (your own)."""

    embedded: bool = True
    socket: str | None = None
    host: str | None = None
    port: int | None = None
    accounts: bool = True
    """Each kind of process logs in as its own redis user; false: all use one password (a redis of your own)."""


@dataclass(frozen=True)
class MasterConfig(ClusterPolicy):
    api_host: str = "127.0.0.1"
    api_port: int = 0
    """Chosen free at `create` when the settings name none, so that clusters live side by side."""
    own_node: str | None = None
    """Name of the node that is part of the cluster by itself: it never joins, and cannot be removed. It shares the
    cluster's folder, so its API takes the cluster's own token. None: every node joins."""
    nodes_on_client: bool = False
    """The nodes are the client's machine, so that a job's tasks start in the folder that it was submitted from."""

    @property
    def url(self) -> str:
        """Of the API, on this machine."""
        return f"http://{self.api_host}:{self.api_port}"


@dataclass(frozen=True)
class NodeConfig:
    name: str = "local"
    address: str = "127.0.0.1"
    api_port: int = 0
    cpu: int | None = None
    """Thousandths of a core that the node offers. None, here and below: what the machine has. With ``probe``, what
    it offers of cpu, memory and gpu is never more than that."""
    memory: int | None = None
    gpu: int | None = None
    """Thousandths of a device; 0: its devices are not for tasks."""
    disk: int | None = None
    """Bytes of scratch."""
    custom: dict[str, int] = field(default_factory=dict)
    """Countable things with a name (licences)."""
    reserve: dict[str, int] = field(default_factory=dict)
    """What of the above is kept back for the system: cpu, memory, disk."""
    low_disk: int | None = None
    """Bytes of free disk below which it takes no tasks; None: 1 GiB, or 5 % of the disk if that is less; 0: never."""
    labels: dict[str, str] = field(default_factory=dict)
    """Besides those that the node finds by itself (``node/agent/labels.py``), which these override."""
    path: tuple[str, ...] = ()
    """Its place in the topology, from the outside in: ``("rack1", "switch3")``."""
    runtimes: tuple[str, ...] = ("process",)
    """What it offers, of ``process`` and ``docker``."""
    mounts: tuple[str, ...] = ()
    """Folders of the host that containers may mount, with all below them."""
    probe: bool = False
    """The node-agent proves, once, that tasks, share and log collector work, and says so in its hello."""


@dataclass(frozen=True)
class SambaConfig:
    """The share that the master serves, and nodes mount: ``//host/share`` on ``port``, as ``user``."""

    host: str
    port: int
    share: str = "grass"
    user: str = "grass"


@dataclass(frozen=True)
class ClusterConfig:
    name: str
    mode: str
    home: str
    """The cluster's folder, ``$GRASS_HOME/clusters/<name>``."""
    runtime_dir: str
    """For sockets: short enough for the 107 bytes that the kernel allows."""
    redis: RedisConfig = field(default_factory=RedisConfig)
    master: MasterConfig = field(default_factory=MasterConfig)
    node: NodeConfig = field(default_factory=NodeConfig)
    collector: str | None = None
    """``host:port`` where logs are taken over TCP, too; None: only at the socket in ``runtime_dir``."""
    share: str | None = None
    """Folder of the share, or where it is mounted; None: ``data/`` in the cluster's folder."""
    samba: SambaConfig | None = None
    """None: nobody serves the share; it is a mount that every machine has, or the cluster is on one machine."""

    @property
    def path(self) -> Path:
        return Path(self.home) / "cluster.json"

    @property
    def data_dir(self) -> Path:
        return Path(self.share) if self.share else Path(self.home) / "data"

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def node_dir(self) -> Path:
        return Path(self.home) / "node"

    @property
    def master_dir(self) -> Path:
        return Path(self.home) / "master"

    def socket(self, name: str) -> Path:
        return Path(self.runtime_dir) / f"{name}.sock"

    @property
    def key_prefix(self) -> str:
        return f"grass:{self.name}:"

    def save(self) -> None:
        """Replaced whole: whoever reads it meanwhile sees the old or the new one."""
        replace_file(self.path, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> ClusterConfig:
        return cls.parse(json.loads(Path(path).read_text()))

    @classmethod
    def parse(cls, wire: dict[str, Any]) -> ClusterConfig:
        return cls(
            name=wire["name"],
            mode=wire["mode"],
            home=wire["home"],
            runtime_dir=wire["runtime_dir"],
            redis=RedisConfig(**wire["redis"]),
            master=MasterConfig(**wire["master"]),
            node=_node(wire["node"]),
            collector=wire.get("collector"),
            share=wire.get("share"),
            samba=SambaConfig(**wire["samba"]) if wire.get("samba") else None,
        )


def _node(wire: dict[str, Any]) -> NodeConfig:
    lists = {name: tuple(value) for name, value in wire.items() if isinstance(value, list)}
    return NodeConfig(**{**wire, **lists})


@dataclass(frozen=True)
class Secrets:
    """Passwords of the redis users (``admin``, ``agent``, ``api``, ``node``) and the node's token. Never printed."""

    redis: dict[str, str] = field(repr=False)
    node_token: str = field(repr=False)
    samba: str = field(default="", repr=False)
    """Of the share's user; empty where no share is served."""

    def save(self, home: str | Path) -> None:
        wire = {"redis": self.redis, "node_token": self.node_token, "samba": self.samba}
        write_private(Path(home) / "secrets.json", json.dumps(wire))

    @classmethod
    def load(cls, home: str | Path) -> Secrets:
        wire = json.loads((Path(home) / "secrets.json").read_text())
        return cls(redis=wire["redis"], node_token=wire["node_token"], samba=wire.get("samba", ""))
