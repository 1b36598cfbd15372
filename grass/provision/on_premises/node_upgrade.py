"""Which nodes are behind the master. `grass create` upgrades those of another Grass by the steps of joining.

Must change nothing on the machines. Used by ``first_nodes`` and ``node_plan``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from grass import __version__
from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.hosts import Host
from grass.manifest.on_premises import HostSettings
from grass.model.lifecycle import NodeState
from grass.model.namespace import is_namespace
from grass.provision.on_premises.machines import open_host
from grass.provision.on_premises.node_paths import started_of_root
from grass.provision.provisioner import Session

if TYPE_CHECKING:
    from grass.wire.node_views import NodeView

UPGRADE = "it runs an earlier Grass and is upgraded; its tasks go on"
_TLS_NOW = (
    "its hosts now speak TLS, so machines that joined before need a certificate; those under `nodes:` of the settings "
    "file get one now, for others repeat `grass node add`, or `grass join` on the machine"
)
_ISOLATION_NOW = ". This ends the tasks there, because `isolation` changes, too"
_ENDS_TASKS = (
    "it runs an earlier Grass, is upgraded and joins again with another `isolation`; its tasks end, and start again "
    "whatever their restart policy"
)
_TASK_REDIS_NOW = (
    "`task_redis` changed; machines that joined before keep what they know of it until they are removed "
    "(`grass node remove`) and join again"
)
_THERE = (NodeState.READY, NodeState.DRAINING, NodeState.DRAINED, NodeState.QUARANTINED)


def lacked_by_nodes(before: ClusterConfig | None, now: ClusterConfig) -> Iterator[str]:
    """Yield what nodes of this cluster lack that joined it ``before``, and what to do. None: it is new."""
    if before is None:
        return
    if now.tls and not before.tls:
        yield _TLS_NOW + ("" if before.master.node_policy.isolate == now.master.node_policy.isolate else _ISOLATION_NOW)
    if (before.task_redis, before.task_redis_server) != (now.task_redis, now.task_redis_server):
        yield _TASK_REDIS_NOW


def upgrade_of(before: ClusterConfig | None, now: ClusterConfig) -> str:
    """Say what comes of a node that is upgraded. ``before``: its configuration; ``now``: the master's.

    A node from before TLS joins again, and only then takes another isolation of users, for which its shepherd restarts.
    """
    if before is None or not now.tls or before.tls:
        return UPGRADE
    return UPGRADE if before.master.node_policy.isolate == now.master.node_policy.isolate else _ENDS_TASKS


def is_outdated(host: Host, cluster: str, bundle: str) -> bool:
    """Return whether the node's daemons were not started from this bundle. Raises the errors of ``Host.run``.

    ``bundle``: a digest. A node that an earlier version of Grass made has no note of its own.
    """
    noted = host.run(
        ["sh", "-c", 'cat -- "$1" 2>/dev/null || cat -- "$2"', "cat", *started_of_root(cluster)], sudo=True
    )
    return noted.out.strip() != bundle


def outdated(
    session: Session, known: Mapping[str, HostSettings], views: Sequence[NodeView], bundle: str, pool: Executor
) -> list[HostSettings]:
    """Return the outdated machines among the nodes that report. ``known``: node → how this user reaches it.

    A machine that cannot be reached counts as outdated: the upgrade then fails with the reason.
    """

    def look(settings: HostSettings) -> bool:
        try:
            with open_host(settings, session.client_dir, session.ask) as host:
                host.connect()
                return is_outdated(host, session.name, bundle)
        except GrassError:
            return True

    there = [known[view.name] for view in views if view.state in _THERE and view.name in known]
    return [host for host, old in zip(there, pool.map(look, there), strict=True) if old]


def out_of_reach(known: Mapping[str, HostSettings], views: Sequence[NodeView], url: str) -> Iterator[str]:
    """Yield what to do about each node of another version that this user does not reach over SSH."""
    for view in views:
        name, version = view.name, view.version
        if name not in known and version and version != __version__ and not is_namespace(view.runtimes or ()):
            yield (
                f"{name}: runs Grass {version}, and joined by itself or was added from another machine; there, repeat "
                f"`curl -sSf {url}/v1/join.py | sudo python3 - --token TOKEN` with the options of then and a TOKEN of "
                "`grass node token`, or repeat `grass node add`. Its tasks go on"
            )
