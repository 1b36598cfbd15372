"""Explains why a task was not placed: the reasons that `grass job why` prints. Called by ``decide``.

Reads the free resources at the end of the plan: a reason is true once the plan is carried out. The sentences about
nodes come from ``grass.model.feasibility``.
"""

from __future__ import annotations

from grass.model import feasibility
from grass.model.amounts import BUILT_IN, show_amount
from grass.model.exhaustive import assert_never
from grass.model.reasons import Details, Reason, ReasonCode
from master.planning.model import Demand, QueuedJob, Shape, Snapshot, Waiting
from master.planning.quotas import limited_amounts
from master.planning.round import Left, Round
from master.planning.survey import Survey, reduced


class Explainer:
    """Explains the tasks that one ``Round`` did not place."""

    def __init__(self, snapshot: Snapshot, decided: Round) -> None:
        self._snapshot = snapshot
        self._decided = decided
        self._table = decided.table
        self._surveys: dict[str, Survey] = {}
        self._never: dict[str, Reason | None] = {}
        self._full: dict[str, Reason] = {}

    def waiting(self) -> Waiting:
        """Return one reason for each (job, component) with a task that was not placed."""
        return Waiting([(left.jobs, left.demand.component, self._reason(left)) for left in self._decided.left])

    def _reason(self, left: Left) -> Reason:
        shape = left.demand.shape
        never = self._never_fits(shape)
        if never is not None:
            return never
        job = left.jobs[0]
        match left.cause:
            case ReasonCode.JOB_LIMIT:
                reason = self._job_limit()
            case ReasonCode.QUOTA:
                reason = self._quota(job, left.demand)
            case ReasonCode.PREEMPTING:
                reason = self._preempting(job)
            case ReasonCode.GANG | ReasonCode.NO_FREE_RESOURCES:
                reason = self._unplaced(left)
                if job.id in self._decided.starts:
                    reason = self._with_start(job, reason)
            case _:
                assert_never(left.cause)
        return reason

    def _job_limit(self) -> Reason:
        limit = self._snapshot.job_limit
        message = f"waits for its turn; the cluster runs at most {limit} jobs at once (parallel_level)"
        return Reason(ReasonCode.JOB_LIMIT, message, {"parallel_level": limit})

    def _unplaced(self, left: Left) -> Reason:
        job, demand = left.jobs[0], left.demand
        survey = self._survey(demand.shape)
        if demand.gang and survey.capacity < demand.count:
            return self._gang_too_large(demand, survey.capacity)
        if not survey.any_fitting:
            return self._no_free_resources(demand.shape)
        if demand.pack is not None or job.together is not None:
            return self._no_free_domain(job, demand)
        if left.cause is ReasonCode.GANG and not self._fits_only_reserved(job, demand):
            return self._gang(demand)
        return self._behind(job, demand)

    def _reserved(self, job: QueuedJob) -> dict[int, str]:
        """Return node index → job, for nodes with a reservation for another job. Empty job: not known."""
        reservations = sorted(self._decided.ledger.reservations.items())
        return {index: each.job for index, here in reservations for each in here if each.job != job.id}

    def _fits_only_reserved(self, job: QueuedJob, demand: Demand) -> bool:
        """Return whether a task fits only on nodes that have reservations for other jobs."""
        fitting = self._survey(demand.shape).fitting.copy()
        fitting[list(self._reserved(job))] = False
        return not fitting.any()

    def _with_start(self, job: QueuedJob, reason: Reason) -> Reason:
        """Add the start time of a job with a reservation, if time limits or estimates determine the time."""
        starts = self._decided.starts[job.id]
        if starts is None:
            return reason
        if job.id in self._decided.by_estimates:
            message = f"{reason.message}; {feasibility.starts_about(starts)}"
            return Reason(reason.code, message, {**reason.details, "starts_about": starts})
        message = f"{reason.message}; {feasibility.starts_within(starts)}"
        return Reason(reason.code, message, {**reason.details, "starts_in": starts})

    def _behind(self, job: QueuedJob, demand: Demand) -> Reason:
        survey = self._survey(demand.shape)
        first = next((who for index, who in self._reserved(job).items() if who and survey.fitting[index]), "")
        message = feasibility.behind(f"job {first}" if first else "")
        return Reason(ReasonCode.BEHIND, message, _nodes(survey) | ({"job": first} if first else {}))

    def _no_free_domain(self, job: QueuedJob, demand: Demand) -> Reason:
        level = job.together if demand.pack is None else demand.pack
        tasks = "all tasks of the job" if demand.pack is None else "its tasks"
        where = f"{tasks} must run {feasibility.domain(level)}"
        message = f"waits for free resources: {where}, and none has enough that is free and not reserved"
        return Reason(ReasonCode.NO_FREE_RESOURCES, message, _nodes(self._survey(demand.shape)))

    def _preempting(self, job: QueuedJob) -> Reason:
        stopped = [each for each in self._decided.evictions() if each.beneficiary == job.id]
        if not stopped:
            return Reason(ReasonCode.PREEMPTING, "starts once the tasks that are being preempted have ended")
        names = sorted({each.job for each in stopped})
        count = sum(each.count for each in stopped)
        message = feasibility.preempting(count, feasibility.named_jobs(names))
        return Reason(ReasonCode.PREEMPTING, message, {"jobs": names, "tasks": count})

    def _survey(self, shape: Shape) -> Survey:
        found = self._surveys.get(shape.key)
        if found is None:
            found = self._surveys[shape.key] = Survey(self._decided.free_table, shape)
        return found

    def _never_fits(self, shape: Shape) -> Reason | None:
        """Return the reason if no node could run one such task even when empty; otherwise None."""
        if shape.key not in self._never:
            self._never[shape.key] = self._find_never(shape)
        return self._never[shape.key]

    def _find_never(self, shape: Shape) -> Reason | None:
        if not self._snapshot.nodes:
            return Reason(ReasonCode.NO_NODES, feasibility.NO_NODES)
        survey = self._survey(shape)
        if survey.ready.any():
            return None
        groups = "; ".join(map(str, survey.groups))
        if not survey.matching.any():
            return Reason(ReasonCode.CONSTRAINTS, f"no node matches its constraints: {groups}", _nodes(survey))
        if not survey.large.any():
            return self._too_large(shape, survey)
        message = f"no node that is large enough accepts tasks now: {groups}"
        return Reason(ReasonCode.NO_NODES, message, _nodes(survey) | {"able": int(survey.large.sum())})

    def _too_large(self, shape: Shape, survey: Survey) -> Reason:
        table = self._table
        details = self._fits(shape, survey)
        suffix = f"; {details['starts_with']}" if details else ""
        for name in (
            "gpu",
            *(name for name in BUILT_IN if name != "gpu"),
            *(name for name, _ in shape.resources.custom),
        ):
            need, largest = shape.resources.amount(name), int(table.total[survey.matching, table.columns[name]].max())
            if need > largest:
                kind = "node" if survey.matching.all() else "matching node"
                message = feasibility.too_large(name, need, largest, kind) + suffix
                more = Details(resource=name, needs=need, largest=largest)
                return Reason(ReasonCode.TOO_LARGE, message, details | more)
        return Reason(ReasonCode.TOO_LARGE, feasibility.NO_SINGLE_NODE + suffix, details | _nodes(survey))

    def _no_free_resources(self, shape: Shape) -> Reason:
        found = self._full.get(shape.key)
        if found is None:
            survey = self._survey(shape)
            details = _nodes(survey) | self._fits(shape, survey)
            message = "waits for free resources: " + "; ".join(map(str, survey.groups))
            if "starts_with" in details:
                message += f"; {details['starts_with']}"
            found = self._full[shape.key] = Reason(ReasonCode.NO_FREE_RESOURCES, message, details)
        return found

    def _fits(self, shape: Shape, survey: Survey) -> Details:
        fits = survey.fits(frozenset(self._decided.ledger.reservations))
        if fits is None:
            return {}
        return {"fits": reduced(shape.resources, *fits).to_wire(), "starts_with": feasibility.starts_with(*fits)}

    def _gang(self, demand: Demand) -> Reason:
        survey = self._survey(demand.shape)
        fitting = int(self._decided.free_table.counts(survey.need).sum())
        if fitting >= demand.count:
            message = "gang starts together; these tasks fit now, but not the whole gang"
        else:
            message = f"gang starts together; {fitting} of {demand.count} tasks fit now"
        return Reason(ReasonCode.GANG, message, _nodes(survey) | {"fitting": fitting, "count": demand.count})

    def _gang_too_large(self, demand: Demand, capacity: int) -> Reason:
        """Each component is checked by itself, so a gang of several components may be too large without this reason."""
        message = feasibility.gang_too_large(demand.count, capacity)
        return Reason(ReasonCode.GANG, message, {"capacity": capacity, "count": demand.count})

    def _quota(self, job: QueuedJob, demand: Demand) -> Reason:
        quota, used = self._decided.quotas.quota_of(job.user), self._decided.shares.allocated(job.user)
        if not job.begun and (name := self._decided.quotas.too_many_files(job.user)):
            kept = self._decided.quotas.kept(job.user)[name]
            message = (
                f"waits for quota: {job.user} may keep {show_amount(name, quota[name])} in the share, and keeps "
                f"{show_amount(name, kept)}; remove some with `grass data remove`"
            )
            return Reason(ReasonCode.QUOTA, message, {"resource": name, "quota": quota[name], "used": kept})
        count = demand.count if demand.gang else 1
        for name, need in limited_amounts(quota, demand.shape):
            if used[name] + need * count > quota[name]:
                if need * count > quota[name]:
                    message = feasibility.above_quota(job.user, name, quota[name], need * count)
                else:
                    most, needs, uses = (show_amount(name, each) for each in (quota[name], need * count, used[name]))
                    message = f"waits for quota: {job.user} may use {most}, uses {uses}, and this needs {needs}"
                details = Details(resource=name, quota=quota[name], used=used[name], needs=need * count)
                return Reason(ReasonCode.QUOTA, message, details)
        message = f"waits for quota: the rest of {job.user}'s quota is reserved for an earlier job of {job.user}"
        return Reason(ReasonCode.QUOTA, message)


def _nodes(survey: Survey) -> Details:
    return {"nodes": [group.to_wire() for group in survey.groups]}
