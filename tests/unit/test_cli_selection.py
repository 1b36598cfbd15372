"""Which jobs, or parts of a job, the words of a command mean."""

from __future__ import annotations

import pytest

from grass.cli.selection import is_part

COMPONENTS = {"worker": {"replicas": 2}, "web-1": {"replicas": 1}}


@pytest.mark.parametrize("word", ["worker", "worker.0", "worker.7", "web-1.0"])
def test_a_component_and_its_tasks_are_parts(word: str) -> None:
    assert is_part(COMPONENTS, word)


@pytest.mark.parametrize("word", ["train", "worker.", "worker.x", "worker.-1", "worker.٣", ""])
def test_everything_else_is_a_job(word: str) -> None:
    assert not is_part(COMPONENTS, word)
