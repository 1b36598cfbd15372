"""The log of refused requests is bounded."""

from __future__ import annotations

import pytest

from grass.serving.refusals import LINES, SECONDS, RefusalLog


def test_many_refusals_are_a_few_lines_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    refusals = RefusalLog(lambda: now)
    for _ in range(1000):
        refusals.write("10.0.0.1", "400 Bad Request")
    assert len(caplog.records) == LINES
    now = SECONDS
    refusals.write("10.0.0.1", "400 Bad Request")
    assert "990 further requests" in caplog.text
    assert len(caplog.records) == LINES + 2
