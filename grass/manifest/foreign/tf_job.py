"""Reads the TFJob of Kubeflow and of KubeDL: each role becomes a component with ``framework: tf``.

The components have the names that ``TF_CONFIG`` uses. Used by ``dialects``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign.metadata import Metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.replica import Replica, RestartPolicy, component_of
from grass.manifest.foreign.run_policy import (
    KUBEDL,
    KUBEFLOW,
    RunPolicy,
    only_one,
    read_roles,
    read_run_policy,
)
from grass.manifest.native import UNKNOWN_COMMAND
from grass.model.ending import Enough
from grass.model.framework import TF_PORT, Framework, FrameworkName
from grass.model.job import Component, Job

DIALECT = "TFJob"
VERSIONS = (KUBEFLOW, KUBEDL)
ROLES = ("Chief", "Master", "Worker", "PS", "Evaluator")
CHIEFS = ("chief", "master")
"""Roles with which the job succeeds. Without one, it succeeds with the first worker."""
IGNORED: Mapping[str, str] = MappingProxyType(
    {"enableDynamicWorker": "ignored; set `min` and `max` in a Grass job file, and use `grass job scale`"}
)


class _Success(str, Enum):
    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


def read_job(spec: Fields, notes: Notes, about: Metadata) -> Job | None:
    policy = read_run_policy(spec, notes)
    roles = read_roles(spec, "tfReplicaSpecs", ROLES, notes)
    for role in CHIEFS:
        only_one(roles, role, spec)
    success = spec.read("successPolicy", values.one_of(_Success), _Success.DEFAULT)
    notes.ignore(spec, IGNORED)
    spec.done()
    chief = next((role for role in (*CHIEFS, "worker") if role in roles), None)
    if chief is None:
        if roles:
            spec.problems.add(spec.at("tfReplicaSpecs"), "must have a Worker, a Chief or a Master")
        return None
    done = "worker" if success is _Success.ALL_WORKERS and "worker" in roles else chief
    first = done == "worker" and success is _Success.DEFAULT
    components = {role: _component(role, replica, policy, spec) for role, replica in roles.items()}
    return Job(
        name=about.name,
        components=components,
        success=(done,),
        fail_fast=True,
        gang=tuple(components),
        tags=about.labels,
        dialect=DIALECT,
        ending=replace(policy.ending, enough={"worker": Enough.INDEX0} if first else {}),
    )


def _component(role: str, replica: Replica, policy: RunPolicy, spec: Fields) -> Component:
    command = replica.pod.command
    if command is None:
        path = f"{replica.path}.template.spec.containers[0].command"
        spec.problems.add(path, "is missing; it says what the tasks run")
    made = component_of(role, replica, command or UNKNOWN_COMMAND, policy.restart(replica, RestartPolicy.NEVER))
    ports = (TF_PORT, *(port for port in made.ports if port != TF_PORT))
    return replace(made, ports=ports, framework=Framework(FrameworkName.TF))
