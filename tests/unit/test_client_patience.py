"""How long a client tries again, by what went wrong."""

from __future__ import annotations

import time

from grass.api.patience import Patience

TIMEOUT = 0.5


def test_a_silent_server_is_given_up_after_the_timeout() -> None:
    patience = Patience(TIMEOUT, wait=0.0, resumed=True)
    time.sleep(TIMEOUT)
    assert not patience.goes_on(TimeoutError())


def test_a_server_that_went_away_may_be_silent_while_it_starts_again() -> None:
    patience = Patience(TIMEOUT, wait=0.0, resumed=True)
    assert patience.goes_on(ConnectionRefusedError())
    assert 4 * TIMEOUT < patience.left <= 6 * TIMEOUT
    time.sleep(TIMEOUT)
    assert patience.goes_on(TimeoutError())


def test_a_server_that_never_answered_gets_no_time_to_restart() -> None:
    patience = Patience(TIMEOUT, wait=0.0, resumed=False)
    assert patience.goes_on(ConnectionResetError())
    time.sleep(TIMEOUT)
    assert not patience.goes_on(ConnectionRefusedError())
