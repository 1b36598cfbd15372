"""How long a client tries again, by what went wrong."""

from __future__ import annotations

from grass.api.patience import Patience
from grass.errors import StoreFullError

TIMEOUT = 5.0


class Time:
    """A steady clock that stands still until it is set on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_silent_server_is_given_up_after_the_timeout() -> None:
    time = Time()
    patience = Patience(TIMEOUT, wait=0.0, resumed=True, steady=time)
    time.now += TIMEOUT
    assert not patience.goes_on(TimeoutError())


def test_a_server_that_went_away_may_be_silent_while_it_starts_again() -> None:
    time = Time()
    patience = Patience(TIMEOUT, wait=0.0, resumed=True, steady=time)
    assert patience.goes_on(ConnectionRefusedError())
    assert patience.left == 6 * TIMEOUT
    time.now += TIMEOUT
    assert patience.goes_on(TimeoutError())
    time.now += 5 * TIMEOUT
    assert not patience.goes_on(TimeoutError())


def test_a_server_that_never_answered_gets_no_time_to_restart() -> None:
    time = Time()
    patience = Patience(TIMEOUT, wait=0.0, resumed=False, steady=time)
    assert patience.goes_on(ConnectionResetError())
    time.now += TIMEOUT
    assert not patience.goes_on(ConnectionRefusedError())


def test_what_the_cluster_answered_holds_although_the_last_attempt_ran_out_of_time() -> None:
    time, full = Time(), StoreFullError("the disk is full")
    patience = Patience(TIMEOUT, wait=0.0, resumed=False, steady=time)
    assert patience.goes_on(full)
    time.now += TIMEOUT
    assert not patience.goes_on(TimeoutError())
    assert patience.answer is full


def test_what_the_cluster_answered_no_longer_holds_once_it_has_gone_away() -> None:
    time = Time()
    patience = Patience(TIMEOUT, wait=0.0, resumed=False, steady=time)
    assert patience.goes_on(StoreFullError("the disk is full"))
    time.now += TIMEOUT
    assert not patience.goes_on(ConnectionRefusedError())
    assert patience.answer is None
