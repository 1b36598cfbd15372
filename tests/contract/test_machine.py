"""What the node-agent's loop expects of a machine: the same tests against this machine and the simulated one."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grass.model.reasons import Reason, ReasonCode
from grass.system import clock
from grass.wire.desired import DesiredAttempt
from node.agent.machine import Machine
from node.agent.this_machine import ThisMachine
from node.runtime.protocol import Observed, Spent
from tests.support.shepherd_run import cluster_config
from tests.support.simulated_machine import SimulatedMachine
from tests.support.waiting import wait_until

ONE, TWO = "j-1/c.0/1", "j-1/c.1/1"
RUNS = Observed(ONE, os.getpid(), clock.wall(), clock.steady(), False, None, None, None, None, None)
ENDED = RUNS._replace(ended=clock.wall(), code=0, spent=Spent(1.0, 1000, 0, 0))
FULL = Reason(ReasonCode.DISK, "the disk is full")


class Subject:
    """A machine with one desired attempt. ``spoil``: bring it into a condition in which nothing may start."""

    def __init__(self, folder: Path, used: int) -> None:
        self.changed = threading.Event()
        self.folder = folder
        self.desired = {ONE: DesiredAttempt(1, gpus=((0, 1000),))}
        self.machine = self._made(used)
        self.machine.start(self.desired)

    def _made(self, used: int) -> Machine:
        self.machine = SimulatedMachine(self.changed.set, [used])
        return self.machine

    def spoil(self) -> None:
        assert isinstance(self.machine, SimulatedMachine)
        self.machine.turn(FULL)


class ThisSubject(Subject):
    def _made(self, used: int) -> Machine:
        config = cluster_config(self.folder, self.folder / "share")
        (self.folder / "node").mkdir()
        (self.folder / "share").mkdir()
        path = {"PATH": os.environ["PATH"]}
        node = replace(config.node, runtimes=("process",))
        return ThisMachine(replace(config, node=node), path, (), self.changed.set, list, lambda sample: None)

    def spoil(self) -> None:
        (self.folder / "share").rmdir()


@pytest.fixture(params=[ThisSubject, Subject])
def subject(request: pytest.FixtureRequest, tmp_path: Path, used: int) -> Iterator[Subject]:
    made = request.param(tmp_path, used)
    yield made
    made.machine.stop()


@pytest.fixture
def used() -> Iterator[int]:
    """A port of another program."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_it_says_what_it_has_and_what_is_used(subject: Subject) -> None:
    offer, usage = subject.machine.offer(), subject.machine.usage()
    assert offer.resources.cpu > 0 and offer.labels and offer.versions
    assert 0 <= usage.cpu <= 100
    wait_until(lambda: subject.machine.programs() is not None)


def test_it_wakes_the_loop_when_its_conditions_change(subject: Subject) -> None:
    assert subject.machine.conditions() == ()
    subject.spoil()
    assert subject.changed.wait(15)
    wait_until(lambda: bool(subject.machine.conditions()))


def test_only_a_port_of_another_program_is_taken(subject: Subject, used: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = other.getsockname()[1]
    assert subject.machine.taken({}) is subject.machine.taken({"a": free}) is None
    assert subject.machine.taken({"a": free, "b": used}) == used


def test_what_a_desired_attempt_used_is_said_at_its_end_and_said_again(subject: Subject) -> None:
    machine = subject.machine
    machine.started(RUNS)
    machine.started(RUNS)
    totals = machine.totals_at_end(ENDED)
    assert totals is not None and totals.cpu == 1.0
    machine.listed([ONE])
    assert machine.totals_at_end(ENDED) == totals
    machine.forget([ONE])


def test_it_says_nothing_of_attempts_that_are_not_desired(subject: Subject) -> None:
    subject.machine.started(RUNS._replace(key=TWO))
    assert subject.machine.totals_at_end(ENDED._replace(key=TWO)) is None
    subject.machine.started(RUNS)
    del subject.desired[ONE]
    assert subject.machine.totals_at_end(ENDED) is None


def test_an_attempt_without_a_process_here_is_one_like_the_others(subject: Subject) -> None:
    machine, elsewhere = subject.machine, RUNS._replace(pid=None)
    machine.started(elsewhere)
    machine.stopping(ONE, 0.0)
    assert machine.cannot_end() == {} and machine.conditions() == ()
    assert machine.software(elsewhere)["grass"]
    assert machine.totals_at_end(ENDED._replace(pid=None)) is not None
    assert machine.loss(clock.steady(), clock.steady()) is None


def test_tasks_inherit_its_environment_and_see_so_many_gpus(subject: Subject) -> None:
    assert "PATH" in subject.machine.environment and subject.machine.visible_gpus == 0
