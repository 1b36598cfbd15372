"""The registry of a namespace: names of images in it, and the Secret with its login, which Grass makes for a node.

Kubelets pull images with that Secret, and `grass image push --node` pushes with it. Used by ``grass.provision`` and
``node.runtime.kubernetes``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from grass.errors import ConflictError, InputError, NotFoundError
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.objects import ANY, IMAGE_LOGIN, SECRET
from grass.model.names import is_registry_host, registry_host
from grass.node_config import KubernetesConfig

_KEY = ".dockerconfigjson"
_IMAGE = re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?")
_DOCKER = ("docker.io", "https://index.docker.io/v1/")
"""The host in names of images, and what docker calls it where logins are kept."""


@dataclass(frozen=True)
class RegistryLogin:
    user: str
    password: str = field(repr=False)


def host_of(registry: str) -> str:
    """Return the host of ``HOST[:PORT][/PATH]``. Raises InputError: it is none."""
    host = registry_host(registry)
    if not host:
        raise InputError(f"--registry {registry!r}: is not HOST[:PORT][/PATH], such as registry.example.org/team")
    return host


def image_in(registry: str, name: str) -> str:
    """Return the name that the image ``name`` has in the registry. Raises InputError: it cannot be pushed there."""
    if name.startswith(f"{registry}/"):
        path = name[len(registry) + 1 :]
    else:
        first, _, rest = name.partition("/")
        path = rest if rest and is_registry_host(first) else name
    if not _IMAGE.fullmatch(path):
        raise InputError(f"{name!r} is not the name of an image that can be pushed, such as trainer:1")
    return f"{registry}/{path}"


def docker_config(registry: str, login: RegistryLogin) -> str:
    """Return the content of a ``config.json`` of docker with this login."""
    host = host_of(registry)
    pair = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    key = _DOCKER[1] if host == _DOCKER[0] else host
    return json.dumps({"auths": {key: {"username": login.user, "password": login.password, "auth": pair}}})


def provide(api: ApiServer, settings: KubernetesConfig, labels: Mapping[str, str], login: RegistryLogin) -> None:
    """Make the Secret of a node, or give it this login. Raises ConflictError: there is such a Secret of somebody else.

    ``labels``: those of the node."""
    assert settings.registry and settings.registry_secret, "the node has a registry with a login"
    content = base64.b64encode(docker_config(settings.registry, login).encode()).decode()
    metadata = {"name": settings.registry_secret, "labels": {**labels, **names.MANAGED}}
    body = {"apiVersion": "v1", "kind": "Secret", "type": IMAGE_LOGIN, "metadata": metadata, "data": {_KEY: content}}
    try:
        api.post(_path(settings), body, ANY)
    except RefusedError as error:
        if error.reason != "AlreadyExists":
            raise
        _own(api, settings, labels)
        api.put(f"{_path(settings)}/{settings.registry_secret}", body, ANY)


def remove(api: ApiServer, settings: KubernetesConfig, labels: Mapping[str, str]) -> None:
    """Remove the Secret of a node, unless it is somebody else's."""
    if settings.registry_secret is None:
        return
    try:
        uid = _own(api, settings, labels)
        api.delete(f"{_path(settings)}/{settings.registry_secret}", ANY, {"preconditions": {"uid": uid}})
    except ConflictError:
        return
    except RefusedError as error:
        if error.http not in (404, 409):
            raise


def login_of(api: ApiServer, settings: KubernetesConfig) -> str | None:
    """Return docker's ``config.json`` with the login of the node's registry; None: it needs none."""
    if settings.registry_secret is None:
        return None
    found = api.find(f"{_path(settings)}/{settings.registry_secret}", SECRET)
    if found is None:
        raise NotFoundError(
            f"Secret {settings.registry_secret} in namespace {settings.namespace}: not found; remove the node and add "
            "it again"
        )
    return base64.b64decode(found.data.get(_KEY, "")).decode(errors="replace")


def _own(api: ApiServer, settings: KubernetesConfig, labels: Mapping[str, str]) -> str:
    """Return the uid of the Secret. Raises ConflictError: it is not of this node."""
    found = api.get(f"{_path(settings)}/{settings.registry_secret}", SECRET).metadata
    if any(found.labels.get(name) != labels[name] for name in (names.CLUSTER, names.NODE)):
        raise ConflictError(
            f"Secret {settings.registry_secret} in namespace {settings.namespace}: is of another cluster of Grass; "
            "choose another name for the node"
        )
    return found.uid


def _path(settings: KubernetesConfig) -> str:
    return f"/api/v1/namespaces/{settings.namespace}/secrets"
