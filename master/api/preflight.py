"""Looks for the programs of frameworks before a job is accepted. Called by ``jobs``, ``schedules`` and ``plan``.

Known here: what pushed images have, and, on a cluster whose nodes are this machine, what the PATH of the submitting
shell and images of the engine have. Programs of other nodes are a matter of placement: ``suitability`` warns, and the
job waits with the reason.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from grass.errors import GrassError, ManifestError, Problem
from grass.frameworks.programs import needed
from grass.model import feasibility
from grass.model.framework import Framework
from grass.model.image import full_name
from grass.model.job import Component, Job, runtime_of
from grass.model.namespace import has_share, is_namespace, refusals
from grass.model.program import first_program
from grass.model.runtime import RuntimeName
from grass.store.signed_images import SignedImage
from grass.wire.node_api import PROGRAMS, ImagePrograms
from grass.wire.node_record import NodeRecord
from master.api.call import Call
from master.node_calls.client import call_node


@dataclass(frozen=True)
class ProgramSources:
    """Where programs are looked for. ``pushed``: by the image's full name. ``nodes``: their records.

    ``on_client``: the only node is the client's machine. ``in_engine``: those of some programs that an image of that
    machine's engine has; None: not known.
    """

    pushed: Callable[[str], SignedImage | None]
    nodes: Callable[[], Sequence[NodeRecord]]
    on_client: bool
    in_engine: Callable[[str, Sequence[str]], Sequence[str] | None] = lambda _, __: None


def program_sources(call: Call) -> ProgramSources:
    store, config = call.api.store, call.api.config

    def in_engine(image: str, wanted: Sequence[str]) -> Sequence[str] | None:
        for node in store.nodes():
            with suppress(GrassError):  # then it is not known
                return call_node(config, node, PROGRAMS, ImagePrograms(image, tuple(wanted))).programs
        return None

    return ProgramSources(store.images.find, store.nodes, config.master.nodes_on_client, in_engine)


def check_programs(jobs: Iterable[Job], sources: ProgramSources) -> None:
    """Raise ManifestError if a component's command starts with a program of its framework that it would not find."""
    problems = [
        Problem(f"components.{name}.command", problem)
        for job in jobs
        for name, component in job.components.items()
        if (problem := _missing(component, sources))
    ]
    if problems:
        raise ManifestError(list(dict.fromkeys(problems)))


def _missing(component: Component, sources: ProgramSources) -> str:
    if component.framework is None:
        return ""
    if sources.on_client and _is_process(component, sources.nodes):
        return _missing_here(component, component.framework)
    return _missing_in_image(component, component.framework.name.value, sources) if component.image else ""


def _is_process(component: Component, nodes: Callable[[], Sequence[NodeRecord]]) -> bool:
    """Return whether its tasks run as processes: without an image, or on nodes without a container engine.

    Namespaces of Kubernetes do not count if they would not run it and other nodes may."""
    if not runtime_of(component).contained:
        return True  # whatever the nodes offer
    found = nodes()
    offered = [name for node in found for name in node.runtimes]
    if refusals(component, share=any(is_namespace(node.runtimes) and has_share(node.labels) for node in found)):
        offered = [name for name in offered if name != RuntimeName.KUBERNETES] or offered
    return not runtime_of(component, offered).contained


def _missing_here(component: Component, framework: Framework) -> str:
    program = first_program(component.command)
    path = component.env.get("PATH") or dict(component.shell).get("PATH")
    if path is None or program not in framework.kind.launchers or shutil.which(program, path=path) is not None:
        return ""
    return (
        f"{program} is not installed: the task would not find it on its PATH; framework {framework.name.value} needs it"
    )


def _missing_in_image(component: Component, framework: str, sources: ProgramSources) -> str:
    assert component.image is not None
    container = component.container
    if not runtime_of(component).contained or container.entrypoint or container.mounts:
        return ""  # it is not the image alone that decides
    wanted = needed(component)
    found, advice = _in_image(full_name(component.image), wanted, sources) if wanted else (None, "")
    missing = None if found is None else next((program for program in wanted if program not in found), None)
    if missing is None:
        return ""
    return f"image {component.image} has {feasibility.lacks_program(missing, framework)} on its PATH; {advice}"


def _in_image(image: str, wanted: Sequence[str], sources: ProgramSources) -> tuple[Sequence[str] | None, str]:
    """Return which of these programs an image has (None: not known), and what to do if one is missing."""
    pushed = sources.pushed(image)
    if pushed is not None:
        return pushed.programs, "install it in the image and push it again"
    return sources.in_engine(image, wanted) if sources.on_client else None, "install it in the image"
