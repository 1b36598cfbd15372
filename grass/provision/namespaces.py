"""Namespaces of Kubernetes that become nodes: what both kinds of clusters do for one.

What is asked for; what is looked at before anything is changed; how such a node joins. Used by ``local``,
``local_namespaces``, ``grass.provision.on_premises`` and `grass node add --kubernetes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import grass
from grass.errors import GrassError, InputError, NotAllowedError, UnreachableError
from grass.kubernetes import names, registry, rights
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.capacity import Most, limited, offered
from grass.kubernetes.credentials import Login
from grass.kubernetes.machines import total
from grass.kubernetes.registry import RegistryLogin
from grass.kubernetes.trial import (
    check_claim,
    check_pull_secrets,
    check_queue,
    check_rights,
    check_version,
    machines,
    quotas,
    server_of,
    try_pod,
)
from grass.lines import lines_of
from grass.manifest.namespaces import NamespaceSettings
from grass.model.daemons import NODE_AGENT, NODE_API, OPERATOR, Daemon
from grass.model.lifecycle import NodeState
from grass.model.names import MAX_NAME, NAME_RULE, is_name, is_namespace_name, is_object_name
from grass.model.runtime import RuntimeName
from grass.node_config import KubernetesConfig, NodeConfig
from grass.system import clock
from grass.system.entropy import request_id
from grass.system.environment import registry_password, variables
from grass.wire.calls import Join, JoinFacts, OfferedNode
from grass.wire.codec import indented

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.node_views import NodeView

DAEMONS = (NODE_AGENT, NODE_API)
"""Those of every namespace."""
_READY_SECONDS = 60.0


@dataclass(frozen=True)
class NamespaceRequest:
    """A namespace that is to become the node ``name``.

    ``plan`` takes the lines of the plan; if it is set, nothing
    is changed. ``change``: whether a namespace that is a node already gets what the settings say of serving. ``path``:
    where it is in a settings file; empty: options say it.
    """

    name: str
    settings: KubernetesConfig
    most: Most
    labels: dict[str, str] = field(default_factory=dict)
    plan: Callable[[str], None] | None = None
    login: RegistryLogin | None = None
    """Of the registry in the settings."""
    change: bool = False
    path: str = ""

    def said(self, key: str) -> str:
        """Return how the user says an amount."""
        return f"{self.path}.resources.{key}" if self.path else f"--{key}"


def requested(
    wanted: NamespaceSettings,
    *,
    plan: Callable[[str], None] | None = None,
    login: RegistryLogin | None = None,
    change: bool = False,
) -> NamespaceRequest:
    """Return what is asked for, with what this shell says of kubeconfigs. Raises InputError: there is no context."""
    login_now = kept_login(wanted.kubeconfig, wanted.context, reads=plan is None)
    settings = KubernetesConfig(
        wanted.namespace,
        wanted.cluster_id,
        kubeconfig=login_now.kubeconfig,
        context=login_now.context,
        image=wanted.image,
        claim=wanted.claim,
        queue=wanted.queue,
        queue_kind=wanted.queue_kind,
        pull_secrets=wanted.pull_secrets,
        registry=wanted.registry,
        registry_secret=names.registry_secret(wanted.name) if wanted.registry_user is not None else None,
        serve=wanted.serve,
    )
    most = Most(wanted.cpu, wanted.memory, wanted.gpu)
    return NamespaceRequest(wanted.name, settings, most, dict(wanted.labels), plan, login, change, wanted.path)


def kept_login(kubeconfig: str | None, context: str | None, *, reads: bool = True) -> Login:
    """Return what leads to the same cluster of Kubernetes later. Raises InputError: there is no context.

    Which context is current may change, and an agent or a client must stay in its cluster: so the present one is kept.
    ``reads`` false: the kubeconfig is not read, so None stays the current one.
    """
    login = Login(absolute_paths(kubeconfig or variables().get("KUBECONFIG")), context)
    return msgspec.structs.replace(login, context=login.read().context) if reads and context is None else login


def absolute_paths(paths: str | None) -> str | None:
    """Return paths as the daemons find them, which have neither this shell's variables nor its folder."""
    found = [str(Path(each).expanduser().absolute()) for each in (paths or "").split(os.pathsep) if each]
    return os.pathsep.join(found) or None


