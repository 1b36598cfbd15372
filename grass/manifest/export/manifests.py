"""Writes a job as plain objects of Kubernetes, which run without Grass. Used by ``formats``.

A component is an Indexed Job, or a pod for each task. With a Service, tasks have names by which they reach each other;
a ConfigMap has the files that Grass would give to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from grass.errors import InputError
from grass.manifest import yaml_text
from grass.manifest.document import Document, join, one_line
from grass.manifest.export import pod_spec, pod_variables, stock_frameworks
from grass.manifest.export.losses import Exported, missing, of_amounts
from grass.manifest.export.objects import MOST_FILES, Objects, labels
from grass.manifest.export.pods import given
from grass.model.job import NO_RESTART, Component, Job, RestartOn
from grass.model.runtime import RuntimeName

MOST_PODS = 1000
"""Pods in a file; a larger job is refused. An Indexed Job is as short for any number."""
_LONGEST_COMMENT = 1000
_UNLIMITED = (1 << 31) - 1
_OF_JOB = ("tags", "fail_fast", "timeout", "deadline")
_OF_COMPONENT = (
    *("replicas", "resources", "ports", "env", "cwd", "restart", "ready", "grace", "timeout", "image", "where"),
    *("matrix", "entries", "container", "runtime", "framework"),
)
_POLICIES = {RestartOn.NEVER: "Never", RestartOn.ON_FAILURE: "OnFailure", RestartOn.ALWAYS: "Always"}
_LEAST, _WITH_CODES, _BY_INDEX, _WITH_PODS = "1.24", "1.26", "1.29", "1.20"
"""Versions of Kubernetes with a stable Indexed Job, its policy of exit codes, its limit of restarts by index; with pods
as they are written here."""


def jobs(job: Job) -> Exported:
    """Return an Indexed Job for each component."""
    objects = Objects(job)
    found = [_indexed(objects, part) for part in job.components.values()]
    version = max((_version(job, part) for part in job.components.values()), default=_LEAST)
    lost = [key for part in job.components.values() for key in _lost_of_job(job, part)]
    if job.fail_fast and len(job.components) > 1:
        lost.append("fail_fast (other components go on)")
    known = missing(job, (*_OF_JOB, "ttl"), (*_OF_COMPONENT, "parallelism"))
    return _exported(objects, found, (*known, *lost), version, scripted=True)


def pods(job: Job) -> Exported:
    """Return a pod for each task, for old servers. Raises InputError for a job with too many."""
    if job.task_count > MOST_PODS:
        raise InputError(
            f"job {job.name}: has {job.task_count} tasks; a file may have {MOST_PODS} pods; use `--to kubernetes`"
        )
    objects = Objects(job)
    parts = job.components.values()
    found = [_pod(objects, part, index) for part in parts for index in range(part.replicas)]
    lost = [key for part in parts for key in _lost_of_pods(job, part)]
    if job.fail_fast and job.task_count > 1:
        lost.append("fail_fast (other tasks go on)")
    return _exported(objects, found, (*missing(job, _OF_JOB, _OF_COMPONENT), *lost), _WITH_PODS, scripted=False)


def _exported(
    objects: Objects, found: Sequence[Document], lost: Sequence[str], version: str, *, scripted: bool
) -> Exported:
    job, parts = objects.job, objects.job.components.values()
    config = _files(objects, scripted)
    service = [_service(objects)] if objects.tasks_meet else []
    every = (*lost, *_lost(objects))
    needed = tuple(f"components.{part.name}.image" for part in parts if part.image is None)
    notes = [*map(_note_of_file, job.files), *(_note(objects, part) for part in parts if pod_variables.secrets(part))]
    texts = [yaml_text.write(each) for each in (*config, *service, *found)]
    exported = Exported("", every, needed, tuple(notes))
    return replace(exported, text=_head(job, exported, version) + "---\n".join(texts))


def _head(job: Job, exported: Exported, version: str) -> str:
    """Return comments at the beginning of the file."""
    lines = [
        f"Job {job.name} of Grass, for Kubernetes {version} or later, without Grass: kubectl create -f FILE",
        f"{pod_variables.OUTPUT} (GRASS_OUTPUT) is lost with each pod; to keep it, use a claim as the volume `output`.",
        "Code and data must be in the images, or reached over the network.",
        *(f"{key}: add it." for key in exported.needed),
        *exported.notes,
        *(f"Not in this file: {key}" for key in exported.missing),
    ]
    return "".join(f"# {one_line(line, _LONGEST_COMMENT)}\n" for line in lines)


def _note_of_file(name: str) -> str:
    """``name``: that of a file of a command, as the job has it."""
    shown = one_line(name)
    if name.startswith("$GRASS_DATA/"):
        return (
            f"{shown}: is in the share of Grass, which these pods do not see; mount a volume, or put it into the image"
        )
    return f"{shown}: is not in the file; the image must have it"


def _note(objects: Objects, part: Component) -> str:
    values = " ".join(f"--from-literal={name}=VALUE" for name in pod_variables.secrets(part))
    return (
        f"components.{part.name}.env: Grass does not show the values of secrets; create them before: "
        f"kubectl create secret generic {objects.parts[part.name]} {values}"
    )


def _files(objects: Objects, scripted: bool) -> list[Document]:
    files = {pod_variables.ADDRESSES: objects.addresses} if objects.addresses else {}
    for part in objects.job.components.values():
        if scripted and pod_variables.differs_by_task(part):
            files[f"{part.name}.sh"] = pod_variables.script(part)
    if sum(map(len, files.values())) > MOST_FILES:
        raise InputError(
            f"job {objects.job.name}: what differs between its tasks (from, matrix) needs more than {MOST_FILES} bytes,"
            " the most for a ConfigMap; read it from a file of the image, by GRASS_INDEX"
        )
    return [_object(objects, "v1", "ConfigMap", objects.name, data=files)] if files else []


def _service(objects: Objects) -> Document:
    """Return the Service that gives host names to pods. Tasks look for each other before they are ready."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels(objects.job)}
    return _object(objects, "v1", "Service", objects.name, spec=spec)


