"""What one node is: the part ``node`` of a ``cluster.json``.

Daemons of the node read it. ``grass.provision`` writes it. A machine may have several nodes: itself, and namespaces of
Kubernetes. Each has a ``cluster.json`` of its own, except that on a cluster of one machine that node shares the
master's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from grass.config import ClusterConfig, NodePolicy
from grass.errors import InputError
from grass.model.namespace import Serve
from grass.model.runtime import PROCESSES_ONLY

_ANNOTATIONS = dict.fromkeys(("cluster-autoscaler.kubernetes.io/safe-to-evict", "sidecar.istio.io/inject"), "false")


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
    annotations: dict[str, str] = field(default_factory=_ANNOTATIONS.copy)
    tolerations: tuple[dict[str, str], ...] = ()

    @property
    def image_secrets(self) -> tuple[str, ...]:
        """Return the names of all Secrets with which images are pulled."""
        return (*self.pull_secrets, *([self.registry_secret] if self.registry_secret is not None else ()))


@dataclass(frozen=True)
class NodeConfig(NodePolicy):
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
    labels: dict[str, str] = field(default_factory=dict)
    """Labels in addition to those that the node finds by itself (``node/agent/labels.py``). These take precedence."""
    path: tuple[str, ...] = ()
    """Its topology path, from the outside in: ``("rack1", "switch3")``."""
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    """The runtimes that it offers: ``process``, ``docker``."""
    mounts: tuple[str, ...] = ()
    """Folders of the host that containers may mount, including everything below them."""
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
class NodeHome(ClusterConfig):
    """A node, and the cluster as the node's host knows it: the whole content of its ``cluster.json``."""

    node: NodeConfig = field(kw_only=True)

    @property
    def namespace(self) -> KubernetesConfig:
        """Where its pods are. Raises InputError: it is a machine."""
        if self.node.kubernetes is None:
            raise InputError(f"node {self.node.name}: its settings name no namespace of Kubernetes")
        return self.node.kubernetes

    @classmethod
    def of(cls, cluster: ClusterConfig, node: NodeConfig) -> NodeHome:
        return cls(**{each.name: getattr(cluster, each.name) for each in fields(ClusterConfig)}, node=node)


def load_master(path: str | Path) -> ClusterConfig:
    """Return the configuration of a master: a ``NodeHome``, if its machine is a node. Raises as ``load``."""
    config = ClusterConfig.load(path)
    return config if config.master.own_node is None else NodeHome.load(path)


def own_node(config: ClusterConfig) -> NodeHome | None:
    """Return the node that is the machine of the master. None: it is no node. ``config``: see ``load_master``."""
    assert config.master.own_node is None or isinstance(config, NodeHome), "it was read as a master"
    return config if isinstance(config, NodeHome) else None
