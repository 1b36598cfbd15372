"""What a pod of Grass may do. Pure; used by ``grass.provision.namespaces`` and ``node.runtime.kubernetes.pods``."""

from __future__ import annotations

from typing import Any

from grass.config import KubernetesConfig

Part = dict[str, Any]  # Any: JSON of the API


def spec_rights(settings: KubernetesConfig) -> Part:
    """Return the parts of a pod's spec that say who it is and what it may do.

    With ``restricted``, it is accepted at that level of PodSecurity
    (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
    """
    spec: Part = {"automountServiceAccountToken": False, "enableServiceLinks": False}
    if settings.restricted:
        context: Part = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        if settings.user is not None:
            context |= {"runAsUser": settings.user, "runAsGroup": settings.user, "fsGroup": settings.user}
        spec["securityContext"] = context
    if settings.pull_secrets:
        spec["imagePullSecrets"] = [{"name": each} for each in settings.pull_secrets]
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    return spec


def container_rights(settings: KubernetesConfig) -> Part:
    """Return the part of a container that says what it may do."""
    if not settings.restricted:
        return {}
    return {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
