"""The usage sampler when a machine cannot be measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.wire.usage import UsageSample
from node.agent.own_figures import OwnFigures
from node.agent.usage_sampler import UsageSampler


def test_a_sample_that_fails_is_said_once_and_the_next_one_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[Exception | None] = [ValueError("a strange device"), ValueError("a strange device"), None]
    sent: list[UsageSample] = []

    def gpus() -> tuple[tuple[()], tuple[()]]:
        if problem := problems.pop(0):
            raise problem
        return (), ()

    sampler = UsageSampler(tmp_path, dict, gpus, sent.append, OwnFigures())
    for _ in range(4):
        sampler._turn()
    assert problems == [] and len(sent) == 1
    assert caplog.text.count("the usage of this node cannot be measured") == 1
