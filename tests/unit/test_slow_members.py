"""Members that are slower than the others of their component: who counts as slow, what is said, and who is replaced."""

from __future__ import annotations

from typing import Any

import pytest

from grass.cli.why import page
from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.native_writer import component_document
from grass.model.job import Component, Job, Replace
from grass.model.notify import OnHang
from grass.model.resources import Resources
from grass.store.finding_store import FindingStore
from grass.store.history_store import Sampled
from grass.store.previews import Previews
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.wire.operation_record import OperationKind
from grass.wire.usage import NodeSample, OwnPoint, UsageSample
from master.api.why import why_view
from master.detection.slow_members import STEP_TIME, Limits, Member, SlowMembers, Verdict
from master.monitor.open_findings import OpenFindings
from master.monitor.slow_members import SlowTasks
from tests.support.world import World

NODE = NodeSample(cpu=0, memory=0, memory_total=1, disk_used=0, disk_total=1, network_sent=0, network_received=0)
LIMITS = Limits(window=100.0)


class Rules:
    """The rules, fed with steps that take members so many seconds."""

    def __init__(self) -> None:
        self.rules, self.now = SlowMembers(LIMITS), 0.0

    def window(self, *seconds: float, name: str = "loss", value: float = 0.5, number: int = 1) -> list[Verdict]:
        for index, each in enumerate(seconds):
            member = Member("j-1", "w", f"w.{index}", number)
            at, step = self.now, 0
            while at < self.now + LIMITS.window:
                self.rules.feed(member, name, step, each if name == STEP_TIME else value, at, at)
                at, step = at + (1.0 if name == STEP_TIME else each), step + 1
        self.now += LIMITS.window + 1
        return list(self.rules.judged(self.now))


def named(verdicts: list[Verdict]) -> list[tuple[list[str], list[str]]]:
    return [([each.member.task for each in found.slow], [each.task for each in found.ended]) for found in verdicts]


def test_a_member_is_slow_once_it_was_slow_in_two_windows_and_until_it_is_not() -> None:
    rules = Rules()
    assert named(rules.window(1, 1, 1.8, 1)) == [([], [])]
    [verdict] = rules.window(1, 1, 1.8, 1)
    assert [each.member.task for each in verdict.slow] == ["w.2"]
    assert (round(verdict.slow[0].factor, 1), verdict.slow[0].median) == (1.8, 1.0)
    assert named(rules.window(1, 1, 1.8, 1)) == [([], [])], "it was said already"
    assert named(rules.window(1, 1, 1.2, 1)) == [([], ["w.2"])]


@pytest.mark.parametrize("seconds", [(1, 1, 1.4), (1, 3), (1, 1, 60), (2, 2, 2, 2)])
def test_nobody_is_slow_within_the_limit_or_among_two_or_with_too_few_steps(seconds: tuple[float, ...]) -> None:
    rules = Rules()
    assert [named(rules.window(*seconds)) for _ in range(3)] == [[([], [])]] * 3


def test_one_slow_window_after_another_member_s_accuses_nobody() -> None:
    rules = Rules()
    rules.window(1, 1, 2)
    assert named(rules.window(1, 2, 1)) == [([], [])]
    assert named(rules.window(1, 1, 2, number=2)) == [([], [])], "another attempt begins anew"


def test_members_that_wait_for_one_another_are_told_apart_by_their_own_time_of_a_step() -> None:
    rules = Rules()
    rules.window(0.2, 0.2, 0.4, name=STEP_TIME)
    [verdict] = rules.window(0.2, 0.2, 0.4, name=STEP_TIME)
    assert [(each.member.task, round(each.factor, 1)) for each in verdict.slow] == [("w.2", 2.0)]


def test_a_component_that_reports_nothing_any_longer_is_forgotten() -> None:
    rules = Rules()
    rules.window(1, 1, 2)
    rules.window(1, 1, 2)
    assert named(rules.window()) == [([], ["w.2"])]
    assert rules.window() == []