def registry_login(wanted: NamespaceSettings, ask: Callable[[str], str | None] | None) -> RegistryLogin | None:
    """Return the login of its registry; None: it wants none. Raises InputError: there is nobody to ask."""
    user = wanted.registry_user
    if wanted.registry is None or user is None:
        return None
    host = registry.host_of(wanted.registry)
    password = registry_password() or (ask(f"password of {user} for {host}: ") if ask is not None else None)
    if not password:
        raise InputError("no terminal to ask for the password of the registry; set GRASS_REGISTRY_PASSWORD instead")
    return RegistryLogin(user, password)


def daemons_of(settings: KubernetesConfig | None) -> tuple[Daemon, ...]:
    """Return the daemons of a namespace."""
    return (*DAEMONS, OPERATOR) if settings is not None and settings.serve is not None else DAEMONS


def namespace_of(text: str) -> tuple[str | None, str]:
    """Return the context, if one is named, and the namespace of ``[CONTEXT/]NAMESPACE``. Contexts may contain ``/``."""
    context, _, namespace = text.rpartition("/")
    if not is_namespace_name(namespace):
        raise InputError(f"--kubernetes {text}: {namespace!r} is not the name of a namespace")
    return context or None, namespace


def check_object_names(wanted: NamespaceSettings) -> None:
    """Check the names of objects of the namespace: they become parts of paths. Raises InputError."""
    named = [
        ("--claim", wanted.claim),
        ("--queue", wanted.queue),
        *(("--pull-secret", each) for each in wanted.pull_secrets),
    ]
    for option, name in named:
        if name is not None and not is_object_name(name):
            raise InputError(f"{option} {name!r}: is not the name of an object of Kubernetes")


def check_node_name(name: str) -> None:
    """Raises InputError: a node cannot be called so."""
    if not is_name(name):
        raise InputError(f"--name {name!r}: must be at most {MAX_NAME} {NAME_RULE}")


def look(request: NamespaceRequest) -> NamespaceRequest:
    """Check that pods of Grass can run in a namespace. Changes nothing.

    Return the request, with what was found in its settings: whose its queue is.
    Raises InputError, NotFoundError, NotAllowedError (names each missing right), UnreachableError.
    """
    settings = request.settings
    with closing(server_of(settings)) as server:
        try:
            check_version(server)
            kind = check_queue(server, settings)
            settings = replace(settings, queue_kind=kind.value if kind is not None else "")
            check_rights(server, settings)
            check_claim(server, settings)
            check_pull_secrets(server, replace(settings, registry_secret=None))  # this one is made later
            try_pod(server, settings)
            _check_capacity(server, request)
        except RefusedError as error:
            wrong = NotAllowedError if error.http == 403 else InputError
            raise wrong(f"namespace {settings.namespace}: the API server refuses: {error}") from error
    return replace(request, settings=settings)


def _check_capacity(server: ApiServer, request: NamespaceRequest) -> None:
    settings = request.settings
    limits = limited(quotas(server, settings.namespace), request.most, settings.gpu)
    seen = machines(server, settings) if None in (limits.cpu, limits.memory) else None
    found = offered(limits, total(seen) if seen is not None else None)
    for amount, key in ((found.cpu, "cpu"), (found.memory, "memory")):
        if not amount:
            raise InputError(
                f"namespace {settings.namespace}: no quota says how much {key} it has, and its machines cannot be "
                f"seen; say how much Grass may use with {request.said(key)}"
            )


