"""A node that DLRover's network check names as at fault: the finding, the event, and when both are over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grass.cli.why import page
from grass.manifest import parse_job, read_document
from grass.model.framework import DLROVER_FAULT
from grass.model.notify import OnHang
from grass.store.finding_store import FindingStore
from grass.store.history_store import Sampled
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.wire.finding import Cause
from grass.wire.usage import NodeSample, OwnPoint, UsageSample
from master.api.why import why_view
from master.monitor import hangs
from master.monitor.dlrover_checks import DlroverChecks
from master.monitor.open_findings import OpenFindings
from tests.support.dlrover_pickles import library
from tests.support.world import World

NODE = NodeSample(cpu=0, memory=0, memory_total=1, disk_used=0, disk_total=1, network_sent=0, network_received=0)
JOB = """
name: train
components:
  NAME: {framework: dlrover, min: 2, max: 2, command: dlrover-run --network-check train.py, resources: {cpu: 1}}
"""
MASTER = "train-1/dlrover-master.0/1"


class Training:
    """A job of two tasks on a node each, and the part of the monitor that reads what its master reports."""

    def __init__(self, name: str = "worker", on_hang: OnHang = OnHang.NOTIFY) -> None:
        self.world = World()
        self.world.compares = False
        for index in range(3):
            self.world.add_node(f"n{index + 1}", cpu=1)
        self.job = replace(parse_job(read_document(JOB.replace("NAME", name))).job, on_hang=on_hang)
        self.world.submit(self.job)
        self.world.advance(5)
        self.component = name
        self.backend, self.keys = self.world.backend, self.world.keys
        self.records = Records(self.backend, self.keys)
        self.start_monitor()

    def start_monitor(self) -> None:
        findings = OpenFindings(FindingStore(self.backend, self.keys))
        self.checks = DlroverChecks(self.records, findings, Tickets(self.backend, self.keys))

    def node(self, index: int) -> str:
        return str(self.world.tasks("train-1")[f"{self.component}.{index}"]["node"])

    def says(self, rank: float, attempt: float, key: str = MASTER, name: str = DLROVER_FAULT) -> None:
        own = (OwnPoint(key, name, rank, attempt, self.world.wall),)
        self.checks.take([Sampled(self.world.wall, UsageSample(0.0, NODE, (), own))])
        self.checks.turn()
        self.world.run()

    def events(self) -> list[Any]:
        return [each for each in self.world.events() if each["kind"] == "node-checked"]


@pytest.mark.parametrize("name", ["worker", "trainer"])
def test_a_node_at_fault_is_an_event_and_the_answer_to_why(name: str) -> None:
    training = Training(name)
    training.says(rank=1, attempt=1)
    [finding] = training.records.findings("train-1")
    node = training.node(1)
    assert finding.what == f"The network check of DLRover names node {node} of {name}.1 as at fault."
    assert f"`grass node check {node} --level 1`" in finding.why and finding.cause is Cause.NODE_CHECK
    [event] = training.events()
    assert (event["message"], event["task"]) == (f"job train: {finding.text}", f"{name}.1")
    record = training.records.run("train-1")
    assert record is not None
    lines = page(why_view(record, training.job, (), (finding,)), None)
    assert finding.text in lines and "stacks" not in " ".join(lines)
    training.says(rank=1, attempt=0)
    assert training.records.findings("train-1") == ()


def test_a_node_at_fault_outlives_the_monitor_and_ends_with_the_next_check() -> None:
    training = Training()
    training.says(rank=0, attempt=1)
    training.start_monitor()
    training.says(rank=1, attempt=1)
    assert sorted(each.tasks for each in training.records.findings("train-1")) == [("worker.0",), ("worker.1",)]
    training.says(rank=0, attempt=0)
    assert [each.tasks for each in training.records.findings("train-1")] == [("worker.1",)]


def test_the_node_of_an_attempt_that_nobody_knows_is_not_guessed() -> None:
    training = Training()
    training.says(rank=1, attempt=7)
    [finding] = training.records.findings("train-1")
    assert "names the node of worker.1 as at fault" in finding.what and "not known any more" in finding.why


@pytest.mark.parametrize(
    ("key", "name"),
    [("train-1/worker.0/1", DLROVER_FAULT), (MASTER, "loss"), ("other-1/dlrover-master.0/1", DLROVER_FAULT)],
)
def test_only_the_master_of_the_job_names_a_node(key: str, name: str) -> None:
    training = Training()
    training.says(rank=1, attempt=1, key=key, name=name)
    assert training.records.findings("train-1") == () and training.events() == []


def test_it_is_no_event_where_findings_are_only_logged() -> None:
    training = Training(on_hang=OnHang.LOG)
    training.says(rank=1, attempt=1)
    assert training.events() == [] and len(training.records.findings("train-1")) == 1


def test_the_master_is_no_task_that_may_stand_still() -> None:
    known = hangs._known(Training().job)
    assert known is not None and list(known.groups) == ["worker"]


def test_both_sides_call_the_figure_the_same() -> None:
    assert library("state").FAULT == DLROVER_FAULT
