from __future__ import annotations

import os
from pathlib import Path

import psutil

from node.agent.this_machine import ThisMachine
from tests.support.shepherd_run import cluster_config
from tests.support.waiting import wait_until


def test_what_a_machine_says_of_itself_with_every_heartbeat(tmp_path: Path) -> None:
    config = cluster_config(tmp_path)
    config.node_dir.mkdir()
    machine = ThisMachine(config, os.environ, (), lambda: None, list, lambda sample: None)
    machine.start({})
    try:
        usage = machine.usage()
        assert len(usage.cores) == psutil.cpu_count() and all(0 <= core <= 100 for core in usage.cores)
        assert 0 <= usage.cpu <= 100 and usage.load >= 0
        assert 0 < usage.memory < usage.memory_total and 0 < usage.disk_free < usage.disk_total
        assert usage.network.sent >= 0 and usage.network.received >= 0
        wait_until(lambda: machine.usage() != usage)
    finally:
        machine.stop()
