"""Whether pods of Grass can run in a namespace: version, rights, claim, and a pod that the server only checks.

Changes nothing. Used by ``grass.provision.namespaces`` and ``node.agent.namespace``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from grass.errors import InputError, NotAllowedError, NotFoundError
from grass.kubernetes import rights
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.credentials import Credential, Login, shared_credential, stored
from grass.kubernetes.machines import machines_of
from grass.kubernetes.objects import (
    ANY,
    API_GROUPS,
    CLAIM,
    IMAGE_LOGIN,
    NODES,
    QUOTAS,
    SECRET,
    KubernetesNode,
    ResourceQuota,
    Version,
)
from grass.kubernetes.pod_rights import container_rights, spec_rights
from grass.kubernetes.queues import kind_of
from grass.kubernetes.rights import Rule
from grass.model.namespace import QueueKind
from grass.node_config import KubernetesConfig
from grass.wire.codec import Form
from grass.wire.machines import Machines

OLDEST = (1, 20)
_VERSION: Form[Version] = Form(Version)
_SHARED = "ReadWriteMany"
_PAGE = 500
"""Objects of one page of a list."""


def server_of(settings: KubernetesConfig) -> ApiServer:
    """Return the server of a namespace, as the user of its kubeconfig."""
    if settings.credentials is not None:
        return ApiServer(Credential(partial(stored, Path(settings.credentials))))
    return ApiServer(shared_credential(Login(settings.kubeconfig, settings.context)))


def quotas(server: ApiServer, namespace: str) -> list[ResourceQuota]:
    """Return the quotas of a namespace."""
    return server.get(f"/api/v1/namespaces/{namespace}/resourcequotas", QUOTAS).items


def machines(server: ApiServer, settings: KubernetesConfig) -> Machines | None:
    """Return the machines of the cluster; None: this user may not list them."""
    if not rights.may_see_machines(server):
        return None
    found: list[KubernetesNode] = []
    query: dict[str, str | int] = {"limit": _PAGE}
    while True:
        page = server.get("/api/v1/nodes", NODES, query)
        found += page.items
        if not page.metadata.continue_:
            return machines_of(found, settings.gpu, settings.tolerations)
        query["continue"] = page.metadata.continue_


def check_queue(server: ApiServer, settings: KubernetesConfig) -> QueueKind | None:
    """Return whose the queue of the settings is; None: they name none. Raises InputError: there is none."""
    if settings.queue is None:
        return None
    return kind_of(settings, {each.name for each in server.get("/apis", API_GROUPS).groups})


def check_version(server: ApiServer) -> str:
    """Return the server's version. Raises InputError: it is too old."""
    found = server.get("/version", _VERSION)
    number = tuple(int(re.sub(r"\D.*", "", part) or 0) for part in (found.major, found.minor))
    if number < OLDEST:
        raise InputError(f"the API server has version {found.git_version}; Grass needs 1.20 or later")
    return found.git_version


def check_rights(server: ApiServer, settings: KubernetesConfig, more: Iterable[Rule] = ()) -> None:
    """Raises NotAllowedError, which names each right that is missing. ``more``: what is also needed."""
    missing = rights.missing(server, settings, more)
    if missing:
        names = "\n  ".join(map(str, missing))
        raise NotAllowedError(
            f"namespace {settings.namespace}: these rights are missing:\n  {names}\n"
            "`grass node add --kubernetes … --plan` prints the Role for an administrator"
        )


def check_claim(server: ApiServer, settings: KubernetesConfig) -> None:
    """Look at the claim that is the share, if there is one. Raises InputError: pods cannot have it."""
    if settings.claim is None:
        return
    title = f"claim {settings.claim} in namespace {settings.namespace}"
    found = server.find(f"/api/v1/namespaces/{settings.namespace}/persistentvolumeclaims/{settings.claim}", CLAIM)
    if found is None:
        raise InputError(
            f"{title}: not found; create a PersistentVolumeClaim with accessModes [{_SHARED}], or name another one "
            "as `claim`"
        )
    if _SHARED not in found.spec.access_modes:
        modes = ", ".join(found.spec.access_modes) or "none"
        raise InputError(
            f"{title}: its access modes are {modes}; pods on several machines need one with {_SHARED}: create it with "
            "a storage class that has this mode (NFS, CephFS, Lustre, a file service of a cloud)"
        )
    if found.status.phase != "Bound":
        raise InputError(
            f"{title}: it has no volume ({found.status.phase or 'no phase'}); `kubectl describe pvc {settings.claim}` "
            "says why; try again when it is Bound"
        )


def check_pull_secrets(server: ApiServer, settings: KubernetesConfig) -> None:
    """Look at the Secrets with which images are pulled. A kubelet ignores those that are missing, so pods would wait
    for an image that cannot be pulled. Raises InputError."""
    for name in settings.image_secrets:
        title = f"Secret {name} in namespace {settings.namespace}"
        make = (
            "remove the node and add it again"
            if name == settings.registry_secret
            else f"`kubectl create secret docker-registry {name} -n {settings.namespace} …` makes one"
        )
        found = server.find(f"/api/v1/namespaces/{settings.namespace}/secrets/{name}", SECRET)
        if found is None:
            raise InputError(f"{title}: not found; {make}")
        if found.type != IMAGE_LOGIN:
            raise InputError(f"{title}: its type is {found.type}, not {IMAGE_LOGIN}; {make}")


def try_pod(server: ApiServer, settings: KubernetesConfig) -> None:
    """Let the server check a pod like those of tasks, without creating it. Raises NotFoundError: there is no such
    namespace; InputError: it refuses the pod."""
    path = f"/api/v1/namespaces/{settings.namespace}/pods"
    try:
        server.post(path, _pod(settings), ANY, {"dryRun": "All"})
    except RefusedError as error:
        if error.http == 404:
            raise NotFoundError(f"namespace {settings.namespace}: {error}") from error
        if error.http == 403 and "exceeded quota" in str(error):
            return  # it is full now, and pods will wait
        raise InputError(f"namespace {settings.namespace}: a pod of Grass is refused: {error}") from error


def _pod(settings: KubernetesConfig) -> dict[str, object]:
    resources = {"cpu": "10m", "memory": "16Mi"}
    container = {
        "name": "task",
        "image": settings.image or "registry.invalid/grass-trial:1",
        "resources": {"requests": resources, "limits": resources},
        **container_rights(settings),
    }
    spec = {
        **spec_rights(settings),
        "restartPolicy": "Never",
        "shareProcessNamespace": True,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "grass-trial-"}, "spec": spec}
