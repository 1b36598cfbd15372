"""The master of DLRover's clients: the component that Grass adds to a job with ``framework: dlrover``. Pure.

A job file may have the component itself, for another place or more memory. Used by ``job`` and ``native_writer``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grass.model.framework import (
    DLROVER_KINDS,
    DLROVER_MASTER,
    DLROVER_PORT,
    Framework,
    FrameworkName,
    dlrover_role,
)
from grass.model.job import Component, Job, Restart, RestartOn
from grass.model.resources import Resources

COMMAND = ("python3", "-m", "grass_dlrover")
_CPU = 100
_GRACE = 2.0


def with_master(job: Job) -> Job:
    """Return the job with its master, if a component needs one and the job has none."""
    parts = {dlrover_role(part.framework, part.name): part for part in _parts(job.components) if part.framework}
    if not parts or DLROVER_MASTER in parts or DLROVER_MASTER in job.components:
        return job
    return replace(job, components={**job.components, DLROVER_MASTER: _master(parts)})


def without_master(job: Job) -> Mapping[str, Component]:
    """Return the components of the job, without a master that ``with_master`` would add."""
    rest = {name: part for name, part in job.components.items() if name != DLROVER_MASTER}
    if len(rest) == len(job.components) or with_master(replace(job, components=rest)).components != job.components:
        return job.components
    return rest


def is_master(part: Component) -> bool:
    """Return whether a component is a master, added or of the user's own."""
    return bool(_parts({part.name: part})) and part.name == DLROVER_MASTER


def _parts(components: Mapping[str, Component]) -> list[Component]:
    return [part for part in components.values() if part.framework and part.framework.name is FrameworkName.DLROVER]


def _master(parts: Mapping[str, Component]) -> Component:
    """Return the master. ``parts``: the components by role. It runs where the first of them finds its Python."""
    like = next(iter(parts.values()))
    named = {kind: parts[kind].name for kind in DLROVER_KINDS if kind in parts and parts[kind].name != kind}
    return Component(
        name=DLROVER_MASTER,
        command=COMMAND,
        resources=Resources(cpu=_CPU),
        ports=(DLROVER_PORT,),
        env={name: value for name, value in like.env.items() if name == "PATH"},
        restart=Restart(RestartOn.ON_FAILURE, None, 0.2),
        grace=_GRACE,
        where=like.where,
        avoid=like.avoid,
        image=like.image,
        runtime=like.runtime,
        container=replace(like.container, mounts=(), shm=None),
        framework=Framework(FrameworkName.DLROVER, {"role": DLROVER_MASTER, **named}),
        base=like.base,
        shell=like.shell,
        process=like.process,
    )
