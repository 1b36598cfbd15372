"""`/v1/plan`: what would become of a job if it were started now. The master-agent answers, because only it knows."""

from __future__ import annotations

from grass.entropy import run_id
from grass.errors import ManifestError, MasterAwayError, Problem
from grass.model.job import Job
from grass.wire.calls import Preview, Submission
from grass.wire.views import PlanEviction, PlanView
from master.api.call import Call
from master.api.discretion import Discretion
from master.api.order import check_after
from master.api.submission import accept_job


def plan_job(call: Call) -> PlanView:
    store = call.api.store
    accepted = accept_job(
        Submission(manifest=call.read(Preview).manifest),
        store.nodes,
        run_id,
        keep_cwd=call.api.config.master.nodes_on_client,
    )
    job = accepted.job
    warnings = [*accepted.warnings, *check_order(call, job), *_taken(call, job)]
    patience = call.api.waits.preview
    answer = store.preview(job, call.user, accepted.job_id, patience)
    if answer is None:
        raise MasterAwayError(f"the master-agent did not answer within {patience:g} s; `grass status` says how it is")
    answer = Discretion(call).plan(answer)
    evictions = tuple(PlanEviction(one.job if call.sees(one.user) else None, one.count) for one in answer.preemptions)
    return PlanView(job.name, answer.reason, answer.components, evictions, tuple(warnings))


def check_order(call: Call, job: Job, strict: bool = False) -> list[str]:
    """Warnings about jobs that it is to wait for. ManifestError: a circle, or with ``strict`` any warning."""
    store = call.api.store

    def find(name: str) -> tuple[Job, bool] | None:
        record = store.job(name)
        spec = store.spec(record.id) if record is not None else None
        return None if record is None or spec is None else (spec, record.state.ended)

    warnings = check_after(job, find) if job.after else []
    if strict and warnings:
        raise ManifestError([Problem("", warning) for warning in warnings])
    return warnings


def _taken(call: Call, job: Job) -> list[str]:
    record = call.api.store.job(job.name)
    if record is None or record.state.ended:
        return []
    return [f"name: a job {job.name} exists and has not ended, so starting this one would be refused now"]
