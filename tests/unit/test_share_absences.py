from __future__ import annotations

from grass.model.reasons import ReasonCode
from node.agent.share_absences import ShareAbsences


def looked(*looks: tuple[float, bool]) -> ShareAbsences:
    absences = ShareAbsences()
    for now, away in looks:
        absences.note(now, away=away)
    return absences


def test_a_share_is_away_from_the_last_look_that_found_it_to_the_next_one_that_does() -> None:
    absences = looked((10, False), (12, True), (14, True), (16, False), (18, False))
    assert absences.during(0, 100) == 6
    assert (absences.during(11, 13), absences.during(0, 10), absences.during(16, 20)) == (2, 0, 0)
    assert looked((10, False), (12, True)).during(0, 15) == 5  # it is still away


def test_a_task_that_ran_while_the_share_was_away_says_so_and_others_do_not() -> None:
    absences = looked((10, False), (12, True), (52, False))
    reason = absences.loss(5, 60)
    assert reason is not None and reason.code is ReasonCode.SHARE
    assert "the share did not answer for up to 42 s while it ran" in reason.message
    assert absences.loss(0, 9.5) is None and absences.loss(53, 60) is None


def test_only_the_newest_absences_are_kept() -> None:
    absences = ShareAbsences()
    for number in range(300):
        absences.note(2.0 * number, away=False)
        absences.note(2.0 * number + 1, away=True)
    absences.note(600.0, away=False)
    assert 190 < absences.during(0, 1000) < 210
