from __future__ import annotations

from typing import Any

import pytest

from grass.wire.job_views import WaitedView
from grass.wire.views import KeepAlive
from master.api.call import HEARTBEAT
from master.api.progress import INTERVAL, Progress
from master.api.views import job_view
from tests.unit.test_api_views import WAITS, record


@pytest.mark.parametrize("wanted", [True, False])
def test_whoever_waits_is_told_at_once_how_the_job_is(wanted: bool) -> None:
    piece = Progress(wanted).piece(record(), 100.0)
    assert piece is not None and piece == WaitedView(job_view(record()))


def test_who_does_not_watch_is_told_nothing_more_than_that_the_server_is_there() -> None:
    progress = Progress(False)
    progress.piece(record(), 100.0)
    assert progress.piece(record(state="RUNNING"), 100.5) is None
    assert progress.piece(record(state="RUNNING"), 100.0 + HEARTBEAT) == KeepAlive()
    assert progress.piece(record(state="RUNNING"), 100.1 + HEARTBEAT) is None


@pytest.mark.parametrize("change", [{"counts": {"RUNNING": 1}}, {"reason": WAITS}, {"restarts": 1}])
def test_counts_and_reasons_are_told_now_and_then(change: dict[str, Any]) -> None:
    progress = Progress(True)
    progress.piece(record(), 100.0)
    assert progress.piece(record(**change), 100.0 + INTERVAL / 2) is None
    assert progress.piece(record(**change), 100.0 + INTERVAL) is not None
    assert progress.piece(record(**change), 100.5) is None


def test_a_change_of_state_is_told_at_once_and_what_nobody_sees_never() -> None:
    progress = Progress(True)
    progress.piece(record(), 100.0)
    assert progress.piece(record(warnings=["w"]), 100.5) is None
    moved = progress.piece(record(state="RUNNING"), 101.0)
    assert moved is not None and moved == WaitedView(job_view(record(state="RUNNING")))
