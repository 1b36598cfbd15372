"""Reads KubeDL's MarsJob. For Mars 0.7 and later, Scheduler and WebService become one supervisor.

The annotation ``grass/mars-version`` selects another version: before 0.7, each role stays a component of its own.
Commands that need Kubernetes (``python -m mars.deploy.kubernetes…``) are replaced by Mars's programs for plain hosts,
whose arguments Grass adds (``grass.frameworks.mars``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign import quantity
from grass.manifest.foreign.mars_memory import read_tuning
from grass.manifest.foreign.metadata import Metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.pod_clean import CleanPods
from grass.manifest.foreign.replica import Replica, RestartPolicy, component_of, read_replica, restart_of
from grass.model.ending import Clean, Ending
from grass.model.framework import MARS_PORT, MARS_WEB, Framework, FrameworkName, Option, is_old_mars
from grass.model.job import Component, Condition, Job, Ready, Restart
from grass.model.resources import Resources

DIALECT = "MarsJob"
VERSIONS = ("training.kubedl.io/v1alpha1",)
VERSION = "grass/mars-version"
"""Annotation with the version of Mars in the image; without it, Mars is 0.7 or later."""
ANNOTATIONS: Mapping[str, str] = MappingProxyType(
    {
        VERSION: "",
        "kubedl.io/git-sync-config": "is not supported; clone in the command, or push the files with `grass data push`",
    }
)
SUPERVISOR, SCHEDULER, WEB_SERVICE, WORKER = "supervisor", "scheduler", "web", "worker"
ROLES: Mapping[str, str] = MappingProxyType({"scheduler": SCHEDULER, "webservice": WEB_SERVICE, "worker": WORKER})
"""Role of the file, in lower case → component of Mars before 0.7."""
RESTARTS: Mapping[str, RestartPolicy] = MappingProxyType(
    {SCHEDULER: RestartPolicy.NEVER, WEB_SERVICE: RestartPolicy.ALWAYS, WORKER: RestartPolicy.EXIT_CODE}
)
"""Policies of roles that name none, as in KubeDL."""
IGNORED: Mapping[str, str] = MappingProxyType(
    {
        "schedulingPolicy": "ignored; set `gang` and `priority` in a Grass job file",
        "enableGangScheduling": "ignored; set `gang` in a Grass job file",
    }
)

_KUBERNETES = re.compile(r"\bmars\.deploy\.(?:oscar\.)?kubernetes\b|\bmars\.deploy\.kubernetes\.\w+")


class _Success(str, Enum):
    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


_CLEAN = {CleanPods.ALL: Clean.ALL, CleanPods.RUNNING: Clean.RUNNING, CleanPods.NONE: Clean.NONE}


def read_job(spec: Fields, notes: Notes, about: Metadata) -> Job | None:
    version = about.annotations.get(VERSION, "")
    roles = _read_roles(spec, notes)
    limit = spec.read("backoffLimit", values.whole(0, 1_000_000), None)
    success = spec.read("successPolicy", values.one_of(_Success), _Success.DEFAULT)
    limited = WORKER not in roles or roles[WORKER].pod.resources.memory > 0
    options = read_tuning(spec, notes, old=is_old_mars(version), limited=limited)
    if spec.read("webHost", values.text, None) is not None:
        notes.add(spec.at("webHost"), "ignored; no host of the cluster is published; `grass job open` shows the page")
    spec.refuse("cronPolicy", "is not supported; start the job by a schedule (`grass schedule start`)")
    notes.ignore(spec, IGNORED)
    ending = _read_ending(spec)
    spec.done()
    if SCHEDULER not in roles or WORKER not in roles:
        return None
    make = _old_components if is_old_mars(version) else _new_components
    components, chief = make(roles, _Tuned(limit, version, options), notes)
    done = WORKER if success is _Success.ALL_WORKERS else chief
    return Job(
        name=about.name,
        components=components,
        success=(done,),
        fail_fast=False,
        tags=about.labels,
        dialect=DIALECT,
        ending=ending,
    )


class _Tuned:
    """What all components of the job share. ``limit``: restarts of a task."""

    def __init__(self, limit: int | None, version: str, options: Mapping[str, Option]) -> None:
        self.limit = limit
        self.options = dict(options)
        self.common: dict[str, Option] = {"version": version} if version else {}

    def restart(self, role: str, replica: Replica) -> Restart:
        policy = RestartPolicy.NEVER if self.limit == 0 else replica.policy or RESTARTS[role]
        return restart_of(policy, self.limit)

    def framework(self, role: str, more: Mapping[str, Option] = MappingProxyType({})) -> Framework:
        return Framework(FrameworkName.MARS, {"role": role, **self.common, **more})


def _read_roles(spec: Fields, notes: Notes) -> dict[str, Replica]:
    """Return component of Mars before 0.7 → its specification."""
    section = spec.section("marsReplicaSpecs")
    if section is None:
        spec.problems.add(spec.at("marsReplicaSpecs"), "is missing; it needs a Scheduler and a Worker")
        return {}
    roles: dict[str, Replica] = {}
    for key, content in section.entries():
        role = ROLES.get(key.lower())
        if role is None:
            section.problems.add(section.at(key), "unknown role; use one of Scheduler, WebService, Worker")
        elif role in roles:
            section.problems.add(section.at(key), "the role appears twice")
        else:
            replica = Fields(content, section.at(key), section.problems, lenient=True)
            replica.read("spotReplicaSpec", _no_spot, None)
            roles[role] = read_replica(replica, notes)
    for role, named in ((SCHEDULER, "Scheduler"), (WORKER, "Worker")):
        if role not in roles and section.intact:
            section.problems.add(section.at(named), "is missing; a MarsJob has a Scheduler and a Worker")
    return roles


def _no_spot(value: Any) -> None:
    raise values.Wrong("is not supported; a task has the priority of its job")


def _read_ending(spec: Fields) -> Ending:
    return Ending(
        clean=_CLEAN[spec.read("cleanPodPolicy", values.one_of(CleanPods), CleanPods.RUNNING)],
        ttl=spec.read("ttlSecondsAfterFinished", lambda value: float(quantity.seconds_or_zero(value)), None),
        deadline=spec.read("activeDeadlineSeconds", lambda value: float(quantity.seconds(value)), None),
    )


def _new_components(roles: Mapping[str, Replica], tuned: _Tuned, notes: Notes) -> tuple[dict[str, Component], str]:
    """Return the components for Mars 0.7 and later: a supervisor, which has the page, too, and workers."""
    chief = roles[SCHEDULER]
    web = roles.get(WEB_SERVICE)
    if web is not None:
        notes.add(web.path, "becomes part of the supervisor, which has the page of Mars 0.7 and later")
    command = _command(chief, "mars-supervisor", notes)
    supervisor = component_of(SUPERVISOR, chief, command, tuned.restart(SCHEDULER, chief))
    supervisor = replace(
        supervisor,
        resources=_larger(chief.pod.resources, web.pod.resources) if web else chief.pod.resources,
        env={**(web.pod.env if web else {}), **chief.pod.env},
        ports=(MARS_PORT, MARS_WEB),
        ready=Ready(port=MARS_PORT),
        web=MARS_WEB,
        framework=tuned.framework(SUPERVISOR),
    )
    worker = _worker(roles[WORKER], SUPERVISOR, tuned, notes)
    return {SUPERVISOR: supervisor, WORKER: worker}, SUPERVISOR


def _old_components(roles: Mapping[str, Replica], tuned: _Tuned, notes: Notes) -> tuple[dict[str, Component], str]:
    """Return the components for Mars before 0.7: a scheduler, a web service, and workers."""
    chief = roles[SCHEDULER]
    made = component_of(SCHEDULER, chief, _command(chief, "mars-scheduler", notes), tuned.restart(SCHEDULER, chief))
    components = {
        SCHEDULER: replace(made, ports=(MARS_PORT,), ready=Ready(port=MARS_PORT), framework=tuned.framework(SCHEDULER))
    }
    if (web := roles.get(WEB_SERVICE)) is not None:
        page = component_of(WEB_SERVICE, web, _command(web, "mars-web", notes), tuned.restart(WEB_SERVICE, web))
        after = {SCHEDULER: Condition.READY}
        framework = tuned.framework(WEB_SERVICE)
        components[WEB_SERVICE] = replace(
            page, ports=(MARS_PORT,), web=MARS_PORT, depends_on=after, framework=framework
        )
    components[WORKER] = _worker(roles[WORKER], SCHEDULER, tuned, notes)
    return components, SCHEDULER


def _worker(replica: Replica, chief: str, tuned: _Tuned, notes: Notes) -> Component:
    made = component_of(WORKER, replica, _command(replica, "mars-worker", notes), tuned.restart(WORKER, replica))
    framework = tuned.framework(WORKER, tuned.options)
    return replace(made, ports=(MARS_PORT,), depends_on={chief: Condition.READY}, framework=framework)


def _command(replica: Replica, program: str, notes: Notes) -> tuple[str, ...]:
    """Return the command of a role: that of the file, unless it starts Mars by means of Kubernetes."""
    command = replica.pod.command
    if command is None:
        return (program,)
    if not any(_KUBERNETES.search(word) for word in command):
        return command
    path = f"{replica.path}.template.spec.containers[0].command"
    notes.add(path, f"asks Kubernetes for its peers, so it is replaced by {program}, with the arguments of Grass")
    return (program,)


def _larger(one: Resources, other: Resources) -> Resources:
    return Resources(
        max(one.cpu, other.cpu), max(one.memory, other.memory), max(one.gpu, other.gpu), max(one.disk, other.disk)
    )
