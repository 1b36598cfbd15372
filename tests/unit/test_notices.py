"""Notices: what a job file may say, who gets one, and how long an attempt is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import grass
from grass.errors import ManifestError
from grass.manifest import parse_job, read_document
from grass.manifest.native_writer import component_document
from grass.model.job import Component, Notice, NoticeSignal
from grass.model.namespace import refused
from grass.node_config import NodeConfig, NodeHome
from grass.system import clock
from grass.wire.keys import AttemptKey
from grass.wire.task_notice import TASK_NOTICE
from node.agent.notices import Notices
from node.membership.paths import events_file
from node.runtime.protocol import Stop
from node.runtime.timers import Timers

KEY = "j-1/w.0/1"


def component_of(text: str) -> Component:
    return parse_job(read_document(f"{{name: a, components: {{x: {{command: c, {text}}}}}}}")).job.components["x"]


def test_a_notice_has_a_time_and_perhaps_a_signal_and_a_command_and_is_written_as_it_is_read() -> None:
    assert component_of("notice: {}").notice == Notice(60.0)
    made = component_of("notice: {for: 2m, signal: USR1, command: [./save, now]}")
    assert made.notice == Notice(120.0, NoticeSignal.USR1, ("./save", "now"))
    assert component_document(made)["notice"] == {"for": "2m", "signal": "USR1", "command": ["./save", "now"]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("notice: {signal: KILL}", "components.x.notice.signal: must be one of HUP, INT, TERM, USR1, USR2"),
        ("notice: {for: 2d}", "components.x.notice.for: must be at most 24h"),
        ("notice: {framework: torch}", "components.x.notice.framework: unknown"),
        ("notice: {}, framework: torchrun", "components.x.notice: cannot be combined with torchrun"),
        ("notice: {}, framework: {name: horovod}", "components.x.notice: cannot be combined with horovod"),
    ],
)
def test_what_a_notice_cannot_be_is_said_with_its_path(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        component_of(text)
    assert any(str(each).startswith(problem) for each in caught.value.problems), caught.value.problems


def test_pods_are_told_by_a_command_only() -> None:
    pod = "runtime: kubernetes, image: i"
    assert refused(component_of(f"{pod}, notice: {{command: c}}"), share=False) == ""
    assert "by a command only" in refused(component_of(f"{pod}, notice: {{}}"), share=False)
    assert "gets no signal" in refused(component_of(f"{pod}, notice: {{command: c, signal: INT}}"), share=False)


class Told:
    """Notices of one node, whose stops are collected."""

    def __init__(self, folder: Path) -> None:
        self.config = NodeHome("lab", "local", str(folder), str(folder), node=NodeConfig("n1"))
        self.timers = Timers()
        self.stopped: list[tuple[str, float]] = []
        self.notices = Notices(self.config, self.timers, self._stop, lambda _: None)

    def _stop(self, stop: Stop) -> None:
        self.stopped.append((stop.key, stop.grace))

    def give(self, seconds: float = 30.0) -> None:
        self.notices.give(Stop(KEY, 7.0), "the node is drained", Notice(seconds), 1)


def test_an_attempt_reads_its_notice_and_is_stopped_with_its_grace_once_it_says_that_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(tmp_path)
    monkeypatch.setenv("GRASS_EVENTS", events_file(told.config, AttemptKey.parse(KEY)))
    assert grass.notice() is None
    told.give()
    found = grass.notice()
    assert found is not None and found.reason == "the node is drained" and 25 < found.seconds <= 30
    assert told.stopped == []
    told.notices.finish(KEY)
    told.notices.finish(KEY)
    assert told.stopped == [(KEY, 7.0)]


def test_an_attempt_that_says_nothing_is_stopped_at_the_deadline_and_one_that_ended_is_not(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.give()
    told.timers.run(clock.steady() + 29)
    assert told.stopped == []
    told.timers.run(clock.steady() + 31)
    assert told.stopped == [(KEY, 7.0)]
    told.give()
    told.notices.drop(KEY)
    told.timers.run(clock.steady() + 100)
    assert len(told.stopped) == 1


@pytest.mark.parametrize("content", [b"", b'{"event":"lea', b"\xff\xfe", b"[]\n"])
def test_a_file_of_notices_that_a_task_has_overwritten_does_not_end_the_agent(tmp_path: Path, content: bytes) -> None:
    told = Told(tmp_path)
    path = Path(events_file(told.config, AttemptKey.parse(KEY)))
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    told.give()
    assert TASK_NOTICE.decode(path.read_text()).reason == "the node is drained"
    told.notices.finish(KEY)
    assert told.stopped == [(KEY, 7.0)]


def test_a_restarted_agent_gives_no_more_time_and_no_second_notice(tmp_path: Path) -> None:
    first = Told(tmp_path)
    first.give(seconds=5.0)
    again = Told(tmp_path)
    again.give(seconds=30.0)
    again.timers.run(clock.steady() + 6)
    assert again.stopped == [(KEY, 7.0)]
    assert Path(events_file(first.config, AttemptKey.parse(KEY))).read_text().count("\n") == 1
