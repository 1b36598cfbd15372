from __future__ import annotations

from pathlib import Path

import psutil

from node.agent.usage import Usage


def test_what_a_machine_says_of_itself_with_every_heartbeat(tmp_path: Path) -> None:
    usage = Usage(tmp_path).sample()
    assert len(usage.cores) == psutil.cpu_count() and all(0 <= core <= 100 for core in usage.cores)
    assert 0 <= usage.cpu <= 100 and usage.load >= 0
    assert 0 < usage.memory < usage.memory_total and 0 < usage.disk_free < usage.disk_total
    assert usage.network.sent >= 0 and usage.network.received >= 0
