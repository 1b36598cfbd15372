"""Writing down why things wait: the planner's reasons, as far as they are new. Pure.

A number in a reason changes with every task that ends, and a long queue would be written anew each time. So the
wording is brought up to date at once for a few jobs, for the others a little later; and a queue of many thousands is
looked through now and then only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from grass.model.reasons import Reason
from master.agent.aside import Work
from master.agent.step import Step
from master.agent.viewing import explain
from master.planning.model import Waiting

AT_ONCE = 50
"""Reasons that are worded anew in each round."""
LATER = 500
"""And so many that are older than ``AGE`` seconds; or are the first or another reason."""
AGE = 1.0
LARGE = 2_000
LOOKING = 3e-5
"""Seconds between looks through a queue of more than ``LARGE``, for each job in it."""


def tell_waiting(step: Step, waiting: Mapping[tuple[str, str], Reason]) -> None:
    cache = step.cluster.cache
    size = len(cache.queue)
    found: Iterator[tuple[str, str, Reason]]
    told, later = 0, False
    if size > LARGE and step.now < cache.looked + LOOKING * size:
        found = islice(_in_line(waiting), AT_ONCE)
        later = True
    else:
        found = _in_line(waiting)
        cache.looked_at_all(step.now)
    for job_id, name, reason in _new(step, found):
        step.work = Work("plan", job_id)
        run = step.cluster.jobs[job_id]
        component = run.components[name]
        told += 1
        if told > AT_ONCE:
            wording = component.reason is not None and component.reason.code is reason.code
            young = step.now - cache.explained.get((job_id, name), 0.0) < AGE
            if (wording and young) or told > LATER:
                later = True
                continue
        cache.worded(job_id, name, step.now)
        explain(step, run, component, reason)
    step.work = None
    if later and not cache.rewording:
        cache.reword(True)
        step.agenda.add(step.now + max(AGE, LOOKING * size), "reword")


def _in_line(waiting: Mapping[tuple[str, str], Reason]) -> Iterator[tuple[str, str, Reason]]:
    if isinstance(waiting, Waiting):
        for queued, name, reason in waiting.groups:
            for each in queued:
                yield each.id, name, reason
    else:
        for (job_id, name), reason in waiting.items():
            yield job_id, name, reason


def _new(step: Step, found: Iterator[tuple[str, str, Reason]]) -> Iterator[tuple[str, str, Reason]]:
    """Those that are not what their job has been told. Many share one object, so each pair is compared once."""
    jobs = step.cluster.jobs
    same: dict[tuple[int, int], bool] = {}
    for job_id, name, reason in found:
        before = jobs[job_id].components[name].reason
        pair = (id(before), id(reason))
        if pair not in same:
            same[pair] = before == reason
        if not same[pair]:
            yield job_id, name, reason
