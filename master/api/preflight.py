"""Looks for the programs of frameworks before a job is accepted. Called by ``jobs``, ``schedules`` and ``plan``.

Known here: what the PATH of the submitting shell has on a cluster whose nodes are this machine, and what pushed images
have. Programs of other nodes are a matter of placement: ``suitability`` warns, and the job waits with the reason.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence

from grass.errors import ManifestError, Problem
from grass.frameworks.programs import LAUNCHERS, needed
from grass.model import feasibility
from grass.model.image import full_name
from grass.model.job import Component, Job
from grass.model.program import first_program
from grass.model.runtime import RuntimeName
from grass.store.signed_images import SignedImage
from grass.wire.node_record import NodeRecord


def check_programs(
    jobs: Iterable[Job],
    find_image: Callable[[str], SignedImage | None],
    nodes: Callable[[], Sequence[NodeRecord]],
    *,
    nodes_on_client: bool,
) -> None:
    """Raise ManifestError if a component's command starts with a program of its framework that it would not find.

    ``find_image``: by its full name. ``nodes``: called only if a component with an image may run as a process here.
    """
    problems = [
        Problem(f"components.{name}.command", problem)
        for job in jobs
        for name, component in job.components.items()
        if (problem := _missing(component, find_image, nodes, nodes_on_client))
    ]
    if problems:
        raise ManifestError(list(dict.fromkeys(problems)))


def _missing(
    component: Component,
    find_image: Callable[[str], SignedImage | None],
    nodes: Callable[[], Sequence[NodeRecord]],
    nodes_on_client: bool,
) -> str:
    if component.framework is None:
        return ""
    if nodes_on_client and _is_process(component, nodes):
        return _missing_here(component, component.framework.name.value)
    return _missing_in_image(component, component.framework.name.value, find_image) if component.image else ""


def _is_process(component: Component, nodes: Callable[[], Sequence[NodeRecord]]) -> bool:
    """Whether its tasks run as processes: without an image, or on nodes without a container engine."""
    if component.image is None or component.runtime == "process":
        return True
    return component.runtime is None and not any("docker" in node.runtimes for node in nodes())


def _missing_here(component: Component, framework: str) -> str:
    program = first_program(component.command)
    path = component.env.get("PATH") or dict(component.shell).get("PATH")
    if path is None or program not in LAUNCHERS.get(framework, ()) or shutil.which(program, path=path) is not None:
        return ""
    return f"{program} is not installed: the task would not find it on its PATH; framework {framework} needs it"


def _missing_in_image(component: Component, framework: str, find_image: Callable[[str], SignedImage | None]) -> str:
    assert component.image is not None
    container = component.container
    if component.runtime == RuntimeName.PROCESS or container.entrypoint or container.mounts:
        return ""  # it is not the image alone that decides
    wanted = needed(component)
    image = find_image(full_name(component.image)) if wanted else None
    if image is None or image.programs is None:
        return ""
    for program in wanted:
        if program not in image.programs:
            why = feasibility.lacks_program(program, framework)
            return f"image {component.image} has {why} on its PATH; install it in the image and push it again"
    return ""
