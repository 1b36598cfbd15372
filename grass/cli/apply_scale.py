"""Files the operation that a ScaleIn or ScaleOut asks for, and checks it against its job first. Used by ``apply``."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING

from msgspec import UNSET

from grass.errors import ConflictError, NotFoundError, Problem
from grass.manifest.foreign.scaling import ScaleRequest
from grass.model.sizes import SizeError, check_scaling, target_size
from grass.wire.operation_record import Outcome

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.model.job import Job
    from grass.wire.job_views import JobView, OperationView


class ScaledJob:
    """A job as the requests before leave it.

    ``tasks``: names of the tasks of each component; None: the cluster chooses which of them leave. ``changing``: its
    sizes are being changed already, so that bounds cannot be checked now.
    """

    def __init__(self, job: Job, tasks: dict[str, set[str]], *, changing: bool = False) -> None:
        self._job = job
        self._changing = changing
        self._tasks: dict[str, set[str] | None] = {**tasks}
        self._sizes = {name: len(each) for name, each in tasks.items()}

    def scale(self, request: ScaleRequest) -> Problem | None:
        """Change the size as the request asks. Return why that cannot be."""
        name, job = request.component, f"job {request.job}"
        if name not in self._sizes:
            what = f"{job}: has no component {name}; it has {', '.join(self._sizes)}"
            return Problem("spec.selector.name", what)
        tasks, size = self._tasks[name], self._sizes[name]
        unknown = next((task for task in request.remove if tasks is not None and task not in tasks), None)
        if unknown is not None:
            return Problem(request.path, f"{job}: has no task {unknown}")
        try:
            check_scaling(self._job, name, request.remove)
            if not self._changing:
                size = target_size(self._job.components[name], size, None, request.delta, request.remove)
        except SizeError as error:
            return Problem(request.path, f"{job}: {error}")
        self._sizes[name], self._tasks[name] = size, _changed(tasks, request)
        return None


def _changed(tasks: set[str] | None, request: ScaleRequest) -> set[str] | None:
    """Return the tasks after the request. New ones take the lowest free indexes."""
    if tasks is None or len(request.remove) < -request.delta:
        return None
    names = (f"{request.component}.{index}" for index in count())
    return tasks - {*request.remove} | {*islice((name for name in names if name not in tasks), max(0, request.delta))}


def starting(job: Job) -> ScaledJob:
    """Return a job that a document before the request starts."""
    sizes = {name: part.replicas for name, part in job.components.items()}
    return ScaledJob(job, {name: {f"{name}.{index}" for index in range(size)} for name, size in sizes.items()})


def running(client: Client, name: str) -> ScaledJob | Problem:
    """Return the job of the cluster that requests scale, or why there is none."""
    try:
        view = client.job(name)
    except NotFoundError as error:
        return Problem("spec.selector.name", str(error))
    if view.state.ended:
        return Problem("spec.selector.name", f"job {name}: already {view.state}; it cannot be scaled")
    if view.specification is UNSET:
        return Problem("spec.selector.name", f"job {name}: not found; it is being deleted")
    return ScaledJob(view.specification, _tasks(view), changing=view.operation is not None)


def _tasks(view: JobView) -> dict[str, set[str]]:
    """Return the tasks of each component. A removed task left a hole in the indexes."""
    return {name: {f"{name}.{index}" for index in part.indexes} for name, part in view.components.items()}


def file(client: Client, source: str, request: ScaleRequest) -> OperationView:
    """File the operation and return it. Raises ConflictError if it is rejected."""
    operation = client.scale(
        request.job,
        request.component,
        delta=request.delta,
        remove=request.remove,
        deadline=request.deadline,
        reason=f"{source}: {sentence(request)}"[:200],
    )
    if operation.outcome is Outcome.REJECTED:
        raise ConflictError(f"{source}: {request.path}: rejected; {operation.message}")
    return operation


def sentence(request: ScaleRequest) -> str:
    """Return what the request asks for."""
    named = f" ({', '.join(request.remove)})" if request.remove else ""
    within = f"within {request.deadline:g} s"
    return f"scale {request.component} of job {request.job} by {request.delta:+d}{named} {within}"
