"""The usage sampler when a machine cannot be measured."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from grass.errors import UnreachableError
from grass.wire.usage import OwnParameters, UsageSample
from node.agent.gpu_usage import GpuReading
from node.agent.own_figures import OwnFigures
from node.agent.task_processes import Used, _sum, disk_bytes
from node.agent.usage_sampler import UsageSampler


def test_a_sample_that_fails_is_said_once_and_the_next_one_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[Exception | None] = [ValueError("a strange device"), ValueError("a strange device"), None]
    sent: list[UsageSample] = []

    def gpus() -> GpuReading:
        if problem := problems.pop(0):
            raise problem
        return GpuReading()

    sampler = UsageSampler(tmp_path, dict, gpus, sent.append, OwnFigures())
    for _ in range(4):
        sampler._turn()
    assert problems == [] and len(sent) == 1
    assert caplog.text.count("the usage of this node cannot be measured") == 1


def test_parameters_that_cannot_be_sent_are_sent_with_the_next_sample(tmp_path: Path) -> None:
    own, sent, away = OwnFigures(), [], [True, False]

    def send(sample: UsageSample) -> None:
        if away.pop(0):
            raise UnreachableError("redis is away")
        sent.append(sample)

    sampler = UsageSampler(tmp_path, dict, GpuReading, send, own)
    sampler._turn()
    own.found("j-1/w.0/1", 'GRASS_METRIC {"lr": 0.1}\n', 1.0)
    sampler._turn()
    sampler._turn()
    assert [sample.parameters for sample in sent] == [(OwnParameters("j-1/w.0/1", {"lr": "0.1"}),)]


def test_what_a_process_wrote_is_still_known_when_it_has_ended_but_nobody_has_waited_for_it(tmp_path: Path) -> None:
    system = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True)
    if system.stdout.strip() in ("tmpfs", "ramfs"):
        pytest.skip("files here are in memory, so nothing is written to a disk")
    command = f"dd if=/dev/zero of={tmp_path}/file bs=1M count=4 2>/dev/null; exit 0"
    with subprocess.Popen(["sh", "-c", command]) as process:  # dd is a child that the shell has waited for
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert disk_bytes([process.pid])[1] == pytest.approx(4 << 20, rel=0.01)  # and some bytes of the folder


def test_an_attempt_uses_what_its_parts_use_together() -> None:
    parts = [Used(1.0, 10, 2, 3, 100, 1000), Used(2.0, 20, 4, None, 200, 2000)]
    assert _sum(parts) == Used(3.0, 30, 6, 3, 300, 3000)
    assert _sum([Used(), Used()]) == Used()