class Training:
    """A job of four tasks on a node each, of which the last is slow, and the part of the monitor that watches it."""

    def __init__(self, *, replace: Replace | None = None, spare: bool = True, **job: Any) -> None:
        self.world = World()
        self.world.compares = False
        for index in range(4 + spare):
            self.world.add_node(f"n{index + 1}", cpu=1)
        part = Component("w", "x", replicas=4, resources=Resources(1000), replace=replace)
        self.job = Job("train", {"w": part}, ("w",), **job)
        self.world.submit(self.job)
        backend, keys = self.world.backend, self.world.keys
        self.records = Records(backend, keys)
        self.slow = SlowTasks(
            self.records,
            OpenFindings(FindingStore(backend, keys)),
            Tickets(backend, keys),
            Previews(backend, keys),
            LIMITS,
            lambda: self.world.now,
        )
        self.since = self.world.wall

    def node(self, task: str) -> str:
        tasks = self.world.tasks("train-1")
        return str(tasks[task]["node"])

    def run(self, seconds: float, slow: str = "w.3", number: int = 1) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.now += 10
            for index in range(4):
                task = f"w.{index}"
                attempt = number if task == slow else 1
                step = (self.world.wall - self.since) / (2 if task == slow else 1)
                own = (OwnPoint(f"train-1/{task}/{attempt}", "loss", step, 0.5, self.world.wall),)
                self.slow.take(self.node(task), [Sampled(self.world.wall, UsageSample(0.0, NODE, (), own))])
            self.slow.turn()
            for node in self.world.nodes.values():
                node.beat()
            self.world.run()

    def replaced(self) -> list[str]:
        found = [each for each in self.records.operations("train-1") if each.kind is OperationKind.REPLACE]
        return [f"{each.named[0]} by {each.author}: {each.reason}" for each in found]

    def events(self) -> list[str]:
        return [each["message"] for each in self.world.events() if each["kind"] == "task-slow"]


def test_a_slow_member_is_an_event_and_the_answer_to_why() -> None:
    training = Training()
    training.run(230)
    [finding] = training.records.findings("train-1")
    measured = "2 s for a step, 2.0 times the median of w (1 s), in two windows of 1m40s."
    assert finding.what == f"w.3 on {training.node('w.3')} needs {measured}"
    assert training.events() == [f"job train: {finding.text}"] and training.replaced() == []
    record = training.records.run("train-1")
    assert record is not None
    lines = page(why_view(record, training.job, (), (finding,)), None)
    assert lines[2] == finding.text and "stacks" not in " ".join(lines)
    training.run(230, slow="none")
    assert training.records.findings("train-1") == ()


def test_the_node_of_a_slow_member_counts_as_slow_until_its_steps_are_as_fast_as_the_others() -> None:
    training = Training()
    slow = training.node("w.3")

    def speed(name: str) -> float:
        record = training.records.node(name)
        assert record is not None
        return 1.0 if record.speed is None else record.speed.value

    training.run(110)
    assert (speed(slow), speed(training.node("w.0")), speed("n5")) == (0.5, 1.0, 1.0)
    training.run(400, slow="w.2")
    assert speed(slow) > 0.9 and speed(training.node("w.2")) < 0.6


def test_a_slow_member_is_no_event_where_findings_are_only_logged() -> None:
    training = Training(on_hang=OnHang.LOG)
    training.run(230)
    assert training.events() == [] and len(training.records.findings("train-1")) == 1


def test_a_slow_member_starts_again_on_a_node_that_is_free() -> None:
    training = Training(replace=Replace.SLOW)
    before = training.node("w.3")
    training.run(250)
    [operation] = training.replaced()
    assert operation.startswith(f"w.3 by grass: slow: w.3 on {before} needs 2 s for a step")
    [finding] = training.records.findings("train-1")
    assert finding.action == "It is replaced."
    training.world.advance(5)
    assert training.node("w.3") != before and "train-1/w.3/2" in training.world.running()


def test_a_slow_member_stays_where_no_other_node_could_run_it() -> None:
    training = Training(replace=Replace.SLOW, spare=False)
    training.run(250)
    assert training.replaced() == []
    [finding] = training.records.findings("train-1")
    assert finding.action == "No other node could run it now, so it is left where it is."


def test_at_most_two_tasks_of_a_component_are_replaced_within_six_hours() -> None:
    training = Training(replace=Replace.SLOW)
    for number in (1, 2, 3):
        training.run(250, number=number)
        training.world.advance(5)
    assert len(training.replaced()) == 2
    assert training.events()[-1].endswith("2 tasks of w were replaced within 6 h; it is left as it is.")


def component_of(text: str) -> Component:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job.components["x"]


def test_the_key_is_read_and_written_and_refused_for_tasks_with_different_work() -> None:
    made = component_of("replicas: 4, replace: slow")
    assert made.replace is Replace.SLOW and component_document(made)["replace"] == "slow"
    with pytest.raises(ManifestError) as caught:
        component_of("matrix: {a: [1, 2]}, replace: slow")
    assert "components.x.replace: cannot be combined with `matrix`" in str(caught.value.problems[0])
    with pytest.raises(ManifestError):
        component_of("replace: fast")
