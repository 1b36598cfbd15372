"""Builds the pod of an attempt. Pure; used by ``starts``.

The pod is accepted by the restricted level of PodSecurity, unless the settings say otherwise. It never starts a second
time, ends by itself when nobody ends it, and its end stays until Grass has noted it. Its memory for ``/dev/shm`` counts
as its own, as in a container of an engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from grass.errors import InputError
from grass.model.key_text import job_of
from node.runtime.kubernetes import names
from node.runtime.kubernetes.judge import TASK
from node.runtime.protocol import Launch, Start

SCRATCH, OUTPUT, SHM = "/grass/scratch", "/grass/output", "/dev/shm"
_LEAST_SHM = 64 << 20
_DEFAULT_CPU, _DEFAULT_MEMORY = 1000, 2 << 30
"""Thousandths of a core, and bytes, of a task whose launch has none: a pod without limits is refused by many quotas."""
_DEADLINE_MARGIN = 300
"""Seconds beyond the time limit after which Kubernetes ends a task by itself, because Grass is away."""
_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

Body = dict[str, Any]  # Any: JSON of the API


class PodSettings(NamedTuple):
    """What the settings of the node say about its pods.

    ``user``: id of user and group; None: that of the image, which then must not be root. ``lost_after``: seconds for
    which a pod waits for its machine. ``gpu``: the resource. ``restricted`` False: PodSecurity's demands are not met.
    """

    user: int | None = 1000
    restricted: bool = True
    lost_after: int = 300
    gpu: str = "nvidia.com/gpu"
    pull_secrets: tuple[str, ...] = ()
    service_account: str | None = None
    priority_class: str | None = None
    annotations: Mapping[str, str] = {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "sidecar.istio.io/inject": "false",
    }
    labels: Mapping[str, str] = {}
    tolerations: tuple[Mapping[str, str], ...] = ()
    pull_policy: str | None = None


def pod(cluster: str, node: str, start: Start, launch: Launch, settings: PodSettings, timeout: float | None) -> Body:
    """Return the body of the POST. ``timeout``: seconds of the task's limit. Raises InputError for what a pod cannot
    have."""
    _check(launch)
    spec: Body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": max(1, math.ceil(launch.grace)),
        "tolerations": [*_tolerations(settings.lost_after), *(dict(each) for each in settings.tolerations)],
        "containers": [_container(start, launch, settings)],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "output", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(launch.container.shm or _LEAST_SHM)}},
        ],
    }
    if timeout is not None:
        spec["activeDeadlineSeconds"] = math.ceil(timeout) + _DEADLINE_MARGIN
    if settings.restricted:
        context: Body = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        if settings.user is not None:
            context |= {"runAsUser": settings.user, "runAsGroup": settings.user, "fsGroup": settings.user}
        spec["securityContext"] = context
    if settings.pull_secrets:
        spec["imagePullSecrets"] = [{"name": each} for each in settings.pull_secrets]
    if settings.service_account:
        spec["serviceAccountName"] = settings.service_account
    if settings.priority_class:
        spec["priorityClassName"] = settings.priority_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod_name(cluster, start.key),
            "finalizers": [names.FINALIZER],
            "labels": {
                **settings.labels,
                "app.kubernetes.io/managed-by": "grass",
                names.CLUSTER: names.short(cluster),
                names.NODE: names.short(node),
                names.JOB: names.short(job_of(start.key)),
            },
            "annotations": {**settings.annotations, names.ATTEMPT: start.key, names.LAUNCH: start.launch},
        },
        "spec": spec,
    }


def environment(start: Start, launch: Launch) -> dict[str, str]:
    """Return the variables of the container. Its devices are numbered from 0, and without GPUs it sees none, even if
    its image asks for all."""
    env = {
        **launch.defaults,
        **launch.env,
        **start.env,
        "GRASS_SCRATCH": SCRATCH,
        "GRASS_OUTPUT": OUTPUT,
        "HOME": SCRATCH,
    }
    env["CUDA_VISIBLE_DEVICES"] = ",".join(str(number) for number in range(len(start.gpus)))
    if not start.gpus:
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    return env


def _container(start: Start, launch: Launch, settings: PodSettings) -> Body:
    plan = launch.container
    resources: Body = {
        "cpu": f"{launch.cpu or _DEFAULT_CPU}m",
        "memory": str(launch.memory or _DEFAULT_MEMORY),
    }
    if start.gpus:
        resources[settings.gpu] = str(len(start.gpus))
    container: Body = {
        "name": TASK,
        "image": launch.image,
        "env": [{"name": name, "value": _escaped(value)} for name, value in environment(start, launch).items()],
        "resources": {"requests": resources, "limits": resources},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "workingDir": launch.cwd or SCRATCH,
        "volumeMounts": [
            {"name": "scratch", "mountPath": SCRATCH},
            {"name": "output", "mountPath": OUTPUT},
            {"name": "shm", "mountPath": SHM},
        ],
    }
    if launch.argv:
        words = [_escaped(word) for word in launch.argv]
        if plan.entrypoint is None:
            container["args"] = words
        elif plan.entrypoint:
            container |= {"command": [_escaped(word) for word in plan.entrypoint], "args": words}
        else:
            container["command"] = words
    if start.ports:
        container["ports"] = [{"containerPort": port} for port in start.ports.values()]
    if settings.pull_policy:
        container["imagePullPolicy"] = settings.pull_policy
    if settings.restricted:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return container


def _escaped(text: str) -> str:
    """Return a text in which Kubernetes replaces nothing: ``$(NAME)`` is its notation for variables."""
    return text.replace("$(", "$$(")


def _tolerations(seconds: int) -> list[Body]:
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} for key in _UNREACHABLE
    ]


def _check(launch: Launch) -> None:
    plan = launch.container
    if not launch.image:
        raise InputError("a task in a Kubernetes namespace needs an image; name one as `image`")
    if plan.ulimits:
        raise InputError("container.ulimits: a pod has the limits of its machine; leave this out")
    if any(not mount.shared for mount in plan.mounts):
        raise InputError("container.mounts: a pod mounts no folders of its machine; leave this out")
    if plan.user is not None:
        raise InputError("container.user: the settings of the Kubernetes node say which user pods have; leave this out")
