"""The objects of a master in a namespace of Kubernetes: their bodies and paths, and the rights to make them. Pure.

Used by ``inside`` and ``inside_master``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from grass.api.keyring import Jwk
from grass.kubernetes import names, rights
from grass.kubernetes.rights import AUTHORIZATION, Rule
from grass.manifest.document import Document
from grass.manifest.inside import Inside
from grass.model import pod_security
from grass.model.pod_security import USER, Part
from grass.node_config import KubernetesConfig
from grass.wire.codec import encode

API_PORT = 51812
HOME = "/var/lib/grass"
"""GRASS_HOME in the pod: its volume."""
GIVEN = "/etc/grass/cluster.json"
CONTAINER = "master"
PROGRAM = "grass.provision.inside_master"
SETTINGS = f"{names.DOMAIN}/settings"
"""Annotation of the pod: a hash of what it is given, so that other settings make another pod."""
_GRACE = 60
"""Seconds for the daemons to end: redis writes its log last."""
_VOLUME = "data"

CORE, APPS, RBAC, NETWORK = "api/v1", "apis/apps/v1", f"apis/{AUTHORIZATION}/v1", "apis/networking.k8s.io/v1"
KINDS = {
    "StatefulSet": (APPS, "statefulsets"),
    "Ingress": (NETWORK, "ingresses"),
    "Service": (CORE, "services"),
    "Secret": (CORE, "secrets"),
    "RoleBinding": (RBAC, "rolebindings"),
    "Role": (RBAC, "roles"),
    "ServiceAccount": (CORE, "serviceaccounts"),
}
"""Kind → its API and plural. They are removed in this order, and made in the other one."""
CLAIMS = (CORE, "persistentvolumeclaims")
_WHY = "a master inside"
_VERBS = ("create", "get", "list", "patch", "delete")
RIGHTS = (
    *(Rule(api.partition("/")[2].rpartition("/")[0], plural, _VERBS, _WHY) for api, plural in KINDS.values()),
    Rule("", "persistentvolumeclaims", ("get", "list", "delete"), _WHY),
)
"""What who creates such a cluster needs, beside the rights of the master's own Role, which nobody else may give."""


class Given(msgspec.Struct, frozen=True):
    """What the pod is given, in a Secret. ``settings``: the file of the user. ``user``: the first administrator, with a
    public ``key``."""

    settings: Document
    cluster_id: str
    user: str
    key: Jwk


@dataclass(frozen=True)
class Master:
    """A master, and the namespace in which it is."""

    cluster: str
    cluster_id: str
    inside: Inside
    node: KubernetesConfig
    given: Given = field(repr=False)

    @property
    def name(self) -> str:
        return object_name(self.cluster)

    @property
    def labels(self) -> dict[str, str]:
        return {
            **names.MANAGED,
            names.CLUSTER: names.short(self.cluster_id),
            names.CLUSTER_ID: self.cluster_id,
            names.MASTER: self.cluster,
        }


def object_name(cluster: str) -> str:
    """Return the name that all objects of the master have."""
    return f"grass-{cluster}"


def pod_name(cluster: str) -> str:
    return f"{object_name(cluster)}-0"


def claim_name(cluster: str) -> str:
    return f"{_VOLUME}-{pod_name(cluster)}"


def path_of(api: str, plural: str, namespace: str, name: str = "") -> str:
    return f"/{api}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def collection(body: Part) -> str:
    """Return the path of the objects of its kind."""
    return path_of(*KINDS[body["kind"]], body["metadata"]["namespace"])


def objects(master: Master) -> list[Part]:
    """Return all objects in the order in which they are made."""
    made = {each["kind"]: each for each in _objects(master)}
    return [made[kind] for kind in reversed(KINDS) if kind in made]


def change_of(body: Part) -> Part:
    """Return the merge patch that makes an object like ``body``: what of it may be changed."""
    kept = {key: value for key, value in body.items() if key in ("stringData", "rules", "subjects", "spec")}
    if body["kind"] == "StatefulSet":
        kept = {"spec": {key: body["spec"][key] for key in ("replicas", "template")}}
    if body["kind"] == "Ingress":
        kept = {"spec": {"ingressClassName": None, **body["spec"]}}  # a patch leaves what it does not name
    return {"metadata": {"labels": body["metadata"]["labels"]}, **kept}


