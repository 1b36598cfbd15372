"""Figures of tasks in containers, and what rules find by them: a slow member, and a training that stands still.

The rules are those of the monitor over the store of a real cluster, with windows of seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from grass.api.client import Client
from grass.config import Secrets
from grass.manifest.local_settings import LocalSettings
from grass.model.lifecycle import TaskState
from grass.store.connect import open_backend
from grass.store.finding_store import FindingStore
from grass.store.history_store import HistoryStore
from grass.store.keys import Keys
from grass.store.previews import Previews
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.wire.finding import Cause, Finding, FindingState
from master.detection import progress, slow_members
from master.monitor.hangs import Hangs
from master.monitor.open_findings import OpenFindings
from master.monitor.slow_members import SlowTasks
from tests.support import python_image
from tests.support.engine import cluster_name, remove_containers
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(240),
]  # test_hangs.py and test_slow_members.py, without containers

PROGRAM = """
import os, socket, time

def all_reduce():
    here, there = socket.socketpair()
    here.recv(1)

def augment():
    while True:
        pass

own = 0.3 if os.environ["GRASS_INDEX"] == "2" else 0.1
for step in range(60):
    time.sleep(0.25)
    print(f"GRASS_METRIC step_time={own} loss={1 / (step + 1)} step={step}", flush=True)
augment() if own == 0.3 else all_reduce()
"""


class Rules:
    """The rules of the monitor, over the usage streams of the cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        config = cluster.config
        self.backend, keys = open_backend(config, Secrets.load(config.home), "agent"), Keys(config.key_prefix)
        self.records, self.history = Records(self.backend, keys), HistoryStore(self.backend, keys)
        findings, tickets = OpenFindings(FindingStore(self.backend, keys)), Tickets(self.backend, keys)
        limits = progress.Limits(window=4.0, pauses=1.0, patience=20.0)
        self.hangs = Hangs(config, self.records, findings, tickets, limits)
        slow = slow_members.Limits(window=4.0)
        self.slow = SlowTasks(self.records, findings, tickets, Previews(self.backend, keys), slow)
        self.at = {keys.node_usage("local"): "0-0"}

    def turn(self) -> None:
        for stream, samples in self.history.samples(self.at).items():
            if samples:
                self.at[stream] = samples[-1][0]
                taken = [sampled for _, sampled in samples]
                self.hangs.take("local", taken)
                self.slow.take("local", taken)
        self.hangs.turn({node.name: node for node in self.records.nodes()})
        self.slow.turn()

    def close(self) -> None:
        self.hangs.close()
        self.backend.close()


@contextmanager
def with_containers() -> Iterator[LocalCluster]:
    python_image.provide_image()
    made = LocalCluster(LocalSettings(name=cluster_name(), runtimes=("process", "docker")))
    try:
        made.create()
        yield made
    finally:
        made.end()
        remove_containers(made.settings.name)


def test_containers_report_figures_and_their_slow_and_hanging_tasks_are_found() -> None:
    command = ["python3", "-c", PROGRAM]
    part = {"image": python_image.IMAGE, "command": command, "replicas": 3, "resources": {"cpu": 0.3}}
    with with_containers() as cluster, cluster.client() as client:
        rules = Rules(cluster)
        try:
            client.start({"name": "train", "components": {"w": part}})
            wait_until(lambda: all(each.state is TaskState.RUNNING for each in client.tasks("train")), 60, "the tasks")
            slow = found(rules, client, Cause.SLOW_MEMBER, 60)
            assert slow.tasks == ("w.2",) and "3.0 times the median of w (0.1 s)" in slow.what
            hang = found(rules, client, Cause.STRAGGLER_CODE, 90)
            assert hang.tasks == ("w.2",) and "augment" in hang.text and "all_reduce" in hang.text
            curves = client.job_metrics("train").curves
            assert {(each.task, each.name) for each in curves} == {
                (f"w.{index}", name) for index in range(3) for name in ("loss", "step_time")
            }
        finally:
            rules.close()


def found(rules: Rules, client: Client, cause: Cause, seconds: float) -> Finding:
    """Take turns until the answer to why names such a cause for certain."""

    def holds() -> Finding | None:
        rules.turn()
        confirmed = [each for each in client.why("train").findings if each.state is FindingState.CONFIRMED]
        return next((each for each in confirmed if each.cause is cause), None)

    wait_until(lambda: holds() is not None, seconds, f"the finding {cause.value}", 0.5)
    finding = holds()
    assert finding is not None
    return finding
