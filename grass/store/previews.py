"""Questions to the planner: where a job would run if it were submitted now. They change nothing.

Used by ``api_store`` and ``master.monitor``.
"""

from __future__ import annotations

from typing import NamedTuple

from grass.model.job import Job
from grass.store.backend import Backend
from grass.store.keys import Keys
from grass.store.tickets import Tickets
from grass.system.clock import steady
from grass.wire.plan_answer import PLAN_ANSWER, PlanAnswer
from grass.wire.tickets import PlanJob

_AT_ONCE = 100
"""Answers that are read at once."""


class Question(NamedTuple):
    """A question that was asked. ``after``: the newest answer before it."""

    id: str
    after: str


class Previews:
    """The master-agent answers (``master/agent/preview.py``)."""

    def __init__(self, backend: Backend, keys: Keys) -> None:
        self._backend = backend
        self._keys = keys
        self._tickets = Tickets(backend, keys)

    def ask(self, job: Job, user: str, question: str) -> Question:
        """``question``: a unique id."""
        newest = self._backend.newest(self._keys.plans)
        self._tickets.ticket(PlanJob(question, job, user))
        return Question(question, newest[0] if newest else "0-0")

    def answer(self, question: Question, seconds: float) -> PlanAnswer | None:
        """Return the answer; None: there is none within ``seconds``."""
        after, until = question.after, steady() + seconds
        while True:
            left = max(0.0, until - steady())
            entries = self._backend.wait({self._keys.plans: after}, left, _AT_ONCE).get(self._keys.plans, [])
            for entry, fields in entries:
                after = entry
                if fields["question"] == question.id:
                    return PLAN_ANSWER.decode(fields["body"])
            if not left and len(entries) < _AT_ONCE:
                return None
