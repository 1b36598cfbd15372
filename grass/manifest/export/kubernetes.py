"""Writes a job as TrainingJob or as MarsJob. The job must have the components of one; the readers make these.

Used by ``formats``.
"""

from __future__ import annotations

from grass.errors import InputError
from grass.manifest import yaml_text
from grass.manifest.document import Document
from grass.manifest.export import pods
from grass.manifest.export.losses import Exported, missing
from grass.manifest.foreign import mars_job, training_job
from grass.manifest.foreign.mars_memory import KEYS
from grass.model.ending import Clean
from grass.model.framework import FrameworkName
from grass.model.job import Component, Job, RestartOn

_OF_JOB = ("tags", "ending")
_CLEAN = {Clean.ALL: "All", Clean.RUNNING: "Running", Clean.NONE: "None"}
_TUNING = ("plasmaStore", "lockFreeFileIO", "spillDirs", "workerCachePercentage", "workerCacheSize")


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
    lost = [name for name in ("ttl", "deadline") if getattr(job.ending, name) is not None]
    lost += [f"components.{part.name}.ports" for part in (launcher, worker) if part.ports]
    lost += [f"components.{part.name}.ready" for part in (launcher, worker) if part.ready]
    return _document(job, training_job.DIALECT, training_job.VERSIONS[0], spec, {"launcher", "worker"}, lost)


def mars(job: Job) -> Exported:
    """Return a MarsJob. Raises InputError for a job whose components are not those of Mars."""
    old = mars_job.SCHEDULER in job.components
    chief = _part(job, mars_job.SCHEDULER if old else mars_job.SUPERVISOR, "MarsJob")
    worker = _part(job, mars_job.WORKER, "MarsJob")
    if worker.framework is None or worker.framework.name is not FrameworkName.MARS:
        raise InputError(f"job {job.name}: its workers have no `framework: mars`; a MarsJob cannot describe it")
    roles = {"Scheduler": pods.replica(chief, own=(f"mars-{'scheduler' if old else 'supervisor'}",))}
    if old and mars_job.WEB_SERVICE in job.components:
        roles["WebService"] = pods.replica(job.components[mars_job.WEB_SERVICE], own=("mars-web",))
    roles["Worker"] = pods.replica(worker, own=("mars-worker",))
    spec: Document = {"cleanPodPolicy": _CLEAN[job.ending.clean]}
    times = {"activeDeadlineSeconds": job.ending.deadline, "ttlSecondsAfterFinished": job.ending.ttl}
    spec |= {name: round(value) for name, value in times.items() if value is not None}
    options = worker.framework.options
    given = {name: options[name] for name in _TUNING if name in options}
    tuning = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    spec |= {KEYS[0]: tuning} if tuning else {}
    spec |= {"successPolicy": "AllWorkers"} if job.success == (mars_job.WORKER,) else {}
    spec["marsReplicaSpecs"] = roles
    lost = ["restart"] if job.ending.restart.limit else []
    limits = {part.restart.limit for part in job.components.values() if part.restart.policy is not RestartOn.NEVER}
    limit = limits.pop() if len(limits) == 1 else None
    spec |= {"backoffLimit": limit} if limit is not None else {}
    known = {chief.name, worker.name, mars_job.WEB_SERVICE}
    version = options.get("version")
    annotations = {mars_job.VERSION: str(version)} if version else {}
    return _document(job, mars_job.DIALECT, mars_job.VERSIONS[0], spec, known, lost, annotations, limit)


def _part(job: Job, name: str, kind: str) -> Component:
    if name not in job.components:
        raise InputError(f"job {job.name}: has no component {name}; a {kind} needs one")
    return job.components[name]


def _document(
    job: Job,
    kind: str,
    version: str,
    spec: Document,
    known: set[str],
    lost: list[str],
    annotations: dict[str, str] | None = None,
    limit: int | None = None,
) -> Exported:
    """``limit``: the restarts of a task that ``spec`` says."""
    metadata: Document = {"name": job.name}
    metadata |= {"labels": dict(job.tags)} if job.tags else {}
    metadata |= {"annotations": annotations} if annotations else {}
    document = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    others = [f"components.{name}" for name in job.components if name not in known]
    lost += ["success"] if job.ending.enough else []
    lost += [each for part in job.components.values() for each in pods.lost(part, limit)]
    return Exported(yaml_text.write(document), (*missing(job, _OF_JOB, pods.WRITTEN), *others, *lost))
