"""Why a task was left without a place, in words. The same objects that `grass job why` prints.

Looks at the ledger at the end of a plan: what it says is true once the plan is carried out.
"""

from __future__ import annotations

from typing import Any

from grass.model.job import NODE_LEVEL
from grass.model.reasons import Reason, ReasonCode
from master.planning.model import Demand, QueuedJob, Shape, View, Waiting
from master.planning.quotas import wanted
from master.planning.round import Left, Round
from master.planning.survey import Survey, reduced, show, show_seconds


class Explainer:
    def __init__(self, view: View, decided: Round) -> None:
        self._view = view
        self._decided = decided
        self._surveys: dict[str, Survey] = {}
        self._never: dict[str, Reason | None] = {}
        self._rooms: dict[str, Reason] = {}

    def waiting(self) -> Waiting:
        """One reason for each (job, component) that has a task without a place."""
        return Waiting([(left.jobs, left.demand.component, self._reason(left)) for left in self._decided.left])

    def _reason(self, left: Left) -> Reason:
        shape = left.demand.shape
        never = self._never_fits(shape)
        if never is not None:
            return never
        job = left.jobs[0]
        match left.cause:
            case ReasonCode.JOB_LIMIT:
                level = self._view.level
                message = f"waits for its turn: the cluster runs at most {level} jobs at once (parallel_level)"
                return Reason(ReasonCode.JOB_LIMIT, message, {"parallel_level": level})
            case ReasonCode.QUOTA:
                return self._quota(job, left.demand)
            case ReasonCode.PREEMPTING:
                return self._preempting(job)
        if job.id in self._decided.starts:
            return self._first(job, self._roomless(left))
        return self._roomless(left)

    def _roomless(self, left: Left) -> Reason:
        job, demand = left.jobs[0], left.demand
        if not self._survey(demand.shape).any_roomy:
            return self._no_room(demand.shape)
        if demand.pack is not None or job.together is not None:
            return self._apart(job, demand)
        return (
            self._gang(demand)
            if left.cause is ReasonCode.GANG and not self._gated(job, demand)
            else self._behind(job, demand)
        )

    def _promised(self, job: QueuedJob) -> dict[int, str]:
        """The nodes on which something is promised to others than ``job``, and to whom (empty: not known)."""
        gates = sorted(self._decided.ledger.gates.items())
        return {place: gate.job for place, here in gates for gate in here if gate.job != job.id}

    def _gated(self, job: QueuedJob, demand: Demand) -> bool:
        """Whether a task of it has room only where something is promised to others."""
        roomy = self._survey(demand.shape).roomy.copy()
        roomy[list(self._promised(job))] = False
        return not roomy.any()

    def _first(self, job: QueuedJob, reason: Reason) -> Reason:
        """A job for which places are kept is told when it starts, where time limits tell."""
        starts = self._decided.starts[job.id]
        if starts is None:
            return reason
        message = f"{reason.message}; starts within {show_seconds(starts)} by the time limits of what runs"
        return Reason(reason.code, message, {**reason.details, "starts_in": starts})

    def _behind(self, job: QueuedJob, demand: Demand) -> Reason:
        survey = self._survey(demand.shape)
        first = next((who for place, who in self._promised(job).items() if who and survey.roomy[place]), "")
        who = f"{first}, which is served first" if first else "a job that is served first"
        message = f"a task would fit now, but could delay {who}"
        return Reason(ReasonCode.BEHIND, message, _nodes(survey) | ({"job": first} if first else {}))

    def _apart(self, job: QueuedJob, demand: Demand) -> Reason:
        level = job.together if demand.pack is None else demand.pack
        place = "one node" if level == NODE_LEVEL else f"one place of level {level}"
        what = "all of the job" if demand.pack is None else "its tasks"
        message = f"waits for room: {what} must be in {place}, and the room that there is lies elsewhere or is promised"
        return Reason(ReasonCode.NO_ROOM, message, _nodes(self._survey(demand.shape)))

    def _preempting(self, job: QueuedJob) -> Reason:
        stopped = [each for each in self._decided.evictions() if each.beneficiary == job.id]
        if not stopped:
            return Reason(ReasonCode.PREEMPTING, "starts when the tasks that are being stopped have ended")
        names = sorted({each.job for each in stopped})
        count = sum(each.count for each in stopped)
        whose = ", ".join(names[:3]) + ", …" * (len(names) > 3)
        tasks = "1 task has" if count == 1 else f"{count} tasks have"
        message = f"starts when {tasks} ended that {'is' if count == 1 else 'are'} stopped for it (of {whose})"
        return Reason(ReasonCode.PREEMPTING, message, {"jobs": names, "tasks": count})

    def _survey(self, shape: Shape) -> Survey:
        found = self._surveys.get(shape.key)
        if found is None:
            found = self._surveys[shape.key] = Survey(self._decided.ledger, shape)
        return found

    def _never_fits(self, shape: Shape) -> Reason | None:
        """The reason, when no node could take one such task even if it were empty."""
        if shape.key not in self._never:
            self._never[shape.key] = self._find_never(shape)
        return self._never[shape.key]

    def _find_never(self, shape: Shape) -> Reason | None:
        if not self._view.nodes:
            return Reason(ReasonCode.NO_NODES, "the cluster has no node yet")
        survey = self._survey(shape)
        if survey.ready.any():
            return None
        if not survey.suited.any():
            groups = survey.groups
            message = "no node is what it asks for: " + "; ".join(map(str, groups))
            return Reason(ReasonCode.CONSTRAINTS, message, _nodes(survey))
        if not survey.large.any():
            return self._too_large(shape, survey)
        ledger = self._decided.ledger
        names = [node.name for node, large in zip(ledger.nodes, survey.large, strict=True) if large]
        message = f"no node that could hold it takes tasks now: {'; '.join(map(str, survey.groups))}"
        return Reason(ReasonCode.NO_NODES, message, _nodes(survey) | {"able": len(names)})

    def _too_large(self, shape: Shape, survey: Survey) -> Reason:
        ledger = self._decided.ledger
        details = self._fits(shape, survey)
        starts = details.get("starts_with", "")
        suffix = f"; starts now with {starts}" if starts else ""
        for name in ("gpu", "cpu", "memory", "disk", *(name for name, _ in shape.resources.custom)):
            need, largest = shape.resources.amount(name), int(ledger.total[survey.suited, ledger.columns[name]].max())
            if need > largest:
                kind = "node" if len(survey.suited) == survey.suited.sum() else "node that suits it"
                message = f"needs {show(name, need)} per task; the largest {kind} has {show(name, largest).split()[0]}"
                more = {"resource": name, "needs": need, "largest": largest}
                return Reason(ReasonCode.TOO_LARGE, message + suffix, details | more)
        message = "no single node has all of what one task needs"
        return Reason(ReasonCode.TOO_LARGE, message + suffix, details | _nodes(survey))

    def _no_room(self, shape: Shape) -> Reason:
        found = self._rooms.get(shape.key)
        if found is None:
            survey = self._survey(shape)
            details = _nodes(survey) | self._fits(shape, survey)
            message = "waits for room: " + "; ".join(map(str, survey.groups))
            if "starts_with" in details:
                message += f"; starts now with {details['starts_with']}"
            found = self._rooms[shape.key] = Reason(ReasonCode.NO_ROOM, message, details)
        return found

    def _fits(self, shape: Shape, survey: Survey) -> dict[str, Any]:
        fits = survey.fits(frozenset(self._decided.ledger.gates))
        if fits is None:
            return {}
        return {"fits": reduced(shape.resources, *fits).to_wire(), "starts_with": show(*fits)}

    def _gang(self, demand: Demand) -> Reason:
        survey = self._survey(demand.shape)
        counts = self._decided.ledger.counts(survey.need)
        room = int(counts.sum())
        if room >= demand.count:
            message = f"starts only with all of its gang, and not all of that fits now ({room} of this do)"
        else:
            message = f"starts only whole: {room} of {demand.count} tasks would fit now"
        return Reason(ReasonCode.GANG, message, _nodes(survey) | {"room": room, "count": demand.count})

    def _quota(self, job: QueuedJob, demand: Demand) -> Reason:
        quota, held = self._decided.quotas.of(job.user), self._decided.shares.held(job.user)
        count = demand.count if demand.gang else 1
        for name, need in wanted(quota, demand.shape):
            if held[name] + need * count > quota[name]:
                message = (
                    f"waits for quota: {job.user} may hold {show(name, quota[name])}, holds {show(name, held[name])}, "
                    f"and this needs {show(name, need * count)}"
                )
                details = {"resource": name, "quota": quota[name], "held": held[name], "needs": need * count}
                return Reason(ReasonCode.QUOTA, message, details)
        message = f"waits for quota: what {job.user}'s quota leaves is kept for an earlier job of {job.user}"
        return Reason(ReasonCode.QUOTA, message)


def _nodes(survey: Survey) -> dict[str, Any]:
    return {"nodes": [group.to_wire() for group in survey.groups]}
