"""Looks for the programs of frameworks before a job is accepted. Called by ``jobs``, ``schedules`` and ``plan``.

Only on a cluster whose nodes are this machine: there, tasks that run as processes search the PATH of the shell that
submitted them. It cannot be known here what other nodes and images contain.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from grass.errors import ManifestError, Problem
from grass.frameworks.registry import LAUNCHERS
from grass.model.job import Component, Job
from grass.model.program import first_program


def check_programs(jobs: Iterable[Job]) -> None:
    """Raise ManifestError if a component's command starts with a program of its framework that is not on its PATH."""
    problems = [
        Problem(f"components.{name}.command", problem)
        for job in jobs
        for name, component in job.components.items()
        if (problem := _missing(component))
    ]
    if problems:
        raise ManifestError(list(dict.fromkeys(problems)))


def _missing(component: Component) -> str:
    if component.framework is None or component.image is not None:
        return ""
    program = first_program(component.command)
    path = component.env.get("PATH") or dict(component.shell).get("PATH")
    if path is None or program not in LAUNCHERS.get(component.framework.name.value, ()):
        return ""
    if shutil.which(program, path=path) is not None:
        return ""
    name = component.framework.name.value
    return f"{program} is not installed: the task would not find it on its PATH; framework {name} needs it"
