"""Namespaces of Kubernetes that become nodes: what is asked for, and what is looked at before anything is changed.

Used by ``local_namespaces`` and `grass node add --kubernetes`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from grass.config import KubernetesConfig
from grass.errors import InputError
from grass.kubernetes import rights
from grass.kubernetes.api import ApiServer
from grass.kubernetes.capacity import Most, offered
from grass.kubernetes.trial import (
    check_claim,
    check_pull_secrets,
    check_rights,
    check_version,
    quotas,
    server_of,
    try_pod,
)
from grass.lines import lines_of
from grass.model.resources import Resources
from grass.wire.codec import indented

_OBJECT = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 253


@dataclass(frozen=True)
class NamespaceRequest:
    """A namespace that is to become the node ``name``.

    ``plan`` takes the lines of the plan; if it is set, nothing
    is changed.
    """

    name: str
    settings: KubernetesConfig
    most: Most
    labels: dict[str, str] = field(default_factory=dict)
    plan: Callable[[str], None] | None = None


def namespace_of(text: str) -> tuple[str | None, str]:
    """Return the context, if one is named, and the namespace of ``[CONTEXT/]NAMESPACE``. Contexts may contain ``/``."""
    context, _, namespace = text.rpartition("/")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
        raise InputError(f"--kubernetes {text}: {namespace!r} is not the name of a namespace")
    return context or None, namespace


def check_names(settings: KubernetesConfig) -> None:
    """Check the names of objects of the namespace: they become parts of paths. Raises InputError."""
    named = [("--claim", settings.claim), *(("--pull-secret", each) for each in settings.pull_secrets)]
    for option, name in named:
        if name is not None and (len(name) > _LONGEST_NAME or not _OBJECT.fullmatch(name)):
            raise InputError(f"{option} {name!r}: is not the name of an object of Kubernetes")


def look(request: NamespaceRequest) -> Resources:
    """Check that pods of Grass can run in a namespace. Changes nothing. Return what it offers.

    Raises InputError, NotFoundError, NotAllowedError (names each missing right), UnreachableError.
    """
    settings = request.settings
    with closing(server_of(settings)) as server:
        check_version(server)
        check_rights(server, settings)
        check_claim(server, settings)
        check_pull_secrets(server, settings)
        try_pod(server, settings)
        return _capacity(server, request)


def _capacity(server: ApiServer, request: NamespaceRequest) -> Resources:
    found = offered(quotas(server, request.settings.namespace), request.most, request.settings.gpu)
    for amount, key in ((found.cpu, "cpu"), (found.memory, "memory")):
        if not amount:
            raise InputError(
                f"namespace {request.settings.namespace}: no quota says how much {key} it has; "
                f"say how much Grass may use with --{key}"
            )
    return found


def plan(request: NamespaceRequest) -> list[str]:
    """Return the lines of the plan: the Role for an administrator, and what would be done."""
    settings = request.settings
    role, binding = (lines_of(indented(each)) for each in rights.objects(settings))
    return [
        "# the Role that Grass needs. An administrator creates it, and binds it to you: USER is the name of your user",
        *role,
        "---",
        *binding,
        f"# then: node {request.name} of the cluster is the namespace {settings.namespace}; an agent beside the master",
        "# creates, watches and deletes pods there; nothing else is created in the namespace",
    ]
