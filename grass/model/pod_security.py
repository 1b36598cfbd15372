"""What the level *restricted* of PodSecurity asks of a pod, as parts of its JSON. Pure.

https://kubernetes.io/docs/concepts/security/pod-security-standards/

Used by ``grass.kubernetes.pod_rights`` and ``grass.manifest.export.pod_spec``.
"""

from __future__ import annotations

from typing import Any

Part = dict[str, Any]  # Any: JSON of the API
USER = 1000
"""User and group of tasks in pods unless somebody says another one."""


def of_tokens() -> Part:
    """Return the parts of a pod's spec that keep credentials and variables of the namespace out of it."""
    return {"automountServiceAccountToken": False, "enableServiceLinks": False}


def of_pod(user: int | None, group: int | None = None) -> Part:
    """Return the security context of a pod. ``user``: None: that of the image. ``group``: None: the user's number."""
    context: Part = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if user is not None:
        own = user if group is None else group
        context |= {"runAsUser": user, "runAsGroup": own, "fsGroup": own}
    return context


def of_container() -> Part:
    """Return the security context of a container."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
