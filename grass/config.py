"""The settings of one cluster for its daemons: a frozen tree, read once from ``cluster.json``.

Written by ``grass.provision``. Each daemon gets the path as its only argument. Secrets are separate (``Secrets``), and
so is what one node is (``grass.node_config``): the part ``node`` of the file, which daemons of the master do not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from grass.errors import NewerVersionError, UndecodableError
from grass.model.isolation import ContainerRights, UidRange
from grass.model.policy import ClusterPolicy
from grass.network_address import WILDCARDS, network_address
from grass.release import __version__
from grass.system.atomic_file import replace_file
from grass.system.private_file import write_private
from grass.tls_files import TlsFiles
from grass.wire.version import FORMAT, PROTOCOL, REVISION, newer_format, newer_writer

_Config = TypeVar("_Config", bound="ClusterConfig")


@dataclass(frozen=True)
class Written:
    """Which Grass wrote a ``cluster.json``; its field ``written``. One of before revision 1 wrote no such field."""

    format: int = 0
    protocol: int = 0
    revision: int = 0
    version: str = ""


@dataclass(frozen=True)
class RedisConfig:
    """Where redis listens: a unix socket (the embedded server), or a host and port (your own)."""

    embedded: bool = True
    socket: str | None = None
    host: str | None = None
    port: int | None = None
    accounts: bool = True
    """Whether each kind of process logs in as its own redis user. False: all use one password (a redis of your own)."""
    tls: bool = False
    """Whether ``port`` speaks TLS, with certificates of the cluster on both sides."""


@dataclass(frozen=True, kw_only=True)
class NodePolicy:
    """What holds for every machine that is a node: the master gives it to those that join."""

    reserve: dict[str, int] = field(default_factory=dict)
    """Amounts of cpu, memory and disk that are reserved for the system."""
    low_disk: int | None = None
    """Bytes of free disk below which the node takes no tasks. None: 1 GiB, or 5 % of the disk if that is less; 0:
    never."""
    topology_command: tuple[str, ...] = ()
    """Program and arguments that print the topology path of a machine whose settings and labels name none."""
    isolate: UidRange | None = None
    """Ids for the accounts under which tasks of each Grass user run (`isolation: user`). None: all processes run as the
    user of the node's daemons, and containers as their image says."""
    containers: ContainerRights = field(default_factory=ContainerRights)
    """The rights of containers. This and the next field apply with ``isolate`` only."""
    read_only_data: bool = False
    """Whether tasks may only read the files of users in the share, outside of the folders of their jobs."""


@dataclass(frozen=True)
class _Head:
    """What is read first. ``node``: there a master had its policy for nodes before format 2, and nodes have it now."""

    written: Written = field(default_factory=Written)
    node: NodePolicy | None = None


@dataclass(frozen=True)
class MasterConfig(ClusterPolicy):
    """The master: its API, and the policy for jobs and nodes."""

    api_host: str = "127.0.0.1"
    api_port: int = 0
    """`create` chooses a free port if the settings name none, so that clusters can run side by side."""
    own_node: str | None = None
    """Name of the node that is the master's own machine: it never joins and cannot be removed. It shares the cluster's
    folder, so its API accepts the cluster's own token. None: every node joins."""
    nodes_on_client: bool = False
    """Whether the nodes are the client's machine, so that tasks start in the folder that their job was submitted
    from."""

    public_url: str = ""
    """URL at which clients reach the API; empty: it is one of its machine's address."""
    pod: str = ""
    """Path of its pod, if clients reach it only through the API server of Kubernetes."""
    node_policy: NodePolicy = field(default_factory=NodePolicy)

    @property
    def url(self) -> str:
        """Return the API's URL on this machine."""
        return f"http://{network_address(self.api_host, self.api_port)}"


@dataclass(frozen=True)
class SambaConfig:
    """The share that the master serves and nodes mount: ``//host/share`` on ``port``, as ``user``."""

    host: str
    port: int
    share: str = "grass"
    user: str = "grass"


@dataclass(frozen=True)
class FilesConfig:
    """How users reach the files of the share: SSH to the master, as the user of its daemons, with their files key."""

    address: str
    port: int
    host_key: str
    """The public key that sshd showed to `grass create`, as ``TYPE BASE64``."""
    user: str
    authorized_keys: str
    """The file on the master in which sshd looks for that user's keys."""
    python: str
    """The program that runs the forced command."""


@dataclass(frozen=True)
class StandbyConfig:
    """The machine that follows this master, and takes its place by `grass cluster failover`."""

    address: str
    """As users write it: where its SSH answers."""
    key: str
    """Public key, as ``TYPE BASE64``, with which it reads what it follows."""
    url: str
    """Of the API there, after a failover."""
    needed: bool = False
    """Whether writes are refused while it is away. False: the master goes on alone."""
    witness: str = ""
    """The node with whose vote the standby takes over by itself; empty: it never does."""


