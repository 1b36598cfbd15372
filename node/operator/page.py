"""The Service and the Ingress by which the page of a MarsJob is reached at its ``webHost``. Pure. Used by ``loop``.

Both belong to the resource, so Kubernetes removes them with it. The path is the one of KubeDL:
``http://HOST/mars/NAMESPACE/SERVICE/``.
"""

from __future__ import annotations

from typing import NamedTuple

from grass.kubernetes import names
from grass.kubernetes.custom_kinds import MARS_JOB
from grass.kubernetes.custom_resources import Resource
from grass.manifest.document import Document
from grass.model.job import Job

SERVICES = "/api/v1/namespaces/{}/services"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/{}/ingresses"


class Web(NamedTuple):
    """What has the page of a job: the component, and the name of its port."""

    component: str
    port: str


def host_of(resource: Resource) -> str:
    """Return the host name at which the page is wanted; empty: none."""
    host = (resource.spec or {}).get("webHost")
    return host if isinstance(host, str) else ""


def web_of(job: Job) -> Web | None:
    return next((Web(name, part.web) for name, part in job.components.items() if part.web), None)


def name_of(resource: Resource) -> str:
    """Return the name of both objects."""
    return names.pod_name(resource.metadata.uid, f"{resource.metadata.name}-web")


def address(resource: Resource) -> str:
    return f"http://{host_of(resource)}/mars/{resource.metadata.namespace}/{name_of(resource)}/"


def service(resource: Resource, job_id: str, component: str, port: int) -> Document:
    """Return the Service. ``port``: of the page, in the pod."""
    selector = {names.JOB: names.short(job_id), names.COMPONENT: component}
    ports = [{"name": "web", "port": 80, "targetPort": port}]
    spec = {"selector": selector, "ports": ports, "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(resource), "spec": spec}


def ingress(resource: Resource) -> Document:
    """Return the Ingress. Its annotations are those of ingress-nginx: the page itself begins at ``/``."""
    metadata = _metadata(resource)
    nginx = "nginx.ingress.kubernetes.io"
    metadata["annotations"] = {f"{nginx}/rewrite-target": "/$2", f"{nginx}/use-regex": "true"}
    name = name_of(resource)
    path = {
        "path": f"/mars/{resource.metadata.namespace}/{name}(/|$)(.*)",
        "pathType": "ImplementationSpecific",
        "backend": {"service": {"name": name, "port": {"name": "web"}}},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": metadata,
        "spec": {"rules": [{"host": host_of(resource), "http": {"paths": [path]}}]},
    }


def _metadata(resource: Resource) -> Document:
    about = resource.metadata
    owner = {"apiVersion": MARS_JOB.api_version, "kind": MARS_JOB.name, "name": about.name, "uid": about.uid}
    return {
        "name": name_of(resource),
        "namespace": about.namespace,
        "labels": names.MANAGED,
        "ownerReferences": [owner],
    }
