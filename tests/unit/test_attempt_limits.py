"""An attempt that ran too long, or was not ready in time, is stopped with the grace of its component."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.model.job import DEFAULT_GRACE, Ready
from grass.model.reasons import Reason, ReasonCode
from node.agent.attempts import FOLLOW_AFTER, Attempts
from node.agent.folders import Removal
from node.agent.readiness import Readiness
from node.agent.shipper import Shipper
from node.runtime.protocol import Observed, Stop
from node.runtime.timers import Timers
from tests.support.shepherd_run import cluster_config
from tests.support.templates import template

KEY = "j-1/w.0/1"
RUNNING = Observed(KEY, 1, 1.0, 100.0, False, None, None, None, None, None)
LIMIT = FOLLOW_AFTER / 2
LONG = Reason(ReasonCode.TIMEOUT, f"ran longer than its limit of {LIMIT:g} s")


@pytest.fixture
def timers() -> Timers:
    return Timers()


@pytest.fixture
def stopped() -> list[Stop]:
    return []


@pytest.fixture
def attempts(tmp_path: Path, timers: Timers, stopped: list[Stop]) -> Attempts:
    config = cluster_config(tmp_path, tmp_path / "share")
    readiness = Readiness(lambda *_: None)
    return Attempts(config, Shipper(config), readiness, timers, Removal(config), stopped.append, lambda *_: None, {})


def test_an_attempt_is_stopped_at_its_limit(attempts: Attempts, timers: Timers, stopped: list[Stop]) -> None:
    assert attempts.started(RUNNING, None, template(timeout=LIMIT, grace=3.0))
    assert not attempts.started(RUNNING, None, template(timeout=LIMIT)), "it is known to run"
    timers.run(100.0 + LIMIT / 2)
    assert stopped == []
    timers.run(100.0 + LIMIT)
    assert stopped == [Stop(KEY, 3.0, LONG)]


def test_an_attempt_whose_template_is_gone_has_the_usual_grace(
    attempts: Attempts, timers: Timers, stopped: list[Stop]
) -> None:
    attempts.started(RUNNING, None, template(timeout=LIMIT, grace=3.0))
    attempts.relisted()
    attempts.started(RUNNING, None, None)
    timers.run(100.0 + LIMIT)
    assert stopped == [Stop(KEY, DEFAULT_GRACE, LONG)]


def test_an_attempt_that_ended_before_its_limit_is_left_alone(
    attempts: Attempts, timers: Timers, stopped: list[Stop]
) -> None:
    attempts.started(RUNNING, None, template(timeout=LIMIT))
    attempts.end_streams(RUNNING)
    timers.run(100.0 + LIMIT)
    assert stopped == [] and not attempts.runs(KEY) and attempts.pid(KEY) is None


def test_an_attempt_that_is_not_ready_in_time_is_stopped_with_what_its_check_said(
    attempts: Attempts, stopped: list[Stop]
) -> None:
    attempts.started(RUNNING, None, template(ready=Ready(port="http", timeout=5.0), grace=3.0))
    attempts.not_ready(KEY, "nothing listens")
    assert stopped == [Stop(KEY, 3.0, Reason(ReasonCode.TIMEOUT, "not ready after 5 s: nothing listens"))]
    attempts.not_ready("j-1/w.9/1", "nothing listens")
    assert len(stopped) == 1
