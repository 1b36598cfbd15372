"""What is kept of a pod's log beside its copy."""

from __future__ import annotations

from pathlib import Path

from node.runtime.kubernetes.logs import PodLog


def test_a_log_that_is_complete_is_so_for_the_next_agent(tmp_path: Path) -> None:
    file = str(tmp_path / "j" / "c.0.stdout")
    first = PodLog("j/c.0/1", "/log", file)
    first.restore()
    assert not first.complete
    first.end()
    second = PodLog("j/c.0/1", "/log", file)
    second.restore()
    assert second.complete
