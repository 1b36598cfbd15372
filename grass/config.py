"""The settings of one cluster for its daemons: a frozen tree, read once from ``cluster.json``.

Written by ``grass.provision``. Each daemon gets the path as its only argument. Secrets are separate (``Secrets``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from grass.errors import NewerVersionError, UndecodableError
from grass.model.isolation import ContainerRights, UidRange
from grass.model.namespace import Serve
from grass.model.policy import ClusterPolicy
from grass.model.runtime import PROCESSES_ONLY
from grass.network_address import network_address
from grass.release import __version__
from grass.system.atomic_file import replace_file
from grass.system.private_file import write_private
from grass.tls_files import TlsFiles
from grass.wire.version import FORMAT, PROTOCOL, REVISION, newer_format, newer_writer


@dataclass(frozen=True)
class Written:
    """Which Grass wrote a ``cluster.json``; its field ``written``. One of before revision 1 wrote no such field."""

    format: int = 0
    protocol: int = 0
    revision: int = 0
    version: str = ""


@dataclass(frozen=True)
class _Head:
    written: Written = field(default_factory=Written)


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

    @property
    def url(self) -> str:
        """Return the API's URL on this machine."""
        return f"http://{network_address(self.api_host, self.api_port)}"


@dataclass(frozen=True)
class KubernetesConfig:
    """A node that is a namespace of Kubernetes: where it is, and what its pods are like.

    ``cluster_id``: of the Grass cluster, made when the node is added. Clusters of several users may have one name and
    share a namespace; their pods are told apart by this. ``kubeconfig`` and ``context`` None: as kubectl finds them.
    ``credentials``: path of a file with ``Credentials``, which are used instead of a kubeconfig.
    ``image``: of tasks that name none; None: they cannot run there. ``gpu``: the resource of GPUs. ``user``: id of user
    and group of tasks; None: that of the image. ``restricted``: whether pods meet the restricted level of PodSecurity.
    ``lost_after``: seconds for which a pod waits for its machine to answer. ``output``: whether what tasks write to
    ``GRASS_OUTPUT`` is kept (``node.runtime.kubernetes.keeper``). ``claim``: a PersistentVolumeClaim of the namespace
    that is the share of its pods (``node.runtime.kubernetes.share``); None: they have none. ``queue``: of Kueue or
    Volcano (``queue_kind``), through which its pods go (``grass.kubernetes.queues``); None: through none. ``registry``:
    where `grass image push` sends images (HOST/PATH); ``registry_secret``: the Secret with its login, which Grass makes
    and removes. ``serve``: where tasks of the custom resources run that are served as jobs (``node.operator``); None:
    no resources are served.
    """

    namespace: str
    cluster_id: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    credentials: str | None = None
    image: str | None = None
    gpu: str = "nvidia.com/gpu"
    user: int | None = 1000
    restricted: bool = True
    lost_after: int = 300
    output: bool = True
    claim: str | None = None
    serve: Serve | None = None
    queue: str | None = None
    queue_kind: str = ""
    pull_policy: str | None = None
    pull_secrets: tuple[str, ...] = ()
    registry: str | None = None
    registry_secret: str | None = None
    service_account: str | None = None
    priority_class: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(
        default_factory=lambda: {
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "sidecar.istio.io/inject": "false",
        }
    )
    tolerations: tuple[dict[str, str], ...] = ()

    @property
    def image_secrets(self) -> tuple[str, ...]:
        """Return the names of all Secrets with which images are pulled."""
        return (*self.pull_secrets, *([self.registry_secret] if self.registry_secret is not None else ()))


@dataclass(frozen=True)
class NodeConfig:
    """One node: what it offers, and what its tasks may do."""

    name: str = "local"
    address: str = "127.0.0.1"
    api_port: int = 0
    cpu: int | None = None
    """Thousandths of a core that the node offers. None, here and below: all of the machine. With ``probe``, the node
    never offers more cpu, memory and gpu than the machine has."""
    memory: int | None = None
    gpu: int | None = None
    """Thousandths of a device; 0: its devices are not for tasks."""
    disk: int | None = None
    """Bytes of scratch."""
    custom: dict[str, int] = field(default_factory=dict)
    """Named countable resources (licences)."""
    reserve: dict[str, int] = field(default_factory=dict)
    """Amounts of cpu, memory and disk that are reserved for the system."""
    low_disk: int | None = None
    """Bytes of free disk below which the node takes no tasks. None: 1 GiB, or 5 % of the disk if that is less; 0:
    never."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels in addition to those that the node finds by itself (``node/agent/labels.py``). These take precedence."""
    path: tuple[str, ...] = ()
    """Its topology path, from the outside in: ``("rack1", "switch3")``."""
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    """The runtimes that it offers: ``process``, ``docker``."""
    mounts: tuple[str, ...] = ()
    """Folders of the host that containers may mount, including everything below them."""
    isolate: UidRange | None = None
    """Ids for the accounts under which tasks of each Grass user run (`isolation: user`). None: all processes run as the
    user of the node's daemons, and containers as their image says."""
    containers: ContainerRights = field(default_factory=ContainerRights)
    """The rights of containers. This and the next field apply with ``isolate`` only."""
    read_only_data: bool = False
    """Whether tasks may only read the files of users in the share, outside of the folders of their jobs."""
    kubernetes: KubernetesConfig | None = None
    """Where its pods are, if it is a namespace of Kubernetes. None: it is a machine."""
    probe: bool = False
    """Whether the node-agent must prove once that tasks, share and log collector work. Its hello has the result."""

    @property
    def default_image(self) -> str:
        """Return the image of tasks that name none; empty: they need a runtime without one."""
        return (self.kubernetes.image if self.kubernetes is not None else None) or ""

    @property
    def claim(self) -> str:
        """The claim that is the share of its pods; empty: it has no pods, or they have no share."""
        return (self.kubernetes.claim if self.kubernetes is not None else None) or ""


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
    node: NodeConfig = field(default_factory=NodeConfig)
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

    def socket(self, name: str) -> Path:
        """The path of a daemon's socket. ``name``: of the daemon."""
        return Path(self.runtime_dir) / f"{name}.sock"

    @property
    def key_prefix(self) -> str:
        return f"grass:{self.name}:"

    def save(self, path: Path | None = None) -> None:
        """Write the file by atomic replacement. ``path``: where, if that is not its place yet."""
        by = Written(FORMAT, PROTOCOL, REVISION, __version__)
        replace_file(path or self.path, json.dumps({"written": asdict(by), **asdict(self)}, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> ClusterConfig:
        """Read the file. Raises UndecodableError, which names the file and the path of the wrong value, and
        NewerVersionError for a format that this Grass does not know."""
        with _naming(Path(path)) as text:
            return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str | bytes, what: str = "cluster.json") -> ClusterConfig:
        """Decode the content of the file. Raises the errors of ``load``."""
        from grass.wire.codec import Form  # imported here: most CLI commands read no settings

        _check_format(Form[_Head](_Head).decode(text).written, what)
        return Form[ClusterConfig](cls).decode(text)


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


def _check_format(written: Written, what: str) -> None:
    refusal = newer_format(what, written.format, written.version, __version__)
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
        wire = {"redis": self.redis, "node_token": self.node_token, "samba": self.samba}
        write_private(Path(home) / "secrets.json", json.dumps(wire))

    @classmethod
    def load(cls, home: str | Path) -> Secrets:
        from grass.wire.codec import Form

        with _naming(Path(home) / "secrets.json") as text:
            return Form[Secrets](cls).decode(text)
