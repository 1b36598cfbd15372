"""Reads DLRover's ElasticJob of the strategy parameter server: each of its roles becomes a component.

Their programs get ``TF_CONFIG``, and a master of Grass for DLRover's client (``framework: dlrover``). Used by
``elastic_job``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign.metadata import Metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.replica import RestartPolicy, component_of, read_replica, restart_of
from grass.manifest.native import UNKNOWN_COMMAND
from grass.model.framework import DLROVER_KINDS, DLROVER_MASTER, TF_PORT, Framework, FrameworkName
from grass.model.job import Component, Job

DEFAULT_RESTARTS = 3
"""Restarts of a task whose file says none, as in DLRover."""
OWN_MASTER = "ignored; Grass itself is the master"
IGNORED_IN_ROLE: Mapping[str, str] = MappingProxyType(
    {
        "autoScale": "ignored; Grass changes no resources by itself; change the size with `grass job scale`",
        "priority": "ignored; a task has the priority of its job; set `priority` in a Grass job file",
        "criticalNodes": "ignored; a worker that fails for good fails the job",
        "restartTimeout": "ignored; `grass job why` says why a worker does not run",
    }
)
_STARTER = ("python3", "-m", "grass_dlrover.agent")
"""Starts a program with DLRover's client in it."""
_ONE = ("chief", "evaluator")
_TRAIN = ("chief", "worker")
"""The roles that train: the job succeeds with all of them."""


def read_job(spec: Fields, notes: Notes, about: Metadata, dialect: str) -> Job | None:
    section = spec.section("replicaSpecs")
    spec.done()
    if section is None:
        spec.problems.add(spec.at("replicaSpecs"), "is missing; it needs a ps, and a chief or a worker")
        return None
    components: dict[str, Component] = {}
    for role, content in section.entries():
        fields = Fields(content, section.at(role), section.problems, lenient=True)
        if role == DLROVER_MASTER:
            notes.add(section.at(role), OWN_MASTER)
        elif role in DLROVER_KINDS:
            components[role] = _component(role, fields, notes)
        else:
            section.problems.add(section.at(role), f"unknown role; use {', '.join(DLROVER_KINDS)}")
    success = tuple(role for role in _TRAIN if role in components)
    if section.intact and ("ps" not in components or not success):
        section.problems.add(section.path, "must have a ps, and a chief or a worker")
        return None
    return Job(
        name=about.name,
        components=components,
        success=success,
        fail_fast=True,
        gang=tuple(components),
        tags=about.labels,
        dialect=dialect,
    )


def _component(role: str, fields: Fields, notes: Notes) -> Component:
    notes.ignore(fields, IGNORED_IN_ROLE)
    limit = fields.read("restartCount", values.whole(0, 1_000_000), DEFAULT_RESTARTS)
    replica = read_replica(fields, notes)
    if role in _ONE and replica.count != 1:
        fields.problems.add(fields.at("replicas"), f"must be 1, because a job has one {role}; got {replica.count}")
    command = replica.pod.command
    if command is None:
        path = f"{replica.path}.template.spec.containers[0].command"
        fields.problems.add(path, "is missing; it says what the tasks run")
    again = restart_of(replica.policy or RestartPolicy.ON_FAILURE, limit)
    made = component_of(role, replica, started(command or UNKNOWN_COMMAND), again)
    ports = (TF_PORT, *(port for port in made.ports if port != TF_PORT))
    return replace(made, ports=ports, framework=Framework(FrameworkName.DLROVER))


def started(command: tuple[str, ...] | str) -> tuple[str, ...]:
    """Return the command that starts a program with DLRover's client."""
    return (*_STARTER, *(("/bin/sh", "-c", command) if isinstance(command, str) else command))


def plain(command: tuple[str, ...] | str) -> tuple[str, ...] | str:
    """Return the program of a command that ``started`` made; another command stays."""
    return command[len(_STARTER) :] if isinstance(command, tuple) and command[: len(_STARTER)] == _STARTER else command
