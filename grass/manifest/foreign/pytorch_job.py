"""Reads the PyTorchJob of Kubeflow and of KubeDL: its Master and its Workers become the ranks of one component.

``framework: torch`` gives them ``RANK``, ``WORLD_SIZE`` and ``MASTER_ADDR``. A command that starts ``torchrun`` gets
that framework, and only such a job may have an ``elasticPolicy``. Used by ``dialects``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.foreign.metadata import Metadata
from grass.manifest.foreign.notes import Notes
from grass.manifest.foreign.replica import Replica, RestartPolicy, component_of
from grass.manifest.foreign.run_policy import KUBEDL, KUBEFLOW, only_one, read_roles, read_run_policy
from grass.manifest.native import MAX_REPLICAS, UNKNOWN_COMMAND
from grass.model.framework import Framework, FrameworkName, Option
from grass.model.job import Component, Job
from grass.model.resources import Resources

DIALECT = "PyTorchJob"
VERSIONS = (KUBEFLOW, KUBEDL)
COMPONENT, MASTER = "worker", "master"
PORT = "master"
"""The port of rank 0, in place of the one that the operators open: that number may be taken on a node."""
IGNORED_IN_ELASTIC: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone"),
        "ignored; Grass itself is the rendezvous of torchrun",
    )
    | {"metrics": "ignored; change the size with `grass job scale`"}
)
_TORCHRUN = re.compile(r"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b")
_AUTO = ("auto", "gpu", "cpu")


@dataclass(frozen=True)
class _Elastic:
    least: int | None = None
    most: int | None = None
    slots: int | None = None
    restarts: int | None = None


def read_job(spec: Fields, notes: Notes, about: Metadata) -> Job | None:
    policy = read_run_policy(spec, notes)
    roles = read_roles(spec, "pytorchReplicaSpecs", ("Master", "Worker"), notes)
    only_one(roles, MASTER, spec)
    elastic = _read_elastic(spec, notes)
    slots = spec.read("nprocPerNode", _processes, None)
    spec.done()
    chief = roles.get(MASTER) or roles.get(COMPONENT)
    if chief is None:
        return None
    _check_same(roles, spec)
    _check_elastic(roles, elastic, spec)
    again = policy.restart(chief, RestartPolicy.ON_FAILURE)
    part = component_of(COMPONENT, chief, chief.pod.command or UNKNOWN_COMMAND, again)
    if chief.pod.command is None:
        spec.problems.add(f"{chief.path}.template.spec.containers[0].command", "is missing; it says what the tasks run")
    return Job(
        name=about.name,
        components={COMPONENT: _ranks(part, roles, elastic, slots, notes)},
        success=(COMPONENT,),
        gang=() if elastic else (COMPONENT,),
        tags=about.labels,
        dialect=DIALECT,
        ending=policy.ending,
    )


def _ranks(
    part: Component, roles: Mapping[str, Replica], elastic: _Elastic | None, slots: int | None, notes: Notes
) -> Component:
    words = part.command if isinstance(part.command, tuple) else (part.command,)
    runs = _TORCHRUN.search(" ".join(words)) is not None
    slots = elastic.slots or slots if elastic else slots
    options: dict[str, Option] = {"slots": slots} if slots and runs else {}
    if elastic is not None and elastic.restarts is not None:
        options["restarts"] = elastic.restarts
    if slots and slots > 1 and not runs:
        notes.add("spec.nprocPerNode", "ignored; only torchrun starts several processes in a task")
    needs = [replica.pod.resources for replica in roles.values()]
    return replace(
        part,
        replicas=sum(replica.count for replica in roles.values()),
        min=elastic.least if elastic else None,
        max=elastic.most if elastic else None,
        resources=_largest(needs),
        ports=((PORT,) if not runs else ()) + tuple(port for port in part.ports if port != PORT),
        framework=Framework(FrameworkName.TORCHRUN if runs else FrameworkName.TORCH, options),
    )


def _read_elastic(spec: Fields, notes: Notes) -> _Elastic | None:
    section = spec.section("elasticPolicy")
    if section is None:
        return None
    size = values.whole(1, MAX_REPLICAS)
    found = _Elastic(
        least=section.read("minReplicas", size, None),
        most=section.read("maxReplicas", size, None),
        slots=section.read("nProcPerNode", values.whole(1, 1024), None),
        restarts=section.read("maxRestarts", values.whole(0, 1_000_000), None),
    )
    notes.ignore(section, IGNORED_IN_ELASTIC)
    section.done()
    return found


def _check_elastic(roles: Mapping[str, Replica], elastic: _Elastic | None, spec: Fields) -> None:
    if elastic is None:
        return
    path, worker = spec.at("elasticPolicy"), roles.get(COMPONENT)
    if MASTER in roles or worker is None:
        spec.problems.add(path, "needs a job with Workers only; a Master cannot leave")
        return
    if _TORCHRUN.search(" ".join(worker.pod.command or ())) is None:
        spec.problems.add(path, "needs a command that starts torchrun; other programs cannot change their size")
    if elastic.least is not None and elastic.least > worker.count:
        spec.problems.add(f"{path}.minReplicas", f"must be at most replicas of Worker, which is {worker.count}")
    if elastic.most is not None and elastic.most < worker.count:
        spec.problems.add(f"{path}.maxReplicas", f"must be at least replicas of Worker, which is {worker.count}")


def _check_same(roles: Mapping[str, Replica], spec: Fields) -> None:
    """Report what differs between Master and Worker: all ranks are tasks of one component."""
    if len(roles) < 2:
        return
    one, other = roles[MASTER], roles[COMPONENT]
    for what in ("command", "image", "env", "cwd", "container", "where", "grace", "timeout"):
        if getattr(one.pod, what) != getattr(other.pod, what):
            why = f"its {what} differs from that of the Master; the ranks are tasks of one component"
            spec.problems.add(f"{other.path}.template", f"{why}, so make them equal")


def _processes(value: Any) -> int | None:
    """Parse ``nprocPerNode``: a number, or a word after which the number of GPUs counts."""
    if value in _AUTO:
        return None
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:6]) <= 1024:
        raise values.Wrong(f"must be a number from 1 to 1024, or one of {', '.join(_AUTO)}; got {values.show(value)}")
    return int(text)


def _largest(amounts: list[Resources]) -> Resources:
    return Resources(*(max(getattr(each, name) for each in amounts) for name in ("cpu", "memory", "gpu", "disk")))
