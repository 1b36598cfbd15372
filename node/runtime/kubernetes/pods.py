"""Builds the pod of an attempt. Pure; used by ``starts``.

The pod is accepted by the restricted level of PodSecurity, unless the settings say otherwise. It never starts a second
time, ends by itself when nobody ends it, and its end stays until Grass has noted it. Its memory for ``/dev/shm`` counts
as its own, as in a container of an engine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from grass.errors import InputError
from grass.kubernetes import names, queues
from grass.kubernetes.pod_rights import container_rights, spec_rights
from grass.model.key_text import attempt_parts, job_of
from grass.model.pod_security import Part
from grass.node_config import KubernetesConfig
from node.runtime.kubernetes import job_files, keeper, share
from node.runtime.kubernetes.judge import TASK
from node.runtime.kubernetes.keeper import OUTPUT
from node.runtime.protocol import Launch, Start

SCRATCH, SHM = "/grass/scratch", "/dev/shm"
_LEAST_SHM = 64 << 20
_DEFAULT_CPU, _DEFAULT_MEMORY = 1000, 2 << 30
"""Thousandths of a core, and bytes, of a task whose launch has none: a pod without limits is refused by many quotas."""
_DEADLINE_MARGIN = 300
"""Seconds beyond the time limit after which Kubernetes ends a task by itself, because Grass is away."""
_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

_OF_MACHINES = re.compile(r"GRASS_(API|TOKEN)")
"""Variables that name sockets of a machine, which a pod does not see, and the token for such a socket: whoever may read
the namespace reads the variables of its pods."""
_OF_JOB = re.compile(r"GRASS_(MEMBERSHIP|ADDRESSES|LIBRARY)")
"""Variables that name files of the job."""
_OF_SHARE = re.compile(r"GRASS_(DATA|OUTPUT|AFTER_\w+_OUTPUT)")

ANYWHERE: Mapping[str, object] = MappingProxyType({})


def pod(
    cluster: str,
    node: str,
    start: Start,
    launch: Launch,
    settings: KubernetesConfig,
    affinity: Mapping[str, object] = ANYWHERE,
    group: str = "",
) -> Part:
    """Return the body of the POST. Raises InputError for what a pod cannot have. ``affinity``: of ``affinity``.
    ``group``: of its gang, if it is of one."""
    _check(launch)
    spec: Part = {
        "restartPolicy": "Never",
        **spec_rights(settings),
        **queues.pod_scheduler(settings),
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": max(1, math.ceil(launch.grace)),
        "tolerations": [*_tolerations(settings.lost_after), *(dict(each) for each in settings.tolerations)],
        "containers": _containers(start, launch, settings),
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "output", "emptyDir": {}} if settings.claim is None else share.volume(settings.claim),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(launch.container.shm or _LEAST_SHM)}},
        ],
    }
    if launch.files:
        spec["initContainers"] = job_files.waiters(launch.image, settings)
        spec["volumes"] += job_files.volumes(launch)
    if affinity:
        spec["affinity"] = affinity
    if launch.timeout is not None:
        spec["activeDeadlineSeconds"] = math.ceil(launch.timeout) + _DEADLINE_MARGIN
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.pod_name(cluster, start.key),
            "finalizers": [names.FINALIZER],
            "labels": {
                **settings.labels,
                **names.MANAGED,
                **names.node_labels(cluster, node),
                names.JOB: names.short(job_of(start.key)),
                names.COMPONENT: attempt_parts(start.key)[1].partition(".")[0],
                **queues.pod_labels(settings, group),
            },
            "annotations": {
                **settings.annotations,
                "kubectl.kubernetes.io/default-container": TASK,
                names.ATTEMPT: start.key,
                names.LAUNCH: start.launch,
                **({names.GANG: group} if group else {}),
                **queues.pod_annotations(settings, group, launch.gang),
                **(job_files.news(launch, start) if launch.files else {}),
            },
        },
        "spec": spec,
    }


def environment(start: Start, launch: Launch, settings: KubernetesConfig) -> dict[str, str]:
    """Return the variables of the container. Its devices are numbered from 0, and without GPUs it sees none, even if
    its image asks for all. Its user may have no home in the image."""
    given = {"HOME": SCRATCH, **launch.defaults, **launch.env, **start.env}
    env = {name: value for name, value in given.items() if not _OF_MACHINES.fullmatch(name)}
    env |= job_files.environment(launch)
    if not launch.files:
        env = {name: value for name, value in env.items() if not _OF_JOB.fullmatch(name)}
    if settings.claim is None:
        env = {name: value for name, value in env.items() if not _OF_SHARE.fullmatch(name)}
        env |= {"GRASS_SCRATCH": SCRATCH, "GRASS_OUTPUT": OUTPUT}
    else:
        env |= {"GRASS_SCRATCH": SCRATCH, "GRASS_DATA": share.target(launch)}
    env["CUDA_VISIBLE_DEVICES"] = ",".join(str(number) for number in range(len(start.gpus)))
    if not start.gpus:
        env["NVIDIA_VISIBLE_DEVICES"] = "void"
    return env


def _containers(start: Start, launch: Launch, settings: KubernetesConfig) -> list[Part]:
    """Return the containers in the order in which they are started."""
    task = _container(start, launch, settings)
    return [keeper.container(launch.image, settings), task] if settings.output else [task]


def _container(start: Start, launch: Launch, settings: KubernetesConfig) -> Part:
    plan = launch.container
    resources: Part = {
        "cpu": f"{launch.cpu or _DEFAULT_CPU}m",
        "memory": str(launch.memory or _DEFAULT_MEMORY),
    }
    if start.gpus:
        resources[settings.gpu] = str(len(start.gpus))
    container: Part = {
        "name": TASK,
        "image": launch.image,
        "env": [
            *(
                {"name": name, "value": _escaped(value)}
                for name, value in environment(start, launch, settings).items()
                if name not in start.late
            ),
            *job_files.variables(start),
        ],
        "resources": {"requests": resources, "limits": resources},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "scratch", "mountPath": SCRATCH},
            *_files(start, launch, settings),
            *(job_files.mounts(launch, start) if launch.files else ()),
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
    if launch.cwd is not None:
        container["workingDir"] = launch.cwd
    if start.ports:
        container["ports"] = [{"containerPort": port} for port in start.ports.values()]
    if settings.pull_policy:
        container["imagePullPolicy"] = settings.pull_policy
    return {**container, **container_rights(settings)}


def _files(start: Start, launch: Launch, settings: KubernetesConfig) -> list[Part]:
    """Return the mounts of what the task sees of the share, or of the folder for its output without a share."""
    if settings.claim is None:
        return [{"name": "output", "mountPath": OUTPUT}]
    return share.mounts(launch, job_of(start.key))


def _escaped(text: str) -> str:
    """Return a text in which Kubernetes replaces nothing: it expands ``$(NAME)``, and takes ``$$`` for ``$``."""
    return text.replace("$", "$$")


def _tolerations(seconds: int) -> list[Part]:
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} for key in _UNREACHABLE
    ]


def _check(launch: Launch) -> None:
    """What else a pod cannot have is refused before, for its component (``grass.model.namespace``)."""
    if not launch.image:
        raise InputError("a task in a Kubernetes namespace needs an image; name one as `image`")
