"""A container in a pod that runs a script of Grass, in an image that has a shell. Pure.

Used by ``carrier``, ``job_files`` and ``keeper``.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.kubernetes.pod_rights import container_rights
from grass.model.pod_security import Part
from grass.node_config import KubernetesConfig


def helper_container(
    name: str, image: str | None, script: str, amounts: Mapping[str, str], settings: KubernetesConfig
) -> Part:
    """Return the container. ``amounts``: its requests, and its limits."""
    made: Part = {
        "name": name,
        "image": image,
        "command": ["/bin/sh", "-c", script],
        "workingDir": "/",
        "resources": {"requests": amounts, "limits": amounts},
        **container_rights(settings),
    }
    return {**made, "imagePullPolicy": settings.pull_policy} if settings.pull_policy else made
