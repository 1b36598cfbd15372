"""Reads the settings of a cluster all of whose nodes are namespaces: its master on this machine, or inside of one.

``docs/reference/settings-file.md`` explains every key. Used by ``settings`` and ``grass.provision``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from enum import Enum
from typing import Any

from grass.manifest import quantities, values
from grass.manifest.document import Document
from grass.manifest.fields import Fields
from grass.manifest.local_settings import KubernetesSettings, read_outside
from grass.manifest.namespaces import image_name, object_name, pull_secrets
from grass.manifest.values import Wrong, show
from grass.model.mode import KUBERNETES_INSIDE
from grass.model.names import is_namespace_name, is_object_name

LONGEST_NAME = 40
"""Of a cluster with its master inside: labels that Kubernetes makes of the names of objects have at most 63
characters."""
_KEY = "inside"
_NO_IMAGE = "is missing; it is an image with Grass that the namespace can pull; deploy/kubernetes/Dockerfile makes one"
_URL = re.compile(r"http://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/?")


class _Where(str, Enum):
    OUTSIDE = "outside"
    INSIDE = "inside"


@dataclass(frozen=True)
class Inside:
    """The pod of the master. ``size``: bytes of its volume. ``storage_class`` None: the default one of Kubernetes.

    ``address``: URL at which clients reach the API; empty: they go through the API server of Kubernetes.
    ``ingress``: host name for which an Ingress is made; empty: none is.
    """

    image: str
    pull_secrets: tuple[str, ...] = ()
    size: int = 10 << 30
    storage_class: str | None = None
    cpu: int = 1000
    memory: int = 2 << 30
    address: str = ""
    ingress: str = ""
    ingress_class: str | None = None


@dataclass(frozen=True)
class InsideSettings(KubernetesSettings):
    """Settings of a cluster whose master is a pod of its one namespace. ``document``: the file, which the pod reads."""

    mode = KUBERNETES_INSIDE
    inside: Inside = Inside("")
    document: Document = field(default_factory=dict, compare=False, repr=False)


_NOT_INSIDE = {
    "redis": "a master inside runs its own, with its data in its volume",
    "ports": "the API of a master inside has a port of its own pod",
    "keep_agent_alive": "a master inside stays up; `grass delete` ends it",
    "agent_countdown": "a master inside stays up; `grass delete` ends it",
    "metrics": "needs certificates on the master's machine; a master inside serves no metrics yet",
}


def read_kubernetes(fields: Fields) -> KubernetesSettings:
    if fields.read("master", _where, _Where.OUTSIDE) is _Where.OUTSIDE:
        fields.refuse(_KEY, "is for `master: inside`")
        return read_outside(fields)
    for key, why in _NOT_INSIDE.items():
        fields.refuse(key, why)
    inside, found = _read_inside(fields), read_outside(fields)
    _check(fields, found)
    return InsideSettings(**values_of(found), inside=inside, document=fields.content)


def values_of(settings: KubernetesSettings) -> dict[str, Any]:  # Any: values of several types, for keyword arguments
    """Return what the settings have in common with those of a master on a machine."""
    return {each.name: getattr(settings, each.name) for each in fields_of(KubernetesSettings)}


def _where(value: Any) -> _Where:
    if isinstance(value, dict):
        raise Wrong("must be outside or inside; what is said of a master inside stands under `inside`")
    return values.one_of(_Where)(value)


def _check(fields: Fields, found: KubernetesSettings) -> None:
    """Add what a master in a pod cannot do."""
    problems = fields.problems
    if len(found.name) > LONGEST_NAME or not is_namespace_name(found.name):
        problems.add("name", f"must be at most {LONGEST_NAME} of a-z, 0-9 and `-` with `master: inside`")
    for each in found.namespaces[1:]:
        problems.add(each.path, "a cluster with `master: inside` has one namespace, that of its master")
    for each in found.namespaces:
        for key, said in (("registry", each.registry), ("registry_user", each.registry_user)):
            if said is not None:
                problems.add(f"{each.path}.{key}", "is not there with `master: inside`; use `pull_secrets`")
    if found.notify is not None and found.notify.secret_file is not None:
        problems.add("notify.secret_file", "is a file of the master's machine; a pod does not have it")


def _read_inside(fields: Fields) -> Inside:
    if not fields.has(_KEY):
        fields.problems.add(f"{_KEY}.image", _NO_IMAGE)
    with fields.within(_KEY) as own, own.within("resources") as amounts, own.within("ingress") as ingress:
        host = ingress.require("host", _host, "", "is missing; it is the host name of the API")
        return Inside(
            image=own.require("image", image_name, "", _NO_IMAGE),
            pull_secrets=pull_secrets(own),
            size=own.read("size", _size, Inside.size),
            storage_class=own.read("class", object_name, None),
            cpu=amounts.read("cpu", quantities.cpu, Inside.cpu),
            memory=amounts.read("memory", _memory, Inside.memory),
            address=own.read("address", _address, "") or (f"http://{host}:80" if host else ""),
            ingress=host,
            ingress_class=ingress.read("class", object_name, None),
        )


def _at_least(least: int, text: str, value: Any) -> int:
    found = quantities.memory(value)
    if found < least:
        raise Wrong(f"must be at least {text}, got {show(value)}")
    return found


def _size(value: Any) -> int:
    return _at_least(1 << 30, "1GiB", value)


def _memory(value: Any) -> int:
    return _at_least(512 << 20, "512MiB", value)


def _address(value: Any) -> str:
    text = values.text(value)
    match = _URL.fullmatch(text)
    if match is None:
        raise Wrong(f"must be http://HOST[:PORT], got {show(value)}; requests are encrypted without TLS")
    return f"http://{match[1]}{match[2] or ':80'}"


def _host(value: Any) -> str:
    text = values.text(value)
    if not is_object_name(text):
        raise Wrong(f"must be a host name such as grass.example.org, got {show(value)}")
    return text
