"""How long the shepherd owes an answer."""

from __future__ import annotations

from node.runtime.process.silence import Silence


def test_a_peer_that_owes_nothing_is_asked_once_per_period() -> None:
    silence = Silence(2.0, 100.0)
    silence.received()
    assert [silence.check(now) for now in (101.0, 102.0, 103.0)] == [False, True, False]
    silence.received()
    assert silence.check(104.0)
    assert silence.total == 0.0


def test_silence_grows_until_anything_is_heard() -> None:
    silence = Silence(2.0, 100.0)
    for now in (102.0, 104.0, 106.0):
        silence.check(now)
    assert silence.total == 6.0
    silence.received()
    assert silence.total == 0.0


def test_another_peer_gets_its_own_time_to_answer() -> None:
    silence = Silence(2.0, 100.0)
    silence.check(102.0)
    silence.connected()
    assert (silence.total, silence.of_peer) == (2.0, 0.0)
    silence.check(104.0)
    assert (silence.total, silence.of_peer) == (4.0, 2.0)


def test_a_machine_that_slept_does_not_blame_the_peer() -> None:
    silence = Silence(2.0, 100.0)
    silence.received()
    assert silence.check(102.0)
    silence.check(90_000.0)
    assert silence.total == 2.0
