"""Decides what is done for a resource that is a job. Pure. Used by ``loop``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from grass.errors import ManifestError
from grass.kubernetes.custom_kinds import MARS_JOB, Kind
from grass.kubernetes.custom_resources import Resource
from grass.manifest import parse_job
from grass.manifest.document import Document
from grass.model.namespace import Serve
from grass.wire.job_views import JobView, OperationView
from node.operator.identity import Run, document_of, run_of
from node.operator.status import ENDED, REJECTED, Said, is_changed, is_rejected, present, said_of

SERVED_OTHERWISE = frozenset({"webHost"})
"""Keys of the specification that the operator serves, so that its job has no warning about them."""
_CHANGED = "; its specification was changed since, which has no effect on a job that was started"


class Start(NamedTuple):
    """Start the job. ``document``: a file of the resource's system."""

    run: Run
    document: Document


class Stop(NamedTuple):
    job: str


Step = Start | Stop | Said


def is_finished(resource: Resource) -> bool:
    """Return whether nothing more is done for a resource as it is."""
    said = present(resource)
    return said is not None and said.word in ENDED and (said.reason != REJECTED or is_rejected(resource))


def wants_job(resource: Resource) -> bool:
    """Return whether the job of a resource may have been started before."""
    said = present(resource)
    return said is not None and said.reason != REJECTED


def decide(
    kind: Kind,
    resource: Resource,
    operator: str,
    serve: Serve,
    job: JobView | None,
    operations: Sequence[OperationView] = (),
    why: str = "",
) -> Step | None:
    """Return the next step for a resource that is not finished. ``job``: of ``run_of``; None: there is none.

    ``operations``: those on the job. ``why``: its tasks wait.
    """
    if resource.metadata.deletion_timestamp is not None:
        return Stop(job.id) if job is not None and not job.state.ended else None
    if job is not None:
        said = said_of(kind, job, operations, why)
        return said._replace(message=said.message + _CHANGED) if is_changed(resource) else said
    if wants_job(resource):
        run = run_of(kind, resource)
        return Said("Failed", "JobDeleted", f"job {run.name} was deleted in Grass, so nobody knows how it ended")
    document = document_of(kind, resource, operator, serve, SERVED_OTHERWISE if kind == MARS_JOB else frozenset())
    try:
        parse_job(document)
    except ManifestError as error:
        return rejected(error)
    return Start(run_of(kind, resource), document)


def rejected(error: Exception) -> Said:
    return Said("Failed", REJECTED, f"Grass refuses it: {error}")


def is_orphan(job: JobView, uids: frozenset[str], uid: str) -> bool:
    """Return whether a job runs whose resource is gone. ``uids``: of all resources of its kind. With a policy that
    keeps tasks, they may run after the job's result is known."""
    return uid not in uids and not job.state.ended
