"""Namespaces of Kubernetes in the settings file of a cluster on this machine: what is to be done for each.

Used by ``local``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from grass.errors import GrassError, InputError
from grass.kubernetes.registry import host_of
from grass.manifest.namespaces import NamespaceSettings
from grass.node_config import NodeConfig
from grass.provision.namespaces import NamespaceRequest, absolute_paths, look, plan, registry_login, requested
from grass.system.environment import registry_password

Ask = Callable[[str], "str | None"]


def looked_at(wanted: Sequence[NamespaceSettings], ask: Ask | None) -> dict[str, NamespaceRequest]:
    """Return name → request, once pods of Grass can run in each of these namespaces. Changes nothing.

    Raises what ``namespaces.look`` raises, with the path in the file.
    """
    found = requests(wanted, ask)
    for each in found:
        with _at(each.path):
            look(each)
    return {each.name: each for each in found}


def requests(wanted: Sequence[NamespaceSettings], ask: Ask | None) -> list[NamespaceRequest]:
    """Return what is asked for, with the passwords of registries. Raises InputError, with the path in the file."""
    _check_password(wanted)
    remembered, found = cache(ask) if ask is not None else None, []
    for each in wanted:
        with _at(each.path):
            found.append(requested(each, login=registry_login(each, remembered)))
    return found


def plan_lines(wanted: Sequence[NamespaceSettings]) -> Iterator[str]:
    """Yield what `kubectl apply -f` takes, with comments. Calls no server."""
    for number, each in enumerate(wanted):
        if number:
            yield "---"
        yield from plan(requested(each, plan=lambda _: None))


def differences(node: NodeConfig, wanted: NamespaceSettings) -> list[str]:
    """Return the keys whose value in the file is another than the node has. What the file leaves to kubectl or to
    quotas was decided when the node was made."""
    has = node.kubernetes
    if has is None:
        return ["namespace"]
    said = {
        "namespace": (wanted.namespace, has.namespace),
        "context": (wanted.context or has.context, has.context),
        "kubeconfig": (absolute_paths(wanted.kubeconfig) or has.kubeconfig, has.kubeconfig),
        "image": (wanted.image, has.image),
        "resources.cpu": (wanted.cpu, node.cpu),
        "resources.memory": (wanted.memory, node.memory),
        "resources.gpu": (wanted.gpu, node.gpu),
        "claim": (wanted.claim, has.claim),
        "queue": ((wanted.queue_kind or has.queue_kind, wanted.queue), (has.queue_kind, has.queue)),
        "pull_secrets": (wanted.pull_secrets, has.pull_secrets),
        "registry": (wanted.registry, has.registry),
        "registry_user": (wanted.registry_user is not None, has.registry_secret is not None),
        "serve": (wanted.serve, has.serve),
        "labels": (wanted.labels, node.labels),
    }
    return [key for key, (one, other) in said.items() if one != other]


def notes(nodes: Collection[NodeConfig], wanted: Sequence[NamespaceSettings]) -> Iterator[str]:
    """Yield what the user should know of ``nodes``, which the cluster has already: none of them is changed."""
    named = {each.name: each for each in wanted}
    for node in nodes:
        if node.name not in named:
            yield f"node {node.name}: is not in the file; it stays (`grass node remove {node.name}` removes it)"
        elif keys := differences(node, named[node.name]):
            yield (
                f"warning: node {node.name}: stays as it is; the file has other values of {', '.join(keys)}; to "
                f"change that, use `grass node remove {node.name}`, then this command again"
            )


def _check_password(wanted: Sequence[NamespaceSettings]) -> None:
    """Raises InputError: one password would go to registries of others."""
    logins = {(host_of(one.registry), one.registry_user) for one in wanted if one.registry and one.registry_user}
    if len(logins) > 1 and registry_password() is not None:
        raise InputError(
            "GRASS_REGISTRY_PASSWORD is one password, but the new namespaces of the file have several logins "
            f"({', '.join(sorted(f'{user} at {host}' for host, user in logins))}); leave it out to be asked for each"
        )


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Begin the messages of errors with a path."""
    try:
        yield
    except GrassError as error:
        error.args = (f"{path}: {error}",)
        raise
