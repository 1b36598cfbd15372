"""What stock frameworks read from their environment, in pods that run without Grass. Pure; used by ``manifests``.

Only those whose tasks need nothing but the names of the others, which are known before anything runs. The others need a
program of Grass (``ssh``), or files that change.
"""

from __future__ import annotations

from collections.abc import Mapping

from grass.frameworks import registry, torchrun
from grass.frameworks.seat import Seat, integer
from grass.manifest.export.objects import Objects, ports
from grass.manifest.export.pod_variables import OWN_INDEX, SCRATCH
from grass.manifest.export.pods import escaped
from grass.model.framework import FrameworkName
from grass.model.job import Component
from grass.model.resources import DEVICE
from grass.wire.membership import Member, Membership

_WRITTEN = (FrameworkName.TORCH, FrameworkName.TORCHRUN, FrameworkName.TF)
_MOST_MEMBERS = 1000
"""Tasks that ``TF_CONFIG`` names; a variable may have 128 KiB."""
_RENDEZVOUS = 29400
"""Port of torchrun's own rendezvous, which task 0 serves."""


def is_written(objects: Objects, part: Component) -> bool:
    """Return whether the file has what the framework of a component needs."""
    if part.framework is None or part.framework.name not in _WRITTEN:
        return False
    return part.framework.name is not FrameworkName.TF or objects.job.task_count <= _MOST_MEMBERS


def variables(objects: Objects, part: Component, index: int | None) -> dict[str, str]:
    """Return the variables of a task as Kubernetes reads them. ``index``: None: of all pods of an Indexed Job."""
    if not is_written(objects, part):
        return {}
    first = _of_task(objects, part, index or 0)
    if index is not None or part.replicas == 1:
        return {name: escaped(value) for name, value in first.items()}
    second = _of_task(objects, part, 1)
    return {name: _by_index(value, second[name]) for name, value in first.items()}


def _by_index(first: str, second: str) -> str:
    """Return a value in which Kubernetes puts the index. ``first``, ``second``: the values of tasks 0 and 1."""
    if first == second:
        return escaped(first)
    at = next(at for at, (one, other) in enumerate(zip(first, second, strict=True)) if one != other)
    before, after = first[:at], first[at + 1 :]
    assert (f"{before}0{after}", f"{before}1{after}") == (first, second), "tasks differ by more than their index"
    return f"{escaped(before)}{OWN_INDEX}{escaped(after)}"


def _of_task(objects: Objects, part: Component, index: int) -> Mapping[str, str]:
    seat = _seat(objects, part, index)
    if seat.framework.name is not FrameworkName.TORCHRUN:
        return registry.render(seat).env
    return {
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{objects.address(part, 0)}:{_RENDEZVOUS}",
        "PET_RDZV_ID": objects.name,
        "PET_NNODES": str(part.replicas),
        "PET_NPROC_PER_NODE": str(seat.slots),
        "PET_MAX_RESTARTS": str(integer(seat.framework, "restarts", torchrun.RESTARTS)),
        "PET_LOG_DIR": SCRATCH,
    }


def _seat(objects: Objects, part: Component, index: int) -> Seat:
    assert part.framework is not None
    is_whole = part.framework.name is FrameworkName.TF
    parts = objects.job.components.values() if is_whole else (part,)
    return Seat(
        job=objects.job.name,
        job_id=objects.name,
        component=part.name,
        index=index,
        attempt=0,
        address=objects.address(part, index),
        framework=part.framework,
        folder="",
        scratch=SCRATCH,
        memberships={each.name: _membership(objects, each, each.replicas if is_whole else 1) for each in parts},
        ports=ports(part),
        gpus=part.resources.gpu // DEVICE,
    )


def _membership(objects: Objects, part: Component, count: int) -> Membership:
    """Return a membership with the first ``count`` tasks, whose ranks are their indexes."""
    numbers = ports(part)
    members = tuple(
        Member(f"{part.name}.{index}", 1, "", objects.address(part, index), 1, index, numbers) for index in range(count)
    )
    size = part.replicas
    return Membership(generation=1, epoch=1, desired=size, min=size, max=size, unit=1, members=members)
