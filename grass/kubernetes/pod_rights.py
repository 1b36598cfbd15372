"""What a pod of Grass may do. Pure; used by ``grass.provision.namespaces`` and ``node.runtime.kubernetes.pods``."""

from __future__ import annotations

from grass.model import pod_security
from grass.model.pod_security import Part
from grass.node_config import KubernetesConfig


def spec_rights(settings: KubernetesConfig) -> Part:
    """Return the parts of a pod's spec that say who it is and what it may do.

    With ``restricted``, it is accepted at that level of PodSecurity.
    """
    spec = pod_security.of_tokens()
    if settings.restricted:
        spec["securityContext"] = pod_security.of_pod(settings.user)
    if settings.image_secrets:
        spec["imagePullSecrets"] = [{"name": each} for each in settings.image_secrets]
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    return spec


def container_rights(settings: KubernetesConfig) -> Part:
    """Return the part of a container that says what it may do."""
    if not settings.restricted:
        return {}
    return {"securityContext": pod_security.of_container()}
