"""What follows when a job stands still: its record, its events, the answer to why, and, if allowed, a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import structs

from grass.cli.why import page
from grass.config import ClusterConfig
from grass.model.job import Component, Job
from grass.model.notify import DEFAULT_KINDS, Notify, OnHang
from grass.model.resources import Resources
from grass.store.finding_store import FindingStore
from grass.store.history_store import Sampled
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.wire.finding import FindingState
from grass.wire.node_record import NodeRecord
from grass.wire.notification import NOTIFICATION, Notification
from grass.wire.operation_record import OperationKind
from grass.wire.stacks import ProcessStack, TaskStacks, ThreadStack
from grass.wire.usage import NodeSample, OwnNotFinite, OwnPoint, TaskSample, UsageSample
from master.agent import step
from master.api.why import why_view
from master.detection.progress import Limits
from master.monitor.hangs import Hangs
from master.monitor.open_findings import OpenFindings
from tests.support.waiting import wait_until
from tests.support.world import World

NODE = NodeSample(cpu=0, memory=0, memory_total=1, disk_used=0, disk_total=1, network_sent=0, network_received=0)
EVERY = 25.0
LIMITS = Limits(window=100.0, patience=400.0, pauses=1.0, steps=1.0)


def notifications(training: Training) -> list[Notification]:
    texts = training.world.backend.hgetall(training.world.keys.notifications).values()
    return [NOTIFICATION.decode(text) for text in texts]


class Training:
    """A job of three tasks on a node, and the monitor's part that watches it. ``spins``: the task that is elsewhere."""

    def __init__(self, folder: Path, on_hang: OnHang = OnHang.NOTIFY, web: str | None = None) -> None:
        self.world = World(step.Limits(notify=Notify(command=("tell",), kinds=DEFAULT_KINDS)))
        self.world.compares = False
        self.world.add_node("n1", cpu=8)
        part = Component("w", "x", replicas=3, resources=Resources(1000), ports=("web",), web=web)
        self.job = Job("train", {"w": part}, ("w",), on_hang=on_hang)
        self.world.submit(self.job)
        self.asked: list[Mapping[str, Sequence[str]]] = []
        self.config = ClusterConfig("x", "test", str(folder), str(folder), share=str(folder / "share"))
        self.records = Records(self.world.backend, self.world.keys)
        self.hangs = self.monitor()
        self.number, self.steps = 1, 0

    def monitor(self) -> Hangs:
        backend, keys = self.world.backend, self.world.keys
        findings, tickets = OpenFindings(FindingStore(backend, keys)), Tickets(backend, keys)
        return Hangs(self.config, self.records, findings, tickets, LIMITS, self.stacks)

    def stacks(self, _: Mapping[str, NodeRecord], wanted: Mapping[str, Sequence[str]]) -> list[TaskStacks]:
        self.asked.append(wanted)
        found = []
        for index in range(3):
            frame = "spin (/a/train.py:9)" if index == 2 else "all_reduce (/a/train.py:4)"
            process = ProcessStack(
                index, "python3", "S" if index < 2 else "R", "", (), (ThreadStack((frame,), "", True),)
            )
            found.append(TaskStacks(f"w.{index}", self.number, "n1", (process,)))
        return found

    def run(self, seconds: float, steps: bool, diverged: bool = False) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.now += EVERY
            self.steps += steps
            keys = [f"train-1/w.{index}/{self.number}" for index in range(3)]
            own = (OwnPoint(keys[0], "loss", self.steps, 0.5, 0.0),) if steps else ()
            sample = UsageSample(0.0, NODE, tuple(TaskSample(key=key) for key in keys), own)
            if diverged:
                lost = OwnNotFinite(keys[0], "loss", self.steps, 1)
                sample = structs.replace(sample, own=(), not_finite=(lost,))
            self.hangs.take("n1", [Sampled(self.world.wall, sample)])
            self.hangs.turn({})
            if self.hangs._asked:
                wait_until(lambda: all(each.done() for each in self.hangs._asked.values()), 10)
                self.hangs.turn({})
            self.world.nodes["n1"].beat()
            self.world.run()

    def hang(self) -> None:
        self.run(100, steps=True)
        self.run(225, steps=False)

    def events(self) -> list[str]:
        return [f"{each['kind']}: {each['message']}" for each in self.world.events() if each["kind"].startswith("hang")]

    def restarts(self) -> int:
        return sum(each.kind is OperationKind.RESTART for each in self.records.operations("train-1"))


