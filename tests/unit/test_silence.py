"""How long the shepherd owes an answer."""

from __future__ import annotations

from node.runtime.process.pulse import Pulse


def test_a_peer_that_owes_nothing_is_asked_once_per_period() -> None:
    pulse = Pulse(2.0, 100.0)
    pulse.heard()
    assert [pulse.look(now) for now in (101.0, 102.0, 103.0)] == [False, True, False]
    pulse.heard()
    assert pulse.look(104.0)
    assert pulse.silent == 0.0


def test_silence_grows_until_anything_is_heard() -> None:
    pulse = Pulse(2.0, 100.0)
    for now in (102.0, 104.0, 106.0):
        pulse.look(now)
    assert pulse.silent == 6.0
    pulse.heard()
    assert pulse.silent == 0.0


def test_another_peer_gets_its_own_time_to_answer() -> None:
    pulse = Pulse(2.0, 100.0)
    pulse.look(102.0)
    pulse.met()
    assert (pulse.silent, pulse.ignored) == (2.0, 0.0)
    pulse.look(104.0)
    assert (pulse.silent, pulse.ignored) == (4.0, 2.0)


def test_a_machine_that_slept_does_not_blame_the_peer() -> None:
    pulse = Pulse(2.0, 100.0)
    pulse.heard()
    assert pulse.look(102.0)
    pulse.look(90_000.0)
    assert pulse.silent == 2.0
