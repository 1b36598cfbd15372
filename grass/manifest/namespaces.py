"""Reads the namespaces of Kubernetes in a settings file, which become nodes when the cluster is created.

``docs/reference/settings-file.md`` explains every key. Used by ``local_settings``, ``grass.cli`` and
``grass.provision``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grass.manifest import quantities, values
from grass.manifest.fields import Fields, Problems
from grass.manifest.placement import read_labels
from grass.manifest.values import Wrong, show
from grass.model.names import is_image_name, is_namespace_name, is_object_name, registry_host
from grass.model.namespace import QueueKind, Serve

KEY = "namespaces"


@dataclass(frozen=True)
class NamespaceSettings:
    """A namespace that is to become the node ``name``, as the user says it, in a file or by options.

    ``path``: where it is in the file; empty: options say it. ``context`` and ``kubeconfig`` None: as kubectl finds
    them. ``cpu``, ``memory`` and ``gpu``: the most that tasks may use; None: what quotas of the namespace allow.
    ``registry_user``: None: its registry wants no login. ``cluster_id``: no file says it; empty: that of the cluster.
    Further ``grass.config.KubernetesConfig``.
    """

    namespace: str
    name: str
    path: str = ""
    context: str | None = None
    kubeconfig: str | None = None
    image: str | None = None
    cpu: int | None = None
    memory: int | None = None
    gpu: int | None = None
    claim: str | None = None
    queue: str | None = None
    queue_kind: str = ""
    pull_secrets: tuple[str, ...] = ()
    registry: str | None = None
    registry_user: str | None = None
    serve: Serve | None = None
    cluster_id: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def read_namespaces(fields: Fields, taken: Mapping[str, str]) -> tuple[NamespaceSettings, ...]:
    """Read the list. ``taken``: names of other nodes, and what has them."""
    seen, found = dict(taken), []
    for path, item in fields.items(KEY):
        one = read_namespace(item, path, fields.problems)
        if one is None:
            continue
        if one.name in seen:
            fields.problems.add(path, f"{one.name} is the name of {seen[one.name]} already; choose another `name`")
        seen[one.name] = path
        found.append(one)
    return tuple(found)


def read_namespace(item: Any, path: str, problems: Problems) -> NamespaceSettings | None:
    """Read ``[CONTEXT/]NAMESPACE`` or a mapping. Return None after adding a problem."""
    if isinstance(item, str):  # contexts may contain `/`
        context, slash, namespace = item.rpartition("/")
        item = {"namespace": namespace, **({"context": context} if slash else {})}
    before, fields = len(problems.found), Fields(item, path, problems)
    if not fields.intact:
        return None
    namespace = fields.require("namespace", _namespace_name, "", "is missing; it is the name of a namespace")
    queue_kind, queue = fields.read("queue", _queue, None) or ("", None)
    with fields.within("resources") as most:
        found = NamespaceSettings(
            namespace,
            fields.read("name", values.name, namespace),
            path,
            context=fields.read("context", values.text, None),
            kubeconfig=fields.read("kubeconfig", _file, None),
            image=fields.read("image", image_name, None),
            cpu=most.read("cpu", quantities.all_or(quantities.cpu), None),
            memory=most.read("memory", quantities.all_or(quantities.memory), None),
            gpu=most.read("gpu", quantities.all_or(quantities.devices), None),
            claim=fields.read("claim", object_name, None),
            queue=queue,
            queue_kind=queue_kind,
            pull_secrets=pull_secrets(fields),
            registry=fields.read("registry", _registry, None),
            registry_user=fields.read("registry_user", _user, None),
            serve=fields.read("serve", values.one_of(Serve), None),
            labels=read_labels(fields),
        )
    if found.registry_user is not None and not fields.has("registry"):
        problems.add(fields.at("registry_user"), "requires `registry`")
    fields.done()
    return found if len(problems.found) == before else None


def pull_secrets(fields: Fields) -> tuple[str, ...]:
    names = [fields.parsed(path, object_name, item, "") for path, item in fields.items("pull_secrets")]
    return tuple(dict.fromkeys(names))


def _namespace_name(value: Any) -> str:
    if not isinstance(value, str) or not is_namespace_name(value):
        raise Wrong(f"must be the name of a namespace, at most 63 of a-z, 0-9 and `-`, got {show(value)}")
    return value


def object_name(value: Any) -> str:
    if not isinstance(value, str) or not is_object_name(value):
        raise Wrong(f"must be the name of an object of Kubernetes, got {show(value)}")
    return value


def _queue(value: Any) -> tuple[str, str]:
    """Parse ``[KIND/]NAME``."""
    kind, _, name = values.text(value).rpartition("/")
    if kind not in ("", *QueueKind) or not is_object_name(name):
        raise Wrong(f"must be NAME, kueue/NAME or volcano/NAME, got {show(value)}")
    return kind, name


def image_name(value: Any) -> str:
    name = values.text(value)
    if not is_image_name(name):
        raise Wrong(f"must be the name of a container image such as python:3.12, got {show(value)}")
    return name


def _registry(value: Any) -> str:
    text = values.text(value)
    if not registry_host(text):
        raise Wrong(f"must be HOST[:PORT][/PATH], such as registry.example.org/team, got {show(value)}")
    return text


def _user(value: Any) -> str:
    text = values.text(value)
    if ":" in text:
        raise Wrong(f"must be the name of a user, got {show(value)}")
    return text


def _file(value: Any) -> str:
    """Parse the path of a file of the user, who may be anywhere when the file is read again."""
    path = values.text(value)
    if not path.startswith(("/", "~/")):
        raise Wrong(f"must be an absolute path, or begin with ~/, got {show(value)}")
    return path