def _object(objects: Objects, version: str, kind: str, name: str, **content: Document) -> Document:
    metadata = {"name": name, "labels": labels(objects.job)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _indexed(objects: Objects, part: Component) -> Document:
    job = objects.job
    template = pod_spec.template(objects, part, None, stock_frameworks.variables(objects, part, None))
    template["spec"] = {"restartPolicy": "Never", **template["spec"]}
    spec = given(
        completionMode="Indexed",
        completions=part.replicas,
        parallelism=min(part.parallelism or part.replicas, part.replicas),
        **_restarts(job, part),
        activeDeadlineSeconds=_deadline(job.timeout, job.ending.deadline),
        ttlSecondsAfterFinished=None if job.ending.ttl is None else round(job.ending.ttl),
        template=template,
    )
    metadata = {"name": objects.parts[part.name], "labels": labels(job, part)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _pod(objects: Objects, part: Component, index: int) -> Document:
    template = pod_spec.template(objects, part, index, stock_frameworks.variables(objects, part, index))
    name = objects.pod(part, index)
    spec = {"restartPolicy": _POLICIES[part.restart.policy], "hostname": name, **template["spec"]}
    limit = _deadline(part.timeout, objects.job.timeout, objects.job.ending.deadline)
    spec |= given(activeDeadlineSeconds=limit)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **template["metadata"]}, "spec": spec}


def _deadline(*limits: float | None) -> int | None:
    said = [math.ceil(each) for each in limits if each is not None]
    return min(said) if said else None


def _limit(part: Component) -> int:
    """Return how often a task starts again."""
    restart = part.restart
    if restart.policy is RestartOn.NEVER:
        return 0
    return _UNLIMITED if restart.limit is None else restart.limit


def _is_by_index(job: Job, part: Component) -> bool:
    """Return whether what one task does must not count for the others."""
    return part.replicas > 1 and (_limit(part) > 0 or not job.fail_fast)


def _restarts(job: Job, part: Component) -> Document:
    """Return when a Job makes another pod, and when it gives up. Grass counts restarts of each task."""
    by_index = _is_by_index(job, part)
    found: Document = {"backoffLimitPerIndex" if by_index else "backoffLimit": _limit(part)}
    if by_index and job.fail_fast:
        found["maxFailedIndexes"] = 0
    if part.restart.codes and _limit(part):
        others = {"containerName": pod_spec.TASK, "operator": "NotIn", "values": sorted(set(part.restart.codes))}
        action = "FailIndex" if by_index else "FailJob"
        not_its_own = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        final = {"action": action, "onExitCodes": others, "onPodConditions": []}  # until 1.28, it must be there
        found["podFailurePolicy"] = {"rules": [not_its_own, final]}
    return found


def _version(job: Job, part: Component) -> str:
    if _is_by_index(job, part):
        return _BY_INDEX
    return _WITH_CODES if part.restart.codes and _limit(part) else _LEAST


def _lost(objects: Objects) -> Iterator[str]:
    """Yield the keys of a job that neither pods nor Jobs have."""
    job = objects.job
    if job.success != tuple(job.components):
        yield "success"
    yield from (join("tags", key) for key in job.tags if not pod_spec.is_key(key))
    for part in job.components.values():
        yield from (key for key in of_amounts(part) if not key.endswith(".disk"))  # ephemeral storage
        found = {
            "ports (there are too many for GRASS_ADDRESSES)": part.ports and not objects.addresses,
            "cwd": part.cwd is not None and not part.cwd.startswith("/"),
            "ready": part.ready is not None and part.ready.log is not None,
            "ready.timeout": part.ready is not None and part.ready.log is None and part.ready.timeout is not None,
            "where": not pod_spec.is_where(part.where),
            "framework": part.framework is not None and not stock_frameworks.is_written(objects, part),
            "runtime": part.runtime not in (None, RuntimeName.KUBERNETES),
            "container.user": pod_spec.user(part) is None,
            "container.ulimits": bool(part.container.ulimits),
            "container.mounts": bool(part.container.mounts),
            "container.data": part.container.data is not None,
            "restart (GRASS_ATTEMPT is always 1)": part.restart.policy is not RestartOn.NEVER,
            "restart.backoff": part.restart.policy is not RestartOn.NEVER
            and part.restart.backoff != NO_RESTART.backoff,
        }
        yield from (f"components.{part.name}.{key}" for key, lacks in found.items() if lacks)


def _lost_of_job(job: Job, part: Component) -> Iterator[str]:
    if part.restart.policy is RestartOn.ALWAYS:
        yield f"components.{part.name}.restart.policy (a task that has succeeded does not start again)"
    by_image = not isinstance(part.command, str) and part.container.entrypoint is None
    if by_image and pod_variables.differs_by_task(part):
        key = "from" if part.entries else "matrix"
        yield f"components.{part.name}.{key} (the entrypoint of the image gets `/bin/sh -c …` as its arguments)"


def _lost_of_pods(job: Job, part: Component) -> Iterator[str]:
    restart = part.restart
    if restart.policy is RestartOn.NEVER:
        return
    found = {
        "restart.limit": restart.limit is not None,
        "restart.codes": bool(restart.codes),
        "timeout (counts from the first start)": part.timeout is not None,
    }
    yield from (f"components.{part.name}.{key}" for key, lacks in found.items() if lacks)
