"""The pods of a component that run without Grass, as those in a namespace of Grass. Pure; used by ``manifests``.

The restricted level of PodSecurity accepts them. What only Grass needs is left out: a finalizer, a container that keeps
files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from grass.manifest.document import Document
from grass.manifest.export import pod_variables
from grass.manifest.export.objects import Objects, labels, ports
from grass.manifest.export.pod_variables import FILES, OUTPUT, SCRATCH
from grass.manifest.export.pods import escaped, given, limits
from grass.model import pod_security
from grass.model.job import NODE_LEVEL, Component, Job, Ready

TASK = "task"
"""Name of the container."""
_IDS = 1 << 31
"""More than any id of a user or a group."""
_PERIOD = 5
"""Seconds between two checks whether a task is ready."""
_MACHINE = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_QUALIFIED = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
_KEY = re.compile(rf"(?:{_DOMAIN}/)?{_QUALIFIED}")
_VALUE = re.compile(_QUALIFIED)


def is_key(text: str) -> bool:
    """Return whether Kubernetes accepts the name of a label or an annotation."""
    return _KEY.fullmatch(text) is not None and len(text) <= 253


def is_where(where: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether Kubernetes accepts all labels, with their values."""
    return all(is_key(label) and all(map(_VALUE.fullmatch, values)) for label, values in where.items())


def user(part: Component) -> tuple[int, int] | None:
    """Return user and group of a task. None: the job says one that the restricted level refuses, or a name."""
    if part.container.user is None:
        return pod_security.USER, pod_security.USER
    name, _, group = part.container.user.partition(":")
    group = group or name
    if not (name.isdecimal() and group.isdecimal()) or not 1 <= int(name) < _IDS or int(group) >= _IDS:
        return None
    return int(name), int(group)


def template(objects: Objects, part: Component, index: int | None, stock: Mapping[str, str]) -> Document:
    """Return metadata and specification of a pod. ``index``: None: of all pods of an Indexed Job."""
    tags = {key: value for key, value in objects.job.tags.items() if is_key(key)}
    metadata: Document = {"labels": labels(objects.job, part), **given(annotations=tags)}
    return {"metadata": metadata, "spec": _spec(objects, part, index, stock)}


def reads_script(part: Component, index: int | None) -> bool:
    """Return whether the command of a pod first reads what differs between tasks."""
    return index is None and pod_variables.differs_by_task(part)


def _spec(objects: Objects, part: Component, index: int | None, stock: Mapping[str, str]) -> Document:
    own, group = user(part) or (pod_security.USER, pod_security.USER)
    shm = part.container.shm
    mounts: list[Document] = [{"name": "scratch", "mountPath": SCRATCH}, {"name": "output", "mountPath": OUTPUT}]
    volumes: list[Document] = [{"name": "scratch", "emptyDir": {}}, {"name": "output", "emptyDir": {}}]
    if shm is not None:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(shm)}})
    if objects.addresses or reads_script(part, index):
        mounts.append({"name": "job", "mountPath": FILES, "readOnly": True})
        volumes.append({"name": "job", "configMap": {"name": objects.name}})
    amounts = limits(part.resources)
    container = given(
        name=TASK,
        image=part.image,
        **_command(part, reads_script(part, index)),
        workingDir=part.cwd if _is_absolute(part.cwd) else None,
        env=pod_variables.variables(objects, part, index, stock),
        ports=[{"containerPort": number} for number in ports(part).values()],
        resources=given(requests=amounts, limits=amounts),
        readinessProbe=_probe(part, part.ready),
        volumeMounts=mounts,
        securityContext=pod_security.of_container(),
    )
    if part.container.entrypoint == ():
        container["command"] = container.pop("args", [])
    return given(
        subdomain=objects.name if objects.tasks_meet else None,
        **pod_security.of_tokens(),
        securityContext=pod_security.of_pod(own, group),
        terminationGracePeriodSeconds=max(1, math.ceil(part.grace)),
        activeDeadlineSeconds=None if part.timeout is None else math.ceil(part.timeout),
        affinity=_affinity(objects.job, part),
        topologySpreadConstraints=_spread(objects.job, part),
        containers=[container],
        volumes=volumes,
    )


def _is_absolute(folder: str | None) -> bool:
    return folder is not None and folder.startswith("/")


def _command(part: Component, scripted: bool) -> Document:
    words = ["/bin/sh", "-c", part.command] if isinstance(part.command, str) else list(part.command)
    if scripted:
        read = f'. "{FILES}/{part.name}.sh"'
        shell = isinstance(part.command, str)
        words = (
            ["/bin/sh", "-c", f"{read}\n{part.command}"]
            if shell
            else ["/bin/sh", "-c", f'{read}; exec "$@"', "sh", *words]
        )
    entrypoint = part.container.entrypoint
    return {"command": [*map(escaped, entrypoint)] if entrypoint else None, "args": [*map(escaped, words)]}


def _probe(part: Component, ready: Ready | None) -> Document | None:
    if ready is None or ready.log is not None:
        return None
    if ready.port is not None:
        return {"tcpSocket": {"port": ports(part)[ready.port]}, "periodSeconds": _PERIOD}
    words = ["/bin/sh", "-c", ready.command] if isinstance(ready.command, str) else list(ready.command or ())
    return {"exec": {"command": words}, "periodSeconds": _PERIOD, "timeoutSeconds": 10}


def _affinity(job: Job, part: Component) -> Document:
    """Return on which machines a pod may run. What is packed runs where other pods of its labels do."""
    where = part.where if is_where(part.where) else {}
    wanted = [{"key": label, "operator": "In", "values": list(values)} for label, values in where.items()]
    beside = [labels(job)] if job.together == NODE_LEVEL else []
    beside += [labels(job, part)] if part.pack == NODE_LEVEL else []
    terms = [{"labelSelector": {"matchLabels": each}, "topologyKey": _MACHINE} for each in beside]
    return given(
        nodeAffinity={_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": wanted}]}} if wanted else None,
        podAffinity={_REQUIRED: terms} if terms else None,
    )


def _spread(job: Job, part: Component) -> list[Document]:
    """Return how pods are spread over machines: where there are fewest, of those where one more fits."""
    if part.spread != NODE_LEVEL:
        return []
    own = {"matchLabels": labels(job, part)}
    return [{"maxSkew": 1, "topologyKey": _MACHINE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": own}]
