"""What a resource is called in Grass: the job, its run, the operation, and the tags by which they are found. Pure.

All follow from kind, namespace, name and uid. So the second of two starts is no start: the cluster knows the id. Used
by ``jobs``, ``scales`` and ``loop``.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from grass.kubernetes.custom_kinds import Kind
from grass.kubernetes.custom_resources import Resource
from grass.kubernetes.names import DOMAIN
from grass.manifest.document import Document
from grass.model.namespace import NAME_LABEL, Serve

OPERATOR, KIND, NAMESPACE, NAME, UID = (
    f"{DOMAIN}/{name}" for name in ("operator", "kind", "namespace", "resource", "uid")
)
"""Tags of the job of a resource."""
_SLUG = 45
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_OF_KUBECTL = "kubectl.kubernetes.io/"


class Run(NamedTuple):
    """The job of a resource. ``name``: two resources of one name, in two namespaces, have jobs of two names."""

    name: str
    id: str


def run_of(kind: Kind, resource: Resource) -> Run:
    digest = _digest(kind, resource)
    slug = _OTHER.sub("-", resource.metadata.name)[:_SLUG].strip("-._") or kind.name.lower()
    name = f"{slug}-{digest[:8]}"
    return Run(name, f"{name}-{digest[8:16]}")


def operation_of(kind: Kind, resource: Resource) -> str:
    """Return the id of the operation that a ScaleIn or a ScaleOut becomes."""
    return _digest(kind, resource)[:8]


def document_of(
    kind: Kind, resource: Resource, operator: str, serve: Serve, leave_out: frozenset[str] = frozenset()
) -> Document:
    """Return the resource as a file of its system, with the name of its job and with tags.

    ``leave_out``: keys of ``spec`` that are served in another way.
    """
    about = resource.metadata
    tags = {OPERATOR: operator, KIND: kind.name, NAMESPACE: about.namespace, NAME: about.name, UID: about.uid}
    annotations = {name: text for name, text in about.annotations.items() if not name.startswith(_OF_KUBECTL)}
    spec = {key: value for key, value in (resource.spec or {}).items() if key not in leave_out}
    if serve is Serve.PODS:
        spec = {key: _in_namespace(value, about.namespace) for key, value in spec.items()}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": run_of(kind, resource).name,
            "labels": {**about.labels, **tags},
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": spec,
    }


def _in_namespace(roles: object, namespace: str) -> object:
    """Return roles whose tasks run on nodes that are the namespace. What is no role stays as it is."""
    if not isinstance(roles, dict):
        return roles
    return {name: _role_in_namespace(role, namespace) for name, role in roles.items()}


def _role_in_namespace(role: object, namespace: str) -> object:
    template = role.get("template") if isinstance(role, dict) else None
    pod = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(role, dict) or not isinstance(template, dict) or not isinstance(pod, dict):
        return role
    wanted = pod.get("nodeSelector") or {}
    if not isinstance(wanted, dict):
        return role
    return {**role, "template": {**template, "spec": {**pod, "nodeSelector": {**wanted, NAME_LABEL: namespace}}}}


def _digest(kind: Kind, resource: Resource) -> str:
    about = resource.metadata
    return hashlib.sha256(f"{kind.name}/{about.namespace}/{about.name}/{about.uid}".encode()).hexdigest()
