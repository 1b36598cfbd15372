"""Writes a job as TrainingJob or as MarsJob. The job must have the components of one; the readers make these.

What the file cannot say is found by reading it again. Used by ``formats`` and ``elastic_job``.
"""

from __future__ import annotations

from dataclasses import replace

from grass.errors import InputError
from grass.manifest import yaml_text
from grass.manifest.document import Document
from grass.manifest.export import pods
from grass.manifest.export.losses import Exported, differences
from grass.manifest.fields import Fields, Problems
from grass.manifest.foreign import mars_job, training_job
from grass.manifest.foreign.dialects import JOBS, read_body
from grass.manifest.foreign.mars_memory import KEYS
from grass.manifest.foreign.notes import Notes
from grass.model.ending import Clean
from grass.model.framework import FrameworkName
from grass.model.job import Component, Job, RestartOn

_CLEAN = {Clean.ALL: "All", Clean.RUNNING: "Running", Clean.NONE: "None"}
_TUNING = ("plasmaStore", "lockFreeFileIO", "spillDirs", "workerCachePercentage", "workerCacheSize")
_ROLES = {
    mars_job.SUPERVISOR: ("mars-supervisor", "scheduler"),
    mars_job.SCHEDULER: ("mars-scheduler", "scheduler"),
    mars_job.WEB_SERVICE: ("mars-web", "web"),
    mars_job.WORKER: ("mars-worker", "worker"),
}
"""Component → Mars's program for plain hosts, and the module that KubeDL starts instead."""


def training(job: Job) -> Exported:
    """Return a TrainingJob. Raises InputError for a job without launcher and worker."""
    launcher, worker = _part(job, training_job.LAUNCHER, "TrainingJob"), _part(job, training_job.WORKER, "TrainingJob")
    spec: Document = {"cleanPodPolicy": _CLEAN[job.ending.clean]}
    if job.ending.restart.limit:
        spec |= {"restartPolicy": "OnFailure", "backoffLimit": job.ending.restart.limit}
    slots = launcher.framework.options.get("slots") if launcher.framework else None
    spec |= {"slotsPerWorker": slots} if slots is not None else {}
    spec["etReplicaSpecs"] = {
        training_job.LAUNCHER: pods.replica(launcher),
        training_job.WORKER: pods.replica(worker, bounds=True),
    }
    return document(job, training_job.DIALECT, spec)


def mars(job: Job) -> Exported:
    """Return a MarsJob. Raises InputError for a job whose components are not those of Mars."""
    old = mars_job.SCHEDULER in job.components
    chief = _part(job, mars_job.SCHEDULER if old else mars_job.SUPERVISOR, "MarsJob")
    worker = _part(job, mars_job.WORKER, "MarsJob")
    if worker.framework is None or worker.framework.name is not FrameworkName.MARS:
        raise InputError(f"job {job.name}: its workers have no `framework: mars`; a MarsJob cannot describe it")
    roles = {"Scheduler": _role(chief)}
    if (web := job.components.get(mars_job.WEB_SERVICE) if old else _page(chief)) is not None:
        roles["WebService"] = _role(web)
    roles["Worker"] = _role(worker)
    spec: Document = {"cleanPodPolicy": _CLEAN[job.ending.clean]}
    times = {"activeDeadlineSeconds": job.ending.deadline, "ttlSecondsAfterFinished": job.ending.ttl}
    spec |= {name: round(value) for name, value in times.items() if value is not None}
    options = worker.framework.options
    given = {name: options[name] for name in _TUNING if name in options}
    tuning = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    spec |= {KEYS[0]: tuning} if tuning else {}
    spec |= {"successPolicy": "AllWorkers"} if job.success == (mars_job.WORKER,) else {}
    spec["marsReplicaSpecs"] = roles
    limits = {part.restart.limit for part in job.components.values() if part.restart.policy is not RestartOn.NEVER}
    limit = limits.pop() if len(limits) == 1 else None
    spec |= {"backoffLimit": limit} if limit is not None else {}
    version = options.get("version")
    annotations = {mars_job.VERSION: str(version)} if version else {}
    return document(job, mars_job.DIALECT, spec, annotations)


def _role(part: Component) -> Document:
    """Return a role. Mars's program for plain hosts becomes the one that KubeDL starts, which knows its peers there."""
    program, module = _ROLES[part.name]
    if part.command in (program, (program,)):
        part = replace(part, command=("/bin/sh", "-c", f"python -m mars.deploy.kubernetes.{module}"))
    return pods.replica(part, own=())


def _page(supervisor: Component) -> Component | None:
    """Return the role that has the page in KubeDL. None: the supervisor runs a program of the user's own."""
    program, _ = _ROLES[mars_job.SUPERVISOR]
    web = replace(supervisor, name=mars_job.WEB_SERVICE, command=("mars-web",), replicas=1)
    return web if supervisor.command in (program, (program,)) else None


def _part(job: Job, name: str, kind: str) -> Component:
    if name not in job.components:
        raise InputError(f"job {job.name}: has no component {name}; a {kind} needs one")
    return job.components[name]


def document(job: Job, kind: str, spec: Document, annotations: Document | None = None) -> Exported:
    """Return a document, and what it lacks: what differs when it is read again."""
    metadata: Document = {"name": job.name}
    metadata |= {"labels": dict(job.tags)} if job.tags else {}
    metadata |= {"annotations": annotations} if annotations else {}
    made: Document = {"apiVersion": JOBS[kind].versions[0], "kind": kind, "metadata": metadata, "spec": spec}
    # what the reader would refuse is not what the job says, so that it differs, too
    again = read_body(kind, Fields(made, "", Problems(), lenient=True), Notes())
    return Exported(yaml_text.write(made), differences(job, again))
