"""Records the planner's reasons why jobs wait, where they changed. Called by ``placement``. Pure.

Numbers in a reason change whenever a task ends. Writing a long queue again each time would cost too much, so only a few
texts are updated at once, the others a little later, and a queue of many thousands is reviewed only at times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from grass.model.reasons import Reason
from master.agent.planner_snapshot import set_reason
from master.agent.set_aside import Work
from master.agent.step import Step
from master.planning.model import Waiting

AT_ONCE = 50
"""Reasons whose text is updated in each round."""
LATER = 500
"""Further reasons per round: those older than ``AGE``, and those that are new or of another code."""
AGE = 1.0
"""Seconds after which the text of a reason is updated, if only its numbers changed."""
LARGE = 2_000
REVIEW_SPACING = 3e-5
"""Seconds between reviews of a queue of more than ``LARGE`` jobs, for each job in it."""


def record_waiting_reasons(step: Step, waiting: Mapping[tuple[str, str], Reason]) -> None:
    """Record the reasons of (job id, component) that changed, as many as one round may write."""
    cache = step.cluster.cache
    size = len(cache.queue)
    found: Iterator[tuple[str, str, Reason]]
    written, later = 0, False
    if size > LARGE and step.now < cache.reviewed_at + REVIEW_SPACING * size:
        found = islice(_in_queue_order(waiting), AT_ONCE)
        later = True
    else:
        found = _in_queue_order(waiting)
        cache.reviewed_all(step.now)
    for job_id, name, reason in _new(step, found):
        step.work = Work("plan", job_id)
        run = step.cluster.jobs[job_id]
        component = run.components[name]
        written += 1
        if written > AT_ONCE:
            same_code = component.reason is not None and component.reason.code is reason.code
            young = step.now - cache.worded_at.get((job_id, name), 0.0) < AGE
            if (same_code and young) or written > LATER:
                later = True
                continue
        cache.note_worded(job_id, name, step.now)
        set_reason(step, run, component, reason)
    step.work = None
    if later and not cache.rewording:
        cache.reword(True)
        step.agenda.add(step.now + max(AGE, REVIEW_SPACING * size), "reword")


def _in_queue_order(waiting: Mapping[tuple[str, str], Reason]) -> Iterator[tuple[str, str, Reason]]:
    if isinstance(waiting, Waiting):
        for queued, name, reason in waiting.groups:
            for each in queued:
                yield each.id, name, reason
    else:
        for (job_id, name), reason in waiting.items():
            yield job_id, name, reason


def _new(step: Step, found: Iterator[tuple[str, str, Reason]]) -> Iterator[tuple[str, str, Reason]]:
    """Yield the reasons that differ from the recorded ones. Many share one object, so each pair is compared once."""
    jobs = step.cluster.jobs
    same: dict[tuple[int, int], bool] = {}
    for job_id, name, reason in found:
        before = jobs[job_id].components[name].reason
        pair = (id(before), id(reason))
        if pair not in same:
            same[pair] = before == reason
        if not same[pair]:
            yield job_id, name, reason