def pod(master: Master) -> Part:
    """Return the master's pod without its account, for the server to check before anything is made."""
    template = _template(master)
    spec = {key: value for key, value in template["spec"].items() if key != "serviceAccountName"}
    volumes = [*spec["volumes"], {"name": _VOLUME, "emptyDir": {}}]
    metadata = {"generateName": f"{master.name}-trial-", **template["metadata"]}
    spec |= {"automountServiceAccountToken": False, "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _objects(master: Master) -> Iterator[Part]:
    account = {"kind": "ServiceAccount", "name": master.name, "namespace": master.node.namespace}
    yield _object(master, "ServiceAccount", automountServiceAccountToken=False)
    yield _object(master, "Role", rules=[rights.in_role(rule) for rule in rights.rules(master.node)])
    role = {"kind": "Role", "name": master.name, "apiGroup": AUTHORIZATION}
    yield _object(master, "RoleBinding", subjects=[account], roleRef=role)
    yield _object(master, "Secret", type="Opaque", stringData={"cluster.json": encode(master.given)})
    port = {"name": "api", "port": 80, "targetPort": "api"}
    yield _object(master, "Service", spec={"selector": _selector(master), "ports": [port]})
    if master.inside.ingress:
        yield _object(master, "Ingress", spec=_ingress(master))
    yield _object(master, "StatefulSet", spec=_stateful_set(master))


def _object(master: Master, kind: str, **content: object) -> Part:
    metadata = {"name": master.name, "namespace": master.node.namespace, "labels": master.labels}
    version = KINDS[kind][0].partition("/")[2]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _selector(master: Master) -> dict[str, str]:
    return {names.MASTER: master.cluster}


def _ingress(master: Master) -> Part:
    backend = {"service": {"name": master.name, "port": {"name": "api"}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    rules = [{"host": master.inside.ingress, "http": {"paths": paths}}]
    chosen = {"ingressClassName": master.inside.ingress_class} if master.inside.ingress_class else {}
    return {**chosen, "rules": rules}


def _stateful_set(master: Master) -> Part:
    inside = master.inside
    spec: Part = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(inside.size)}}}
    if inside.storage_class is not None:
        spec["storageClassName"] = inside.storage_class
    return {
        "replicas": 1,
        "serviceName": master.name,
        "selector": {"matchLabels": _selector(master)},
        # otherwise a pod that never becomes ready would have to be deleted before another image is tried
        "podManagementPolicy": "Parallel",
        "template": _template(master),
        "volumeClaimTemplates": [{"metadata": {"name": _VOLUME, "labels": master.labels}, "spec": spec}],
    }


def _template(master: Master) -> Part:
    amounts = {"cpu": f"{master.inside.cpu}m", "memory": str(master.inside.memory)}
    digest = hashlib.sha256(encode(master.given).encode()).hexdigest()
    container: Part = {
        "name": CONTAINER,
        "image": master.inside.image,
        "command": ["python3", "-m", PROGRAM, "run", GIVEN],
        "workingDir": "/",
        "env": [{"name": "GRASS_HOME", "value": HOME}, {"name": "HOME", "value": "/tmp"}],  # noqa: S108
        "ports": [{"name": "api", "containerPort": API_PORT}],
        "readinessProbe": {"tcpSocket": {"port": "api"}, "periodSeconds": 2},
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": pod_security.of_container(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": _VOLUME, "mountPath": HOME},
            {"name": "given", "mountPath": GIVEN.rpartition("/")[0], "readOnly": True},
        ],
    }
    spec: Part = {
        "serviceAccountName": master.name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": pod_security.of_pod(USER),
        "terminationGracePeriodSeconds": _GRACE,
        "containers": [container],
        "volumes": [{"name": "given", "secret": {"secretName": master.name, "defaultMode": 0o440}}],
        "imagePullSecrets": [{"name": each} for each in master.inside.pull_secrets],  # none, too: it may be a patch
    }
    annotations = {**master.node.annotations, SETTINGS: digest}
    return {"metadata": {"labels": master.labels, "annotations": annotations}, "spec": spec}
