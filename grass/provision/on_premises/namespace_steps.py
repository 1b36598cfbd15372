"""Steps that make a namespace of Kubernetes a node whose agent runs on the master, and that remove it. Pure.

The units are those of a node's daemons; their instance is ``NODE@CLUSTER``. Used by ``master`` and
``namespace_nodes``, which runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace

from grass.assets import asset
from grass.config import ClusterConfig
from grass.errors import ConflictError
from grass.hosts import Host
from grass.kubernetes.credentials import Credentials
from grass.node_config import KubernetesConfig, NodeConfig, NodeHome
from grass.provision.namespaces import DAEMONS, NamespaceRequest, of_cluster
from grass.provision.on_premises import install, node_paths, node_units, record
from grass.provision.on_premises.design import SHARES
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.join_record import Own
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.removal import removal_steps
from grass.provision.on_premises.steps import Call, Put, Run, Step
from grass.wire.codec import Form, encode

ROLE = "namespace"
FIRST_PORT = 51820
"""Ports of the APIs of namespaces begin here: the one of a machine that joins must stay free on the master."""


class OwnNamespace(Own, kw_only=True):
    """What is kept of such a node on the master, for the next call. ``server``: URL of the API server."""

    api_port: int = 0
    server: str = ""
    kubernetes: KubernetesConfig | None = None


_OWN: Form[OwnNamespace] = Form(OwnNamespace)
_CONFIG: Form[NodeHome] = Form(NodeHome)


def known(facts: Facts, cluster: str) -> dict[str, OwnNamespace]:
    """Return what the master has of the cluster's namespaces, also of those that are not complete."""
    end = f"@{cluster}+{ROLE}"
    return {
        key.removesuffix(end): _OWN.convert(made.details) for key, made in facts.records.items() if key.endswith(end)
    }


def own(facts: Facts, master: ClusterConfig, request: NamespaceRequest, server: str) -> OwnNamespace:
    """Return what is to be kept of the node: that of an earlier call, with the settings of this one.

    Raises ConflictError: the node is another namespace.
    """
    others = known(facts, master.name)
    found = others.pop(request.name, None) or OwnNamespace()
    was, settings = found.kubernetes, request.settings
    if was is not None and (was.namespace, found.server) != (settings.namespace, server):
        raise ConflictError(
            f"node {request.name}: exists already, as the namespace {was.namespace} of {found.server}; choose another "
            f"name, or remove that node first with `grass node remove {request.name}`"
        )
    file = node_paths.of_namespace(master.name, request.name).kubernetes
    settings = replace(settings, kubeconfig=None, context=None, credentials=file)
    found.kubernetes = of_cluster(settings, [was, *(each.kubernetes for each in others.values())])
    found.server = server
    found.api_port = found.api_port or _free_port(facts, master.address, {each.api_port for each in others.values()})
    return found


def _free_port(facts: Facts, address: str, taken: Set[int]) -> int:
    port = FIRST_PORT
    while port in taken or facts.listens(address, port) is not None:
        port += 1
    return port


def record_path(paths: NodePaths) -> str:
    return record.path(paths.cluster, ROLE)


def made(facts: Facts, paths: NodePaths) -> Made:
    """Return everything that adding the node creates on the master and that did not exist there before Grass."""
    units = tuple(paths.unit(daemon.name) for daemon in DAEMONS)
    drop_ins = tuple(_drop_in(paths, daemon.name) for daemon in DAEMONS)
    templates = tuple(_template(paths, daemon.name) for daemon in DAEMONS)
    wanted = Made(units=units, files=(*templates, paths.env), folders=(paths.home, paths.runtime_dir, *drop_ins))
    before = facts.records.get(f"{paths.cluster}+{ROLE}", Made())
    return record.merged(before, record.claim(wanted, facts.there, facts.records))


def cluster_config(
    wire: Mapping[str, object], paths: NodePaths, node: NodeConfig, master: ClusterConfig, before: NodeHome | None
) -> NodeHome:
    """Return the node's configuration. ``wire``: the master's answer to a join. ``before``: what it was.

    Pods reach no redis for tasks, and tasks are isolated by Kubernetes. The master's folder is the share. That the node
    speaks TLS is noted when it has got a certificate (``host_certificate``).
    """
    found = _CONFIG.convert({**wire, "home": paths.home, "runtime_dir": paths.runtime_dir})
    tls, redis_tls = (before.tls, before.redis.tls) if before is not None else (False, False)
    redis = replace(found.redis, tls=redis_tls)
    share = str(master.data_dir)
    return replace(found, node=node, share=share, tls=tls, redis=redis, task_redis=0, task_redis_server=None)


