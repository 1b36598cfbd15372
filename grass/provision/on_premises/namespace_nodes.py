"""`grass node add --kubernetes` and `grass node remove` of such a node, in a cluster of several hosts.

Its agent runs on the master, which is reached over SSH. Used by ``delete``, ``moving``, ``namespace_moves`` and
``provisioner``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from grass.api.client import Client
from grass.api.invitation import Invitation, parse_token
from grass.api.join_client import JoinClient
from grass.api.keyring import load_client
from grass.config import ClusterConfig
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError, UndecodableError, UnreachableError
from grass.hosts import Host
from grass.kubernetes.credentials import CREDENTIALS, Credentials, Login
from grass.node_config import NodeConfig, NodeHome
from grass.provision import namespaces
from grass.provision.filelock import cluster_lock
from grass.provision.namespaces import NamespaceRequest
from grass.provision.on_premises import join_steps, namespace_steps, node_paths
from grass.provision.on_premises.facts import Facts, gather
from grass.provision.on_premises.install import AS_GRASS
from grass.provision.on_premises.machines import Machines, load_machines, open_host
from grass.provision.on_premises.namespace_steps import OwnNamespace
from grass.provision.on_premises.node_paths import NodePaths
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Call, Progress, Step, run_steps
from grass.provision.provisioner import Session
from grass.wire.codec import builtins, encode, indented

if TYPE_CHECKING:
    from grass.wire.node_views import NodeView

_PROGRAM = "grass.provision.on_premises.namespace_host"


def add(session: Session, machines: Machines, request: NamespaceRequest, client: Client) -> NodeView | None:
    """Make a namespace a node, or finish an interrupted call. A node of that namespace gets new settings and
    credentials. Nothing is changed before all looks have passed. Return None: only the plan was wanted."""
    if request.plan is not None:
        for line in namespaces.plan(request):
            request.plan(line)
        return None
    namespaces.check_node_name(request.name)
    if request.settings.serve is not None:
        raise InputError("--serve: works on a cluster on one machine only; such a cluster may serve the same namespace")
    settings, name = request.settings, request.name
    credentials = Login(settings.kubeconfig, settings.context).read_to_keep()
    request = namespaces.look(request)
    with cluster_lock(session.home, session.name), open_host(machines.master, session.client_dir, session.ask) as host:
        session.progress(f"{name}: connecting to {host.access}")
        host.connect()
        host.become_root()
        facts = gather(host, session.name)
        master = _master(facts, session.name)
        look_from(host, credentials)
        own = namespace_steps.own(facts, master, request, credentials.server)
        assert own.kubernetes is not None, "it was just set"
        node = namespaces.node_config(request, own.kubernetes, address=master.address, api_port=own.api_port)
        client.join_check(builtins(namespaces.join_request(node, "", own.password, own.join_id)))
        invitation = parse_token(client.join_token(name).token)
        own.name, own.urls, own.key = name, list(invitation.urls), invitation.key
        _remember(session, name, there=True)
        login = _login_step(request, own, namespace_steps.known(facts, session.name).get(name))
        _join(session, host, facts, node, own, credentials, invitation, login)
    return namespaces.wait_ready(name, client)


def _join(
    session: Session,
    host: Host,
    facts: Facts,
    node: NodeConfig,
    own: OwnNamespace,
    credentials: Credentials,
    invitation: Invitation,
    login: Sequence[Step] = (),
) -> None:
    """Have the node join, or join again, with its agent on this master. ``invitation``: without a secret it was a node
    before."""
    master, paths = _master(facts, session.name), node_paths.of_namespace(session.name, node.name)
    made, keys = namespace_steps.made(facts, paths), load_client(session.client_dir)
    with closing(JoinClient(keys.profile, keys.master())) as joining:
        steps = [
            *namespace_steps.steps_to_claim(replace(made, details=builtins(own)), paths, credentials),
            _claim_step(joining, invitation, node, master, paths, own, made),
            *login,
            join_steps.certificate_step(joining, paths, own, lambda: _restart_later(host, paths)),
            *namespace_steps.steps_after_claim(paths, master, facts.bundle),
        ]
        run_steps(host, steps, session.progress, node.name)


def join_again(session: Session) -> None:
    """Have the agents of all namespaces act on the machine of the master, where their files came with a move. May be
    repeated. The caller holds the lock of the cluster."""
    machines = load_machines(session.name, session.home)
    if machines is None or not machines.namespaces:
        return
    with (
        open_host(machines.master, session.client_dir, session.ask) as host,
        Client(session.name, home=session.home) as client,
    ):
        host.connect()
        host.become_root()
        for name in machines.namespaces:
            facts = gather(host, session.name)
            own = namespace_steps.known(facts, session.name)[name]
            paths = node_paths.of_namespace(session.name, name)
            before = _config(host, paths)
            if before is None:
                raise ConflictError(f"{paths.config}: is damaged; `grass node add --kubernetes` makes it again")
            node = replace(before.node, address=_master(facts, session.name).address)
            invitation = parse_token(client.join_token(name).token)
            own.urls, own.key = list(invitation.urls), invitation.key
            credentials = CREDENTIALS.decode(host.get(paths.kubernetes, sudo=True))
            _join(session, host, facts, node, own, credentials, invitation)
            namespaces.wait_ready(name, client)


def _master(facts: Facts, cluster: str) -> ClusterConfig:
    if facts.config is None or not facts.bundle:
        raise ConflictError(f"{facts.hostname} is not the master of cluster {cluster}; repeat `grass create FILE`")
    return facts.config


def look_from(host: Host, credentials: Credentials) -> None:
    """Check that the master's own Grass reaches the API server with these credentials."""
    command = [*AS_GRASS, "/opt/grass/venv/bin/python", "-m", _PROGRAM, "look"]
    done = host.run(command, stdin=encode(credentials).encode(), sudo=True, timeout=90)
    if done.ok:
        return
    said = done.err.strip()
    if "No module named" in said:
        raise ConflictError(f"{host.name} runs an earlier Grass than this machine; repeat `grass create FILE` first")
    kind = {UnreachableError.exit_code: UnreachableError, NotAllowedError.exit_code: NotAllowedError}
    raise kind.get(done.code, InputError)(
        f"the master, where the agent of the namespace runs, cannot use the API server at {credentials.server}; "
        f"nothing was changed: {said}"
    )


