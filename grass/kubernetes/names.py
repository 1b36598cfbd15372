"""The names and labels of pods. Pure.

The name of an attempt's pod follows from its key, so creating it twice creates one pod. It is a DNS label of at most 63
characters, because it is the host name too; keys are longer and have other characters. The key itself is an annotation.
Used by ``node.runtime.kubernetes`` and ``grass.provision.namespace_findings``.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping

from grass.kubernetes.objects import Pod

DOMAIN = "grass-cluster.org"
FINALIZER = f"{DOMAIN}/outcome"
"""Keeps an ended pod until the master has noted its end."""
MANAGED = {"app.kubernetes.io/managed-by": "grass"}
"""Label of all that Grass makes in a namespace."""
CLUSTER, NODE, JOB = (f"{DOMAIN}/{name}" for name in ("cluster", "node", "job"))
"""Labels. Their values are hashes: names of Grass are longer than a label may be."""
COMPONENT = f"{DOMAIN}/component"
"""Label: the component, as it is. Names of components may be values of labels."""
MASTER, CLUSTER_ID = f"{DOMAIN}/master", f"{DOMAIN}/cluster-id"
"""Labels of what is made for a master in a namespace: the name of its cluster, and its id, which a volume that was kept
tells the next master."""
CARRIER = f"{DOMAIN}/files"
"""Label of the pods through which users copy files."""
ATTEMPT, LAUNCH, GANG = (f"{DOMAIN}/{name}" for name in ("attempt", "launch", "gang"))
"""Annotations: keys, as they are; the name of the group of a gang."""
NOTED = f"{DOMAIN}/noted"
"""Annotation of a pod whose end the master has noted: when, in seconds by the server's clock. Such a pod only keeps its
name taken."""

_SLUG = 30
_HASH = 16
_OTHER = re.compile(r"[^a-z0-9]+")


def pod_name(cluster: str, key: str) -> str:
    """Return the name of the pod of attempt ``key``. ``cluster``: the id of the Grass cluster."""
    slug = _OTHER.sub("-", key.lower())[:_SLUG].strip("-") or "task"
    return f"g-{slug}-{short(f'{cluster} {key}')}"


def noted(pod: Pod) -> float | None:
    """Return when the end of a pod was noted; None: it was not. Anything else than a number: long ago."""
    said = pod.metadata.annotations.get(NOTED)
    return None if said is None else float(said) if said.isdigit() else 0.0


def short(text: str) -> str:
    """Return a hash of 80 bits that may be a label's value or a part of a name."""
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b32encode(digest).decode()[:_HASH].lower()


def node_labels(cluster: str, node: str) -> dict[str, str]:
    """Return the labels of all objects of a node of the cluster."""
    return {CLUSTER: short(cluster), NODE: short(node)}


def registry_secret(node: str) -> str:
    """Return the name of the Secret with the login of a node's registry. It is in the Role, which is made before the
    cluster's id is known."""
    return f"grass-registry-{short(node)}"


def lease_name(labels: Mapping[str, str]) -> str:
    """Return the name of the lease of a node. ``labels``: those of the node, as its pods have them."""
    return f"grass-{labels[CLUSTER]}-{labels[NODE]}"


def selector(cluster: str, node: str) -> str:
    """Return the label selector of all pods that this node of the cluster may touch."""
    return f"{CLUSTER}={short(cluster)},{NODE}={short(node)}"
