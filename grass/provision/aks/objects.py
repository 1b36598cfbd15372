"""What Grass makes in a new Kubernetes before its namespace becomes a node: namespace, claim, pull Secret, and what
shows GPUs to pods.

Objects that are there stay as they are, but the Secret. Used by ``edges``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from grass.errors import UnreachableError
from grass.kubernetes import names
from grass.kubernetes.api import ApiServer, RefusedError
from grass.kubernetes.credentials import Credential, Login
from grass.kubernetes.objects import ANY, CLAIM, IMAGE_LOGIN
from grass.manifest.aks import CLAIM as SHARE
from grass.manifest.aks import PULL_SECRET
from grass.manifest.document import Document
from grass.model.amounts import show_span
from grass.system import clock

STORAGE_CLASS = "azurefile-csi"
"""Azure's files, which machines share; made by Azure's Kubernetes."""
_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
_ANSWER_SECONDS = 180.0
"""Until who may reach the API server is known to it: Azure takes up to two minutes."""
_VOLUME_SECONDS = 300.0
_GLANCE = 1.0
_CORE = "/api/v1/namespaces"


@dataclass(frozen=True)
class Wanted:
    """What is made in one Kubernetes. ``share``: GiB of the claim; 0: none. ``login``: docker's configuration with the
    login of the registry; empty: machines pull by right."""

    namespace: str
    share: int
    login: str = field(default="", repr=False)


def objects(wanted: Wanted) -> list[tuple[str, Document]]:
    """Return what is made, each with the path of its collection. Pure."""
    own = f"{_CORE}/{wanted.namespace}"
    found = [
        (_CORE, _object("Namespace", wanted.namespace)),
        ("/apis/apps/v1/namespaces/kube-system/daemonsets", _gpus()),
    ]
    if wanted.share:
        spec: Document = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": f"{wanted.share}Gi"}},
        }
        found.append((f"{own}/persistentvolumeclaims", {**_object("PersistentVolumeClaim", SHARE), "spec": spec}))
    if wanted.login:
        data = {".dockerconfigjson": base64.b64encode(wanted.login.encode()).decode()}
        found.append((f"{own}/secrets", {**_object("Secret", PULL_SECRET), "type": IMAGE_LOGIN, "data": data}))
    return found


def _object(kind: str, name: str) -> Document:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": dict(names.MANAGED)}}


def _gpus() -> Document:
    """Return what lets pods ask for NVIDIA's GPUs, on the machines that have some: Azure installs the driver alone."""
    labels = {"app": "grass-gpus"}
    folder = {"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}
    container = {
        "name": "plugin",
        "image": _PLUGIN,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [folder],
    }
    pod: Document = {
        "nodeSelector": {"kubernetes.azure.com/accelerator": "nvidia"},
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        "volumes": [{"name": "plugins", "hostPath": {"path": folder["mountPath"]}}],
    }
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {**_object("DaemonSet", "grass-gpus"), "apiVersion": "apps/v1", "spec": spec}


def provide(kubeconfig: Path, wanted: Wanted, say: Callable[[str], None]) -> None:
    """Make the objects, and wait for the volume of the claim. May be repeated. Raises UnreachableError."""
    with closing(ApiServer(Credential(Login(str(kubeconfig)).read))) as server:
        _answers(server, say)
        for path, body in objects(wanted):
            _make(server, path, body, say)
        # pods are refused until the namespace has its account
        _until(lambda: _is_there(server, f"{_CORE}/{wanted.namespace}/serviceaccounts/default"), 30.0, "its account")
        if wanted.share:
            path = f"{_CORE}/{wanted.namespace}/persistentvolumeclaims/{SHARE}"
            say(f"claim {SHARE}: waiting for its volume (usually less than a minute)")
            _until(lambda: server.get(path, CLAIM).status.phase == "Bound", _VOLUME_SECONDS, f"a volume of {SHARE}")


def _answers(server: ApiServer, say: Callable[[str], None]) -> None:
    until, told = clock.steady() + _ANSWER_SECONDS, False
    while True:
        try:
            server.get("/version", ANY)
            return
        except UnreachableError as error:
            if clock.steady() > until:
                raise UnreachableError(f"{error}; waited {show_span(_ANSWER_SECONDS)}") from error
            if not told:
                say(f"Kubernetes: waiting for its API server ({error})")
            told = True
        clock.sleep(_GLANCE)


def _make(server: ApiServer, path: str, body: Document, say: Callable[[str], None]) -> None:
    name = body["metadata"]["name"]
    try:
        server.post(path, body, ANY)
        say(f"made {body['kind']} {name}")
    except RefusedError as error:
        if error.reason != "AlreadyExists":
            raise
        if body["kind"] == "Secret":
            server.put(f"{path}/{name}", body, ANY)


def _is_there(server: ApiServer, path: str) -> bool:
    return server.find(path, ANY) is not None


def _until(ready: Callable[[], bool], seconds: float, what: str) -> None:
    until = clock.steady() + seconds
    while not ready():
        if clock.steady() > until:
            raise UnreachableError(f"Kubernetes: did not make {what} in {show_span(seconds)}; repeat the command")
        clock.sleep(_GLANCE)
