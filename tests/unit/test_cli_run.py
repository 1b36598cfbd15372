"""`grass run`: the job it makes, the code it ends with, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from grass.cli.run import Interrupts, document_of, exit_of
from grass.manifest import parse_job


def ended(state: str, *, code: int | None = None, killed_by: int | None = None) -> int:
    task: dict[str, Any] = {"exit_code": code, "signal": killed_by}
    return exit_of({"state": state}, [task])


def test_the_command_becomes_a_job_that_the_manifest_accepts() -> None:
    resources = {"cpu": 0.5, "memory": 512 << 20, "gpu": None}
    job = parse_job(document_of("try", ["python", "-c", "print(1)"], resources)).job
    component = job.components["main"]
    assert component.command == ("python", "-c", "print(1)")
    assert (component.resources.cpu, component.resources.memory, component.resources.gpu) == (500, 512 << 20, 0)


def test_the_exit_code_is_the_commands() -> None:
    assert ended("SUCCEEDED", code=0) == 0
    assert ended("FAILED", code=3) == 3
    assert ended("FAILED", killed_by=9) == 137


@pytest.mark.parametrize("state", ["FAILED", "STOPPED"])
def test_a_job_that_did_not_succeed_never_exits_with_0(state: str) -> None:
    assert ended(state, code=0) == 1
    assert ended(state) == 1
    assert exit_of({"state": state}, []) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_calls_and_the_second_raises(number: signal.Signals) -> None:
    called = threading.Event()
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN), signal.getsignal(signal.SIGINT)
    try:
        with Interrupts(called.set):
            os.kill(os.getpid(), number)
            assert called.wait(5)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == (signal.SIG_IGN, before[1])
    finally:
        signal.signal(signal.SIGTERM, before[0])