def plan(request: NamespaceRequest) -> list[str]:
    """Return the lines of the plan: the Role for an administrator, and what would be done."""
    settings = request.settings
    role, binding = (lines_of(indented(each)) for each in rights.objects(settings))
    seen, bound = (lines_of(indented(each)) for each in rights.optional_objects())
    optional = [*seen, "---", *bound]
    return [
        "# the Role that Grass needs. An administrator creates it, and binds it to you: USER is the name of your user",
        *role,
        "---",
        *binding,
        "# an administrator may also give this right, which is for the whole cluster and never needed: Grass then",
        "# shows machines, and jobs can ask for their labels and models of GPUs. Without the `# ` it can be created",
        *(f"# {line}" for line in optional),
        f"# then: node {request.name} of the cluster is the namespace {settings.namespace}; an agent beside the master",
        "# creates, watches and deletes pods there; nothing else is created in the namespace but a Lease"
        + (f" and the Secret {settings.registry_secret}" if settings.registry_secret else ""),
    ]


def node_config(request: NamespaceRequest, settings: KubernetesConfig, *, address: str, api_port: int) -> NodeConfig:
    """Return the node that the namespace becomes. ``settings``: as its agent needs them.

    It has the limits that the user says, and not those of quotas and machines, which change: its agent reads them.
    """
    return NodeConfig(
        name=request.name,
        address=address,
        api_port=api_port,
        cpu=request.most.cpu,
        memory=request.most.memory,
        gpu=request.most.gpu,
        labels=request.labels,
        runtimes=(RuntimeName.KUBERNETES.value,),
        kubernetes=settings,
    )


def of_cluster(settings: KubernetesConfig, others: Iterable[KubernetesConfig | None]) -> KubernetesConfig:
    """Return the settings with the id by which the cluster knows its pods: that of its ``others``, or a new one."""
    known = (each.cluster_id for each in others if each is not None)
    return replace(settings, cluster_id=next(known, None) or settings.cluster_id or request_id())


def provide_login(
    request: NamespaceRequest, settings: KubernetesConfig, before: KubernetesConfig | None = None
) -> None:
    """Make the Secret with the login of the node's registry, with this machine's credentials. May be repeated.

    ``settings``: of its agent. ``before``: earlier ones, whose Secret goes if there is none now."""
    labels = names.node_labels(settings.cluster_id, request.name)
    with closing(server_of(request.settings)) as server:
        if request.login is not None:
            registry.provide(server, settings, labels, request.login)
        elif before is not None and settings.registry_secret is None:
            registry.remove(server, replace(before, namespace=settings.namespace), labels)


def join_request(node: NodeConfig, secret: str, password: str, join_id: str) -> Join:
    """Return what the node sends to the master, as if a machine joined."""
    return Join(
        secret=secret,
        join_id=join_id,
        password=password,
        name=node.name,
        facts=JoinFacts(address=node.address, api_port=node.api_port, version=grass.__version__),
        node=OfferedNode(cpu=node.cpu, memory=node.memory, gpu=node.gpu, labels=node.labels, runtimes=node.runtimes),
    )


def wait_ready(name: str, client: Client) -> NodeView:
    """Wait until the node is READY. Raises UnreachableError: it is not, after a minute."""
    seen, until = None, clock.steady() + _READY_SECONDS
    while clock.steady() < until:
        waited = client.watch_node(name, seen, until - clock.steady())
        seen = waited.mark
        if waited.node is not None and waited.node.state == NodeState.READY:
            return waited.node
    raise UnreachableError(f"node {name}: was added, but its agent does not report; see `grass node show {name}`")


def pods_stay(namespace: str, error: GrassError | str) -> UnreachableError:
    """Return the error of a removal that was not begun, because pods could not be removed."""
    return UnreachableError(
        f"its pods in the namespace {namespace} cannot be removed now: {error}; nothing was changed; `--force` leaves "
        "them behind"
    )
