"""Builds events of Kubernetes: what `kubectl describe` shows below a resource. Pure. Used by ``loop``."""

from __future__ import annotations

import hashlib

from grass.kubernetes.custom_kinds import Kind
from grass.kubernetes.custom_resources import Resource
from grass.manifest.document import Document

_LONGEST = 1000
"""Characters of a message. The server refuses more than 1,024."""


def warning(kind: Kind, resource: Resource, reason: str, message: str, now: str) -> Document:
    """Return a warning about a resource. The same one has the same name, so that the server keeps it once."""
    about = resource.metadata
    digest = hashlib.sha256(f"{about.uid} {reason} {message}".encode()).hexdigest()[:16]
    subject = {"apiVersion": kind.api_version, "kind": kind.name, "name": about.name, "namespace": about.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name[:200].rstrip('-.')}.{digest}", "namespace": about.namespace},
        "involvedObject": {**subject, "uid": about.uid},
        "type": "Warning",
        "reason": reason,
        "message": message[:_LONGEST],
        "source": {"component": "grass"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