@dataclass(frozen=True)
class ClusterConfig:
    """The cluster as one host knows it: the content of ``cluster.json`` there."""

    name: str
    mode: str
    home: str
    """The cluster's folder, ``$GRASS_HOME/clusters/<name>``."""
    runtime_dir: str
    """Folder of sockets. Its path is short: the kernel allows 107 bytes for a socket's path."""
    redis: RedisConfig = field(default_factory=RedisConfig)
    master: MasterConfig = field(default_factory=MasterConfig)
    collector: str | None = None
    """``host:port`` of the log collector for TCP; None: only the socket in ``runtime_dir``."""
    collector_asks: bool = True
    """Whether the collector asks nodes for their key over TCP: the built-in one does, a fluentd does not."""
    share: str | None = None
    """The share's folder or mount point; None: ``data/`` in the cluster's folder."""
    tls: bool = False
    """Whether hosts have certificates of the cluster: node-api and the collector's TCP port then speak TLS only."""
    task_redis: int = 0
    """Port at which tasks reach the redis for tasks, as localhost; 0: there is none."""
    task_redis_server: str | None = None
    """``host:port`` of it on the master, to which nodes forward; None: it listens at that port itself."""
    files: FilesConfig | None = None
    """None: only the machine that created the cluster reaches its files, because it has them."""
    samba: SambaConfig | None = None
    """None: the master does not serve the share. Every machine has it mounted, or the cluster is on one machine."""
    standby: StandbyConfig | None = None
    """None: nobody follows this master."""

    # cached: the node-agent asks for its folders several times for each task

    @cached_property
    def path(self) -> Path:
        return Path(self.home) / "cluster.json"

    @cached_property
    def data_dir(self) -> Path:
        """The share, as this host sees it."""
        return Path(self.share) if self.share else Path(self.home) / "data"

    @cached_property
    def logs_dir(self) -> Path:
        """Logs of tasks, in the share; written by the log collector."""
        return self.data_dir / "logs"

    @cached_property
    def node_dir(self) -> Path:
        """What the node keeps: attempts with their output, and files of jobs."""
        return Path(self.home) / "node"

    @cached_property
    def master_dir(self) -> Path:
        """What the master keeps: keys, users, and marks of transfers."""
        return Path(self.home) / "master"

    @cached_property
    def tls_files(self) -> TlsFiles:
        """The certificates of this host. They are there if ``tls``."""
        return TlsFiles(Path(self.home) / "tls")

    @property
    def api_urls(self) -> tuple[str, ...]:
        """The URLs at which machines of the cluster's network reach the API. To one in a pod, see
        ``MasterConfig.pod``, its own one leads."""
        host = self.address if self.master.api_host in WILDCARDS else self.master.api_host
        return (self.master.public_url or f"http://{network_address(host, self.master.api_port)}",)

    def socket(self, name: str) -> Path:
        """The path of a daemon's socket. ``name``: of the daemon."""
        return Path(self.runtime_dir) / f"{name}.sock"

    @property
    def address(self) -> str:
        """The master's address in the cluster's network. Its API may listen on all addresses; redis has this one."""
        return self.redis.host or "127.0.0.1"

    @property
    def key_prefix(self) -> str:
        return f"grass:{self.name}:"

    def save(self, path: Path | None = None) -> None:
        """Write the file by atomic replacement. ``path``: where, if that is not its place yet."""
        by = Written(FORMAT, PROTOCOL, REVISION, __version__)
        content = asdict(self)
        assert "node" in content or self.master.own_node is None, "the node would be lost"
        replace_file(path or self.path, json.dumps({"written": asdict(by), **content}, indent=2) + "\n")

    @classmethod
    def load(cls: type[_Config], path: str | Path) -> _Config:
        """Read the file. Raises UndecodableError, which names the file and the path of the wrong value, and
        NewerVersionError for a format that this Grass does not know."""
        with _naming(Path(path)) as text:
            return cls.parse(text, str(path))

    @classmethod
    def parse(cls: type[_Config], text: str | bytes, what: str = "cluster.json") -> _Config:
        """Decode the content of the file. Raises the errors of ``load``."""
        from grass.wire.codec import Form  # imported here: most CLI commands read no settings

        head = Form[_Head](_Head).decode(text)
        refusal = newer_format(what, head.written.format, head.written.version, __version__)
        if refusal is not None:
            raise NewerVersionError(refusal)
        found = Form[_Config](cls).decode(text)
        if head.node is None or head.written.format >= 2:
            return found
        return replace(found, master=replace(found.master, node_policy=head.node))


def check_writer(name: str, text: str | bytes) -> None:
    """To be called before ``text``, the ``cluster.json`` of cluster ``name``, is written anew. Raises
    NewerVersionError if a newer Grass wrote it: this one would leave out what it does not know, such as TLS."""
    from grass.wire.codec import Form

    try:
        by = Form[_Head](_Head).decode(text).written
    except UndecodableError:
        return  # whoever reads it says so
    refusal = newer_writer(f"cluster {name}", (by.format, by.protocol, by.revision), by.version, __version__)
    if refusal is not None:
        raise NewerVersionError(refusal)


@contextmanager
def _naming(path: Path) -> Iterator[str]:
    """Yield the content of a file, and name the file in an UndecodableError of the block."""
    try:
        yield path.read_text()
    except UndecodableError as error:
        raise UndecodableError(f"{path}: {error.path}" if error.path else str(path), error.problem) from error


@dataclass(frozen=True)
class Secrets:
    """Passwords of the redis users (``admin``, ``agent``, ``api``, ``node``) and the node's token. Never printed.

    ``redis["tasks"]`` is the password of the redis for tasks, on several hosts.
    """

    redis: dict[str, str] = field(repr=False)
    node_token: str = field(repr=False)
    samba: str = field(default="", repr=False)
    """Password of the share's user; empty if no share is served."""

    def save(self, home: str | Path) -> None:
        write_private(Path(home) / "secrets.json", json.dumps(asdict(self)))

    @classmethod
    def load(cls, home: str | Path) -> Secrets:
        from grass.wire.codec import Form

        with _naming(Path(home) / "secrets.json") as text:
            return Form[Secrets](cls).decode(text)