def _claim_step(
    joining: JoinClient,
    invitation: Invitation,
    node: NodeConfig,
    master: ClusterConfig,
    paths: NodePaths,
    own: OwnNamespace,
    made: Made,
) -> Step:
    """Return the one step that changes the cluster: it registers the node and writes the master's answer."""

    def do(host: Host) -> None:
        body = namespaces.join_request(node, invitation.secret, own.password, own.join_id)
        reply = joining.join(builtins(body))
        assert reply.secrets and isinstance(reply.config, dict), "the reply to a join has them"
        own.node_token = reply.secrets.node_token
        before = _config(host, paths)
        config = namespace_steps.cluster_config(reply.config, paths, node, master, before)
        moved = before is not None and before.redis.host != config.redis.host
        if reply.already is not True or moved:  # a certificate of an earlier node, or from another master, is of no use
            host.run(["rm", "-rf", "--", f"{paths.home}/tls"], sudo=True).check()
        if reply.already is not True or config != before:
            _restart_later(host, paths)
            host.put(indented(config).encode(), paths.config, 0o644, paths.owner, sudo=True)
        secrets = msgspec.structs.replace(reply.secrets, redis={"node": own.password})
        host.put(indented(secrets).encode(), paths.secrets, 0o600, paths.owner, sudo=True)
        record = replace(made, details=builtins(own))
        host.put(record.text(), namespace_steps.record_path(paths), 0o600, "root:root", sudo=True)

    text = f"ask the master to take it in as {node.name}; write {paths.config} and {paths.secrets}"
    return Step(f"join the cluster {master.name} as {node.name}", (Call(text, do),))


def _login_step(request: NamespaceRequest, own: OwnNamespace, before: OwnNamespace | None) -> list[Step]:
    """Return the step that makes the Secret of its registry. Its password is not on the master."""
    settings, was = own.kubernetes, before.kubernetes if before is not None else None
    assert settings is not None, "it was just set"
    if request.login is None and (was is None or was.registry_secret is None):
        return []
    text = f"write the login of {settings.registry} into namespace {settings.namespace}"
    return [Step("provide its login", (Call(text, lambda _: namespaces.provide_login(request, settings, was)),))]


def _config(host: Host, paths: NodePaths) -> NodeHome | None:
    """Return the present configuration of the node. None: there is none, or a damaged one."""
    try:
        return NodeHome.parse(host.run(["cat", paths.config], sudo=True).out)
    except UndecodableError:
        return None


def _restart_later(host: Host, paths: NodePaths) -> None:
    """Forget what the daemons were started from, so that they are started again, also by a later call."""
    host.run(["rm", "-f", "--", paths.started], sudo=True).check()


def remove(session: Session, machines: Machines, name: str, take_out: Callable[[], None], *, force: bool) -> None:
    """Remove the node. A repeated call continues an interrupted one. ``force``: also if its pods cannot be removed."""
    paths = node_paths.of_namespace(session.name, name)
    with open_host(machines.master, session.client_dir, session.ask) as host:
        host.connect()
        host.become_root()
        if not force:
            _check_reachable(host, paths)
        try:
            take_out()
        except NotFoundError:  # an earlier removal was interrupted after that, or the node never joined
            session.progress(f"{name}: is not in the cluster; removing what is left of it")
        with cluster_lock(session.home, session.name):
            records = gather(host, session.name).records
            left = _warning(session.progress, name) if force else None
            run_steps(host, namespace_steps.leave_steps(paths, records, left), session.progress, name)
            _remember(session, name, there=False)


def remove_all(host: Host, facts: Facts, cluster: str, progress: Progress) -> None:
    """Remove all namespaces of a cluster from its master. Pods whose server does not answer stay."""
    for name in namespace_steps.known(facts, cluster):
        records = gather(host, cluster).records  # those of other namespaces may be gone
        steps = namespace_steps.leave_steps(node_paths.of_namespace(cluster, name), records, _warning(progress, name))
        run_steps(host, steps, progress, name)


def _check_reachable(host: Host, paths: NodePaths) -> None:
    config = _config(host, paths)
    if config is None or config.node.kubernetes is None:
        return  # it never had a pod
    done = host.run([*AS_GRASS, paths.python, "-m", _PROGRAM, "reach", paths.config], sudo=True, timeout=90)
    if not done.ok:
        raise namespaces.pods_stay(config.node.kubernetes.namespace, done.err.strip())


def _warning(progress: Progress, name: str) -> Callable[[str], None]:
    return lambda why: progress(f"warning: {name}: its pods stay in the namespace ({why})")


def _remember(session: Session, name: str, *, there: bool) -> None:
    """Save on this machine that the node is a namespace, before anything of it is made, until nothing of it is left."""
    machines = load_machines(session.name, session.home)
    if machines is not None:
        left = tuple(each for each in machines.namespaces if each != name)
        replace(machines, namespaces=(*left, name) if there else left).save(session.client_dir)