TEXT = (
    "w has made no progress since step 4 for 3m20s. Cause: straggler-code: w.2 (n1) runs in spin (a/train.py:9), while "
    "2 others wait in all_reduce (a/train.py:4)."
)


def test_a_hang_is_an_event_a_notification_and_the_answer_to_why(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.hang()
    suspected, confirmed = training.events()
    assert suspected.startswith("hang-suspected: job train: w has made no progress since step 4 for 1m40s. Cause: ")
    assert confirmed == f"hang: job train: {TEXT}"
    assert [each.event.kind for each in notifications(training)] == ["hang"]
    assert training.asked == [{"n1": [f"train-1/w.{index}/1" for index in range(3)]}] * 2
    [finding] = training.records.findings("train-1")
    assert (finding.state, finding.text) == (FindingState.CONFIRMED, TEXT)
    record = training.records.run("train-1")
    assert record is not None
    lines = page(why_view(record, training.job, (), (finding,)), None)
    assert lines[0] == "train is RUNNING" and lines[2] == TEXT
    assert lines[-1] == "  `grass job stacks train` shows where its processes are now"
    training.run(40, steps=True)
    assert training.events()[-1] == "hang-ended: job train: w goes on, or has other members"
    assert training.records.findings("train-1") == () and training.restarts() == 0


def test_a_run_that_only_reports_nan_makes_progress(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.run(100, steps=True)
    training.run(225, steps=True, diverged=True)
    assert training.events() == []


def test_what_is_only_to_be_logged_is_no_event(tmp_path: Path) -> None:
    training = Training(tmp_path, OnHang.LOG)
    training.hang()
    assert training.events() == []
    assert [finding.text for finding in training.records.findings("train-1")] == [TEXT]


def test_a_job_that_allows_it_is_restarted_twice_in_six_hours_and_then_left_to_its_user(tmp_path: Path) -> None:
    training = Training(tmp_path, OnHang.ACT)
    for number in (1, 2):
        training.hang()
        assert training.restarts() == number
        assert training.events()[-1].endswith(f"The job is restarted (restart {number} of at most 2 within 6 h).")
        [operation] = [each for each in training.records.operations("train-1") if each.number == number]
        assert (operation.author, operation.reason) == ("grass", "stands still: straggler-code")
        training.world.advance(5)
        training.number += 1
    training.hang()
    assert training.restarts() == 2
    assert training.events()[-1].endswith(
        "It was restarted 2 times within 6 h; it is left as it is: look at it, or stop it."
    )


def test_a_component_with_a_web_page_waits_for_its_users(tmp_path: Path) -> None:
    training = Training(tmp_path, web="web")
    training.hang()
    assert training.asked == []


def test_a_new_monitor_keeps_a_finding_until_the_job_goes_on(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.hang()
    training.hangs = training.monitor()
    training.run(100, steps=False)
    assert [finding.text for finding in training.records.findings("train-1")] == [TEXT]
    training.run(100, steps=True)
    assert training.records.findings("train-1") == ()


def test_findings_of_a_job_that_has_ended_are_removed(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.hang()
    training.world.ticket("stop", id="train-1")
    training.world.advance(5)
    for later in (0, 3600):
        training.hangs.take("n1", [Sampled(training.world.wall + later, UsageSample(0.0, NODE))])
        training.hangs.turn({})
    assert training.records.found() == {}
