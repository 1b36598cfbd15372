"""Changes the size of components with ``autoscale``: reads, asks the planner, and files operations as a user does.

The rules (``master.autoscale``) decide. Of what they need, only how long machines have been idle is kept here, so that
nothing is lost with the monitor but a few minutes. Used by ``__main__``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from grass.store.history_store import HistoryStore
from grass.store.previews import Previews, Question
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.system import clock
from grass.system.entropy import run_id
from grass.wire.operation_record import GRASS, ScaleRule
from grass.wire.tickets import CancelOperation, ScaleJob
from master.autoscale.question import idle, one_more_unit
from master.autoscale.reading import Reader, Situation
from master.autoscale.rules import Act, Decision, Idle, Key, decide

EVERY = 5.0
"""Seconds between two decisions."""
_FRESH = 15.0
"""Seconds for which an answer of the planner holds."""
_GAP = 60.0
"""Seconds without an answer after which it is not known that machines stayed idle."""
_MOST_QUESTIONS = 4
"""Questions that the planner is asked at once."""
_PATIENCE = 30.0
"""Seconds after which a question counts as lost."""

log = logging.getLogger("grass.monitor")


class Autoscaler:
    """Call ``turn`` often, in one thread."""

    def __init__(
        self,
        records: Records,
        history: HistoryStore,
        tickets: Tickets,
        previews: Previews,
        wall: Callable[[], float] = clock.wall,
    ) -> None:
        self._reader = Reader(records, history)
        self._tickets = tickets
        self._previews = previews
        self._wall = wall
        self._asked: dict[Key, tuple[Question, float]] = {}
        self._answers: dict[Key, tuple[Idle, float]] = {}
        self._since: dict[Key, tuple[float, float]] = {}
        """Component → since when one more unit of it has fitted, and when that was seen last."""
        self._turned = 0.0

    def turn(self) -> None:
        """Decide, if it is time. Raises UnreachableError; nothing is done twice then."""
        now = self._wall()
        if 0 <= now - self._turned < EVERY:
            return
        self._turned = now
        situation = self._reader.read()
        self._take_answers(now)
        known = {key: answer for key, (answer, at) in self._answers.items() if now - at < _FRESH}
        decisions = decide(situation.subjects, situation.waiters, known, now)
        for decision in decisions:
            self._carry_out(decision)
        self._ask(situation, [each for each in decisions if each.act is Act.ASK], now)

    def _take_answers(self, now: float) -> None:
        for key, (question, at) in list(self._asked.items()):
            answer = self._previews.answer(question, 0)
            if answer is not None:
                found = idle(answer, key.component)
                since, seen = self._since.pop(key, (now, now))
                if found.fits:
                    self._since[key] = (since if now - seen < _GAP else now), now
                    found = found._replace(since=self._since[key][0])
                self._answers[key] = found, now
            if answer is not None or now - at >= _PATIENCE:
                del self._asked[key]
        self._answers = {key: each for key, each in self._answers.items() if now - each[1] < _GAP}
        self._since = {key: each for key, each in self._since.items() if now - each[1] < _GAP}

    def _ask(self, situation: Situation, wanted: list[Decision], now: float) -> None:
        """Ask about those first that were not asked about for the longest time."""
        wanted.sort(key=lambda each: self._answers[each.subject.key][1] if each.subject.key in self._answers else 0.0)
        for key in [each.subject.key for each in wanted if each.subject.key not in self._asked]:
            if len(self._asked) >= _MOST_QUESTIONS:
                return
            job = one_more_unit(situation.specs[key.job_id], key.component)
            self._asked[key] = self._previews.ask(job, situation.users[key.job_id], run_id("autoscale")), now

    def _carry_out(self, decision: Decision) -> None:
        subject = decision.subject
        if decision.act is Act.CANCEL:
            log.info("job %s: growth %s of %s is cancelled: %s", subject.job, decision.id, *_said(decision))
            self._tickets.ticket(CancelOperation(job_id=subject.job_id, id=decision.id, user=GRASS))
        elif decision.act is Act.SCALE:
            log.info(
                "job %s: %s %d → %d: %s", subject.job, subject.component, subject.size, decision.size, decision.why
            )
            self._tickets.ticket(
                ScaleJob(
                    job_id=subject.job_id,
                    id=decision.id,
                    user=GRASS,
                    component=subject.component,
                    size=decision.size,
                    reason=decision.why,
                    rule=decision.rule,
                )
            )
            if decision.rule is ScaleRule.GROW:
                self._answers.clear()  # what was idle is taken


def _said(decision: Decision) -> tuple[str, str]:
    return decision.subject.component, decision.why
