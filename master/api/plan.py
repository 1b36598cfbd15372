"""`/v1/plan`: where a job would go if it were started now. The master-agent answers, because only it can plan.

Used by ``handlers``, ``job_changes``, ``jobs`` and ``schedules``.
"""

from __future__ import annotations

from grass.errors import ManifestError, MasterAwayError, Problem
from grass.model.job import Job
from grass.system.entropy import run_id
from grass.wire.calls import Preview, Submission
from grass.wire.views import PlanEviction, PlanView
from master.api.call import Call
from master.api.dependency_check import check_after
from master.api.preflight import check_programs, program_sources
from master.api.redaction import Redaction
from master.api.submission import Terms, accept_job


def plan_job(call: Call) -> PlanView:
    """Answer `grass job plan`. Changes nothing."""
    store, preview = call.api.store, call.read(Preview)
    accepted = accept_job(
        Submission(manifest=preview.manifest, shell=preview.shell),
        store.nodes,
        run_id,
        Terms.of(call.api.config, call.user),
    )
    job = accepted.job
    check_programs([job], program_sources(call))
    warnings = [*accepted.warnings, *check_dependencies(call, job), *_taken(call, job)]
    patience = call.api.waits.preview
    answer = store.preview(job, call.user, accepted.job_id, patience)
    if answer is None:
        raise MasterAwayError(f"the master-agent did not answer within {patience:g} s; see `grass status`")
    answer = Redaction(call).job(answer)
    evictions = tuple(PlanEviction(one.job if call.sees(one.user) else None, one.count) for one in answer.preemptions)
    return PlanView(job.name, answer.reason, answer.components, evictions, tuple(warnings))


def check_dependencies(call: Call, job: Job, strict: bool = False) -> list[str]:
    """Return warnings about jobs that it waits for. Raises ManifestError for a cycle; if ``strict``, for a warning."""
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
    return [f"name: job {job.name} is active, so starting another one of this name would be refused now"]
