"""Writes a job as plain objects of Kubernetes, which run without Grass. Used by ``formats``.

A component is an Indexed Job, or a pod for each task. With a Service, tasks have names by which they reach each other;
a ConfigMap has the files that Grass would give to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from grass.errors import InputError
from grass.manifest import yaml_text
from grass.manifest.document import Document, one_line
from grass.manifest.export import manifest_losses, pod_spec, pod_variables, stock_frameworks
from grass.manifest.export.job_restarts import least_version, restarts
from grass.manifest.export.losses import Exported, missing
from grass.manifest.export.objects import MOST_FILES, Objects, labels
from grass.manifest.export.pods import given
from grass.model.job import Component, Job, RestartOn

MOST_PODS = 1000
"""Pods in a file; a larger job is refused. An Indexed Job is as short for any number."""
_OF_JOB = ("tags", "together", "fail_fast", "timeout", "deadline")
_OF_COMPONENT = (
    *("replicas", "resources", "ports", "env", "cwd", "restart", "ready", "grace", "timeout", "image", "where"),
    *("matrix", "entries", "columns", "container", "runtime", "framework", "spread", "pack"),
)
_POLICIES = {RestartOn.NEVER: "Never", RestartOn.ON_FAILURE: "OnFailure", RestartOn.ALWAYS: "Always"}
_LEAST_FOR_PODS = "1.20"
"""Version of Kubernetes."""


def jobs(job: Job) -> Exported:
    """Return an Indexed Job for each component."""
    objects = Objects(job)
    found = [_indexed(objects, part) for part in job.components.values()]
    version = max(least_version(job, part) for part in job.components.values())
    lost = [key for part in job.components.values() for key in manifest_losses.of_jobs(part)]
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
    lost = [key for part in parts for key in manifest_losses.of_pods(part)]
    if job.fail_fast and job.task_count > 1:
        lost.append("fail_fast (other tasks go on)")
    return _exported(objects, found, (*missing(job, _OF_JOB, _OF_COMPONENT), *lost), _LEAST_FOR_PODS, scripted=False)


def _exported(
    objects: Objects, found: Sequence[Document], lost: Sequence[str], version: str, *, scripted: bool
) -> Exported:
    job, parts = objects.job, objects.job.components.values()
    config = _files(objects, scripted)
    service = [_service(objects)] if objects.tasks_meet else []
    every = (*lost, *manifest_losses.of_both(objects))
    needed = tuple(f"components.{part.name}.image" for part in parts if part.image is None)
    notes = [*map(_note_of_file, job.files), *(_note(objects, part) for part in parts if pod_variables.secrets(part))]
    texts = [yaml_text.write(each) for each in (*config, *service, *found)]
    exported = Exported("", every, needed, tuple(notes))
    return replace(exported, text=_head(job, exported, version) + "---\n".join(texts))


def _head(job: Job, exported: Exported, version: str) -> str:
    """Return comments at the beginning of the file. Text of users in them has no line breaks any more."""
    lines = [
        f"Job {job.name} of Grass, for Kubernetes {version} or later, without Grass: kubectl create -f FILE",
        f"{pod_variables.OUTPUT} (GRASS_OUTPUT) is lost with each pod; to keep it, use a claim as the volume `output`.",
        "Code and data must be in the images, or reached over the network.",
        *(f"{key}: add it." for key in exported.needed),
        *exported.notes,
        *(f"Not in this file: {key}" for key in exported.missing),
    ]
    return "".join(f"# {line}\n" for line in lines)


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
        **restarts(job, part),
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
