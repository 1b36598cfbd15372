"""Paths of a node's files: in system folders with root, otherwise under ``~/.grass``. Pure. Used by this package."""

from __future__ import annotations

from dataclasses import dataclass

from grass.config import ClusterConfig

STARTED = "node.started"


@dataclass(frozen=True)
class NodePaths:
    """Paths of one node's files. ``home``: the node's cluster folder. ``owner``: owner of the files, ``user:group``.

    ``cluster``: what its units are instances of; of a namespace of Kubernetes, ``NODE@CLUSTER``.
    """

    cluster: str
    venv: str
    home: str
    runtime_dir: str
    env: str
    units: str
    share: str
    owner: str
    rootless: bool = False

    @property
    def python(self) -> str:
        return f"{self.venv}/bin/python"

    @property
    def config(self) -> str:
        return f"{self.home}/cluster.json"

    @property
    def kubernetes(self) -> str:
        """Return the path of the credentials of a namespace of Kubernetes."""
        return f"{self.home}/credentials.json"

    @property
    def secrets(self) -> str:
        return f"{self.home}/secrets.json"

    @property
    def started(self) -> str:
        """Return the path of the file that says from which bundle the running daemons were started."""
        return f"{self.home}/{STARTED}"

    @property
    def join(self) -> str:
        """Return the path of the file that a joining machine needs until it is a node."""
        return f"{self.home}/join.json"

    @property
    def pinned(self) -> str:
        """Return the path of what the node knows of its master, which its daemons cannot change."""
        return f"{self.home}/pinned.json" if self.rootless else f"/etc/grass/{self.cluster}.pinned.json"

    @property
    def heard(self) -> str:
        """Return the path of the notice that the node-agent heard. `grass-follow@.path` waits for it."""
        return f"{self.runtime_dir}/heard-notice"

    @property
    def credentials(self) -> str:
        return f"/etc/grass/{self.cluster}.share.conf"

    @property
    def share_env(self) -> str:
        return f"/etc/grass/{self.cluster}.share.env"

    def unit(self, name: str) -> str:
        """Return the name of the unit's instance."""
        return f"grass-{name}@{self.cluster}.service"


def of_root(cluster: str, config: ClusterConfig | None) -> NodePaths:
    """Return the system's paths. ``config``: the host's ``cluster.json``, if any: a master keeps its own folder."""
    is_master = config is not None and config.redis.embedded
    return _of_system(cluster, "nodes" if is_master else "clusters", cluster)


def of_namespace(cluster: str, node: str) -> NodePaths:
    """Return the paths of a node that is a namespace of Kubernetes, on the master. ``@`` is in no name."""
    return _of_system(f"{node}@{cluster}", "nodes", cluster)


def _of_system(instance: str, folder: str, cluster: str) -> NodePaths:
    return NodePaths(
        instance,
        venv="/opt/grass/venv",
        home=f"/var/lib/grass/{folder}/{instance}",
        runtime_dir=f"/run/grass/{instance}",
        env=f"/etc/grass/{instance}.node.env",
        units="/etc/systemd/system",
        share=f"/srv/grass/{cluster}",
        owner="grass:grass",
    )


def started_of_root(cluster: str) -> tuple[str, str]:
    """Return both paths that ``NodePaths.started`` may have in the system's folders."""
    return f"/var/lib/grass/nodes/{cluster}/{STARTED}", f"/var/lib/grass/clusters/{cluster}/{STARTED}"


def of_user(cluster: str, user: str, group: str, home: str, runtime: str) -> NodePaths:
    """Return a user's paths. ``home``: the user's home. ``runtime``: folder of sockets (``/run/user/UID``)."""
    own = f"{home}/.grass"
    return NodePaths(
        cluster,
        venv=f"{own}/venv",
        home=f"{own}/nodes/{cluster}",
        runtime_dir=f"{runtime}/grass/{cluster}",
        env=f"{own}/nodes/{cluster}/env",
        units=f"{home}/.config/systemd/user",
        share=f"{own}/nodes/{cluster}/data",
        owner=f"{user}:{group}",
        rootless=True,
    )
