"""Files the operation that a ScaleIn or ScaleOut asks for, and checks it against the job first. Used by ``apply``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grass.cli.view import View
from grass.errors import ConflictError, NotFoundError, Problem
from grass.manifest.foreign.scaling import ScaleRequest
from grass.model.lifecycle import JobState

if TYPE_CHECKING:
    from grass.api.client import ApiClient, View
    from grass.manifest import ParsedJob


class Starting(Protocol):
    """A job that another document starts before the request."""

    @property
    def parsed(self) -> ParsedJob: ...


def problem(client: ApiClient, request: ScaleRequest, starting: Starting | None) -> Problem | None:
    """Return why the request cannot be filed: its job, its component or one of its tasks does not exist."""
    if starting is not None:
        sizes = {name: part.replicas for name, part in starting.parsed.job.components.items()}
        tasks = {f"{name}.{index}" for name, size in sizes.items() for index in range(size)}
    else:
        try:
            view = client.job(request.job, specification=False)
        except NotFoundError as error:
            return Problem("spec.selector.name", str(error))
        if JobState(view["state"]).ended:
            return Problem("spec.selector.name", f"job {request.job}: already {view['state']}; it cannot be scaled")
        sizes = {name: part["replicas"] for name, part in view["components"].items()}
        tasks = {task["task"] for task in client.tasks(view["id"], request.component)} if request.remove else set()
    if request.component not in sizes:
        what = f"job {request.job}: has no component {request.component}; it has {', '.join(sizes)}"
        return Problem("spec.selector.name", what)
    unknown = next((task for task in request.remove if task not in tasks), None)
    return None if unknown is None else Problem(request.path, f"job {request.job}: has no task {unknown}")


def file(client: ApiClient, source: str, request: ScaleRequest) -> View:
    """File the operation and return it. Raises ConflictError if it is rejected."""
    operation = client.scale(
        request.job,
        request.component,
        delta=request.delta,
        remove=request.remove,
        deadline=request.deadline,
        reason=f"{source}: {sentence(request)}"[:200],
    )
    if operation["outcome"] == "REJECTED":
        raise ConflictError(f"{source}: {request.path}: rejected; {operation['message']}")
    return operation


def sentence(request: ScaleRequest) -> str:
    """Return what the request asks for."""
    named = f" ({', '.join(request.remove)})" if request.remove else ""
    within = f"within {request.deadline:g} s"
    return f"scale {request.component} of job {request.job} by {request.delta:+d}{named} {within}"
