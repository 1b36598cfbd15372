"""Reads the MPIJob of Kubeflow and of KubeDL: a launcher, and workers that it reaches through their nodes.

The job succeeds with the launcher. Paths of the operators' host file are replaced, and a worker that would run an sshd
sleeps. Used by ``dialects``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign.metadata import Metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.replica import Replica, RestartPolicy
from grass.manifest.foreign.run_policy import (
    KUBEDL,
    KUBEFLOW,
    RunPolicy,
    only_one,
    read_roles,
    read_run_policy,
)
from grass.manifest.foreign.training_job import IDLE, LAUNCHER, WORKER, launched
from grass.model.framework import FrameworkName
from grass.model.job import Component, Job

DIALECT = "MPIJob"
VERSIONS = ("kubeflow.org/v2beta1", KUBEFLOW, KUBEDL)
BACKOFF_LIMIT = 6
"""Restarts of the launcher, as in Kubeflow, if the file does not say."""
IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "launcherCreationPolicy": "ignored; the launcher starts when all workers run",
        "sshAuthMountPath": "ignored; the launcher reaches workers through their nodes, without keys",
        "mainContainer": "ignored; a pod has one container here",
    }
)
_SSHD = re.compile(r"(?:^|[\s/;&])sshd\b")


class _Implementation(str, Enum):
    OPEN_MPI = "OpenMPI"
    MPICH = "MPICH"
    INTEL = "Intel"


_FRAMEWORKS = {
    _Implementation.OPEN_MPI: FrameworkName.OPENMPI,
    _Implementation.MPICH: FrameworkName.MPICH,
    _Implementation.INTEL: FrameworkName.MPICH,  # its launcher is Hydra, too
}


def read_job(spec: Fields, notes: Notes, about: Metadata) -> Job | None:
    policy = read_run_policy(spec, notes)
    roles = read_roles(spec, "mpiReplicaSpecs", ("Launcher", "Worker"), notes)
    only_one(roles, LAUNCHER, spec)
    slots = spec.read("slotsPerWorker", values.whole(1, 1024), None)
    kind = _FRAMEWORKS[spec.read("mpiImplementation", values.one_of(_Implementation), _Implementation.OPEN_MPI)]
    if spec.read("runLauncherAsWorker", values.truth, False):
        spec.refuse("runLauncherAsWorker", "is not supported; the launcher runs no ranks; set one worker more instead")
    notes.ignore(spec, IGNORED)
    spec.done()
    for role, named in ((LAUNCHER, "Launcher"), (WORKER, "Worker")):
        if role not in roles and spec.has("mpiReplicaSpecs"):
            path = f"{spec.at('mpiReplicaSpecs')}.{named}"
            spec.problems.add(path, "is missing; an MPIJob has a Launcher and Workers")
    if LAUNCHER not in roles or WORKER not in roles:
        return None
    return Job(
        name=about.name,
        components=_components(roles[LAUNCHER], roles[WORKER], policy, slots, kind, notes),
        success=(LAUNCHER,),
        fail_fast=False,
        gang=(WORKER,),
        tags=about.labels,
        dialect=DIALECT,
        ending=policy.ending,
    )


def _components(
    launcher: Replica, worker: Replica, policy: RunPolicy, slots: int | None, kind: FrameworkName, notes: Notes
) -> dict[str, Component]:
    made = launched(launcher, _without_sshd(worker, notes), slots, notes, mpi=kind, otherwise=kind)
    limited = RunPolicy(policy.ending, BACKOFF_LIMIT if policy.limit is None else policy.limit)
    return {
        LAUNCHER: replace(made[LAUNCHER], restart=limited.restart(launcher, RestartPolicy.ON_FAILURE)),
        WORKER: replace(made[WORKER], restart=policy.restart(worker, RestartPolicy.NEVER)),
    }


def _without_sshd(worker: Replica, notes: Notes) -> Replica:
    if worker.pod.command is None or _SSHD.search(" ".join(worker.pod.command)) is None:
        return worker
    path = f"{worker.path}.template.spec.containers[0].command"
    notes.add(path, "starts an sshd, which is not needed here; the worker sleeps, and the launcher executes in it")
    return replace(worker, pod=replace(worker.pod, command=IDLE))
