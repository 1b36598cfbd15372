"""The variables of a task in a pod that runs without Grass. Pure; used by ``pod_spec``.

Where all pods of a component come from one template, a variable may differ between them only by the index, which
Kubernetes has in an annotation. Other differences (``from``, ``matrix``) are a shell script, which the command reads.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from grass.manifest.document import Document
from grass.manifest.export.objects import Objects, ports
from grass.manifest.export.pods import escaped
from grass.model import task_values, task_variables
from grass.model.job import Component
from grass.model.secrets import REDACTED

SCRATCH, OUTPUT, FILES = "/grass/scratch", "/grass/output", "/grass/job"
ADDRESSES = "addresses"
"""A file in ``FILES``."""
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
OWN_INDEX = "$(GRASS_INDEX)"
"""Kubernetes puts the value of a variable in its place that is earlier in the list."""


def variables(objects: Objects, part: Component, index: int | None, stock: Mapping[str, str]) -> list[Document]:
    """Return the list of a container. ``index``: None: of each pod of an Indexed Job. ``stock``: of the framework, as
    Kubernetes reads them."""
    name = objects.parts[part.name]
    given = {**_base(part), **stock}
    secret = secrets(part)
    found: dict[str, Document] = {
        "GRASS_INDEX": {"valueFrom": {"fieldRef": {"fieldPath": _INDEX}}} if index is None else {"value": str(index)},
        "GRASS_NODE": {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        **{key: {"value": value} for key, value in given.items()},
        **{key: {"value": escaped(value)} for key, value in part.env.items()},
        **{key: {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}} for key in secret},
        **{key: {"value": value} for key, value in _own(objects, part, index).items()},
    }
    return [{"name": key, **value} for key, value in found.items()]


def secrets(part: Component) -> list[str]:
    """Return the variables of the job whose values Grass does not show. They become keys of a Secret."""
    return [name for name, value in part.env.items() if REDACTED in value]


def differs_by_task(part: Component) -> bool:
    """Return whether tasks have variables that do not follow from their index."""
    return bool(part.fixed_by)


def script(part: Component) -> str:
    """Return the shell script that exports what differs between the tasks of a component."""
    cases = (
        f"{index}) export {_assignments(task_values.environment(part, index))} ;;" for index in range(part.replicas)
    )
    return "\n".join(('case "$GRASS_INDEX" in', *cases, "esac", ""))


def _assignments(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())


def _base(part: Component) -> dict[str, str]:
    """Return what the variables of the framework and of the user replace."""
    return {
        "HOME": SCRATCH,  # the user of a pod may have no home in the image
        "PYTHONUNBUFFERED": "1",
        **task_variables.threads(part),
        **({} if part.resources.gpu else {"NVIDIA_VISIBLE_DEVICES": "void"}),  # an image may ask for all devices
    }


def _own(objects: Objects, part: Component, index: int | None) -> dict[str, str]:
    job = objects.job
    shown = OWN_INDEX if index is None else str(index)
    found = {
        "GRASS_JOB": job.name,
        "GRASS_JOB_ID": objects.name,
        "GRASS_COMPONENT": part.name,
        "GRASS_REPLICAS": str(part.replicas),
        "GRASS_TASK": f"{job.name}.{part.name}.{shown}",
        "GRASS_ATTEMPT": "1",
        "GRASS_SCRATCH": SCRATCH,
        "GRASS_OUTPUT": OUTPUT,
        **{task_variables.port(name): str(number) for name, number in ports(part).items()},
    }
    if objects.addresses:
        found["GRASS_ADDRESSES"] = f"{FILES}/{ADDRESSES}"
    if index is not None:
        found |= {key: escaped(value) for key, value in task_values.environment(part, index).items()}
    return found
