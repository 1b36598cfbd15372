from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grass.system import clock
from grass.wire.desired import DesiredAttempt
from grass.wire.usage import UsageSample
from node.agent.this_machine import ThisMachine
from node.runtime.protocol import Observed
from tests.support.shepherd_run import cluster_config
from tests.support.waiting import wait_until

HERE, ELSEWHERE = "j-1/c.0/1", "j-1/c.1/1"


@pytest.fixture
def sent() -> list[UsageSample]:
    return []


@pytest.fixture
def machine(tmp_path: Path, sent: list[UsageSample]) -> Iterator[ThisMachine]:
    config = cluster_config(tmp_path)
    config.node_dir.mkdir()
    machine = ThisMachine(config, os.environ, (), lambda: None, list, sent.append)
    machine.start({HERE: DesiredAttempt(1), ELSEWHERE: DesiredAttempt(2)})
    yield machine
    machine.stop()


def test_what_a_machine_says_of_itself_with_every_heartbeat(machine: ThisMachine) -> None:
    usage = machine.usage()
    assert len(usage.cores) == psutil.cpu_count() and all(0 <= core <= 100 for core in usage.cores)
    assert 0 <= usage.cpu <= 100 and usage.load >= 0
    assert 0 < usage.memory < usage.memory_total and 0 < usage.disk_free < usage.disk_total
    assert usage.network.sent >= 0 and usage.network.received >= 0
    wait_until(lambda: machine.usage() != usage)


def test_an_attempt_without_a_process_here_does_not_keep_others_from_being_measured(
    machine: ThisMachine, sent: list[UsageSample]
) -> None:
    here = Observed(HERE, os.getpid(), clock.wall(), clock.steady(), False, None, None, None, None, None)
    machine.started(here._replace(key=ELSEWHERE, pid=None))
    machine.started(here)
    wait_until(lambda: bool(sent and sent[-1].tasks))
    assert [task.key for task in sent[-1].tasks] == [HERE] and sent[-1].tasks[0].memory > 1 << 20