def steps_to_claim(made: Made, paths: NodePaths, credentials: Credentials) -> Iterator[Step]:
    yield install.record_step(made, record_path(paths))
    parent = paths.home.rpartition("/")[0]
    own = [(path, 0o700, paths.owner) for path in (paths.home, f"{paths.home}/node", f"{paths.home}/node/attempts")]
    yield install.folder_step([(parent, 0o755, "root:root"), *own])
    yield Step("write its credentials", (Put(paths.kubernetes, encode(credentials).encode(), 0o600, paths.owner),))


def steps_after_claim(paths: NodePaths, master: ClusterConfig, bundle: str, *, new: bool = True) -> Iterator[Step]:
    """``bundle``: the digest of the installed one. ``new``: as of ``_start_step``."""
    yield _unit_step(paths, master)
    yield _start_step(paths, bundle, new=new)


def upgrade_steps(facts: Facts, master: ClusterConfig, bundle: str) -> Iterator[Step]:
    """Restart the daemons of all namespaces that were started from another bundle. Pods run on."""
    for name in known(facts, master.name):
        for step in steps_after_claim(node_paths.of_namespace(master.name, name), master, bundle, new=False):
            yield replace(step, name=f"{name}: {step.name}")


def _unit_step(paths: NodePaths, master: ClusterConfig) -> Step:
    folders = tuple(_drop_in(paths, daemon.name) for daemon in DAEMONS)
    puts = [Put(paths.env, node_units.environment(paths))]
    for daemon in DAEMONS:
        text = asset(f"deploy/systemd/grass-{daemon.name}@.service").read_bytes()
        puts.append(Put(_template(paths, daemon.name), text))
        puts.append(Put(f"{_drop_in(paths, daemon.name)}/cluster.conf", addition(master).encode()))
    make = Run(("install", "-d", "-m", "0755", *folders))
    return Step("write its units", (make, *puts, Run(("systemctl", "daemon-reload"))))


def addition(master: ClusterConfig) -> str:
    """Return what is added to both units: they belong to the cluster, and not to one called as the instance."""
    target = f"grass@{master.name}.target"
    share = str(master.data_dir)
    lines = ["[Unit]", f"PartOf={target}", f"After=grass-redis@{master.name}.service"]
    if not share.startswith(f"{SHARES}/"):
        lines += ["[Service]", f"ReadWritePaths={share}"]
    return "\n".join([*lines, "[Install]", f"WantedBy={target}", ""])


def _template(paths: NodePaths, daemon: str) -> str:
    return f"{paths.units}/grass-{daemon}@.service"


def _drop_in(paths: NodePaths, daemon: str) -> str:
    return f"{paths.units}/{paths.unit(daemon)}.d"


_UNCHANGED = """
[ -e "$1" ] || exit $3
[ "$(cat "$1")" = "$2" ] || exit 1
shift 3
systemctl is-active --quiet "$@" && systemctl is-enabled --quiet "$@"
"""


def _start_step(paths: NodePaths, bundle: str, *, new: bool) -> Step:
    """``new``: also start daemons that never were. Otherwise a node whose adding was interrupted is left alone."""
    units = tuple(paths.unit(daemon.name) for daemon in DAEMONS)
    note = 'printf "%s\n" "$2" > "$1"'
    return Step(
        f"start {', '.join(units)}",
        (
            Run(("systemctl", "enable", "--quiet", *units)),
            Run(("systemctl", "restart", *units), timeout=150),
            Run(("systemctl", "is-active", "--quiet", *units)),
            Run(("sh", "-c", note, "note", paths.started, bundle)),
        ),
        Run(("sh", "-c", _UNCHANGED, "check", paths.started, bundle, "1" if new else "0", *units)),
        hint=f"on the master, `journalctl -u {units[0]}` says why",
    )


_SWEEP = """
[ -e "$1" ] || exit 0
exec runuser -u grass -- "$2" -m node.runtime.sweep "$1" --remove
"""


def leave_steps(paths: NodePaths, records: Mapping[str, Made], left: Callable[[str], None] | None) -> list[Step]:
    """Return the steps that end the node's daemons, then remove its pods and its lease, then its files.

    ``left`` takes the reason why pods stay; None: then the steps end there. Empty if nothing of the node is there.
    """
    steps = removal_steps(paths.cluster, records, ROLE)
    steps[1:1] = [_sweep_step(paths, left)] if steps else []
    return steps


def _sweep_step(paths: NodePaths, left: Callable[[str], None] | None) -> Step:
    sweep = Run(("sh", "-c", _SWEEP, "sweep", paths.config, paths.python))
    if left is None:
        return Step("remove its pods", (sweep,), hint="`--force` leaves them behind")
    tell = left

    def do(host: Host) -> None:
        done = host.run(sweep.argv, sudo=True, timeout=sweep.timeout)
        if not done.ok:
            tell((done.err or done.out).strip())

    return Step("remove its pods", (Call(str(sweep), do),))
