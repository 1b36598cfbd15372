"""The types of ``grass.wire``: every message comes back as it was sent, and what is wrong is refused with its path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grass.api.cluster_version import ClusterVersion
from grass.errors import UndecodableError
from grass.model.job import Component, Condition, Container, GpuNeed, Job, Mount, Ready
from grass.model.lifecycle import JobState, NodeState, TaskState
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.model.schedule import Schedule, ScheduleKind
from grass.wire import codec, node_api, tables, version
from grass.wire.calls import ExecInput, ExecSize, ForwardInput
from grass.wire.channel_views import Accepted, ExecOutput, ForwardOutput
from grass.wire.desired import DesiredAttempt, DesiredChange
from grass.wire.envelope import undecodable
from grass.wire.hello import Hello, Probe, ProbeCheck
from grass.wire.job_record import JOB_RECORD, Outcome, first_record
from grass.wire.keys import AttemptKey, LaunchKey, TaskKey
from grass.wire.log_block import LOG_BLOCK, LogBlock
from grass.wire.membership_api import REFUSAL, Refusal, RefusedRequest
from grass.wire.moment import Moment
from grass.wire.node_api import (
    FoundPrograms,
    ImagePrograms,
    NodeStatus,
    Opened,
    OpenExec,
    OpenForward,
    OpenTaskExec,
    TaskSignal,
)
from grass.wire.node_record import NODE_RECORD, DrainRecord, NodeRecord
from grass.wire.reports import REPORT
from grass.wire.schedule_record import SCHEDULE_RECORD, ScheduleRecord, ScheduleState
from grass.wire.specification import SPECIFICATION
from grass.wire.task_events import Ended, Started, TaskEvents, Waiting
from grass.wire.task_events import Ready as ReadyEvent
from grass.wire.task_record import TASK_RECORD, TaskRecord
from grass.wire.tickets import TICKET, DrainNode, JoinNode, PlanJob, StartJob, StopJob
from tests.support.templates import template

REASON = Reason(ReasonCode.SIGNAL, "ended by signal SIGKILL", {"signal": 9})
JOB_SPEC = Job(
    "j",
    {
        "a": Component("a", "echo", ready=Ready(port="p"), ports=("p",)),
        "b": Component(
            "b",
            ("x", "y"),
            resources=Resources(1, 2, 3, 4, (("licence", 5),)),
            depends_on={"a": Condition.READY},
            gpu=GpuNeed("a100", 1),
            where={"os": ("linux",)},
            matrix={"lr": ("1", "2")},
            container=Container(mounts=(Mount("/a", "/b", True),)),
        ),
    },
    ("a",),
)
RECORD = first_record(JOB_SPEC, job_id="j-1", user="ann", now=1.5, warnings=("w",), reason=REASON)
HELLO = Hello(
    protocol=version.PROTOCOL,
    version="1",
    boot_id="b",
    address="10.0.0.1",
    api_port=1,
    resources=Resources(1000, custom=(("licence", 2),)),
    probe=Probe(False, (ProbeCheck("share", False, "gone"),)),
    conditions=(REASON,),
    versions={"kernel": "6.1", "docker": "20.10.24"},
)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (SPECIFICATION, JOB_SPEC),
        (JOB_RECORD, RECORD),
        (
            JOB_RECORD,
            msgspec.structs.replace(
                RECORD,
                state=JobState.STOPPING,
                outcome=Outcome(JobState.FAILED, REASON, 1),
                deadline=Moment(1.0, "b"),
                counts={TaskState.RUNNING: 2},
            ),
        ),
        (
            TASK_RECORD,
            TaskRecord(TaskState.RUNNING, 1, "n", reason=REASON, gpus=((0, 500),), not_before=Moment(1, "b")),
        ),
        (
            NODE_RECORD,
            NodeRecord(
                name="n", state=NodeState.READY, forgiven={0: 2}, drain=DrainRecord("ann", Moment(2, "b"), True)
            ),
        ),
        (
            SCHEDULE_RECORD,
            ScheduleRecord(
                name="s",
                state=ScheduleState.ACTIVE,
                kind=ScheduleKind.CRON,
                user="ann",
                spec=Schedule("s", ScheduleKind.CRON, (JOB_SPEC,), "* * * * *"),
            ),
        ),
        (TICKET, StartJob(JOB_SPEC, RECORD)),
        (TICKET, StopJob("j-1", "ann", 2.5)),
        (TICKET, PlanJob("q", JOB_SPEC, "ann")),
        (TICKET, JoinNode("n", "0" * 64)),
        (TICKET, DrainNode("n", "ann")),
        (REPORT, HELLO),
        (
            REPORT,
            TaskEvents(
                (
                    Started("j-1/a.0/1", 1.0, 7),
                    Waiting("j-1/a.0/1"),
                    ReadyEvent("j-1/a.0/1"),
                    Ended(key="j-1/a.0/1", at=2.0, signal=9, reason=REASON, sizes={"stdout": 1}),
                )
            ),
        ),
        (node_api.EXEC.open.asked, OpenExec(key="j-1/a.0/1", argv=["x"], user="ann", tty=True, rows=30, cols=90)),
        (node_api.EXEC.output.answered, ExecOutput((("stdout", b"\xff"), ("stderr", b"")), 1, None, 0.5)),
        (node_api.EXEC.input.asked, ExecInput(data=b"\x00", end=True)),
        (node_api.RESIZE.asked, ExecSize(rows=1, cols=2)),
        (node_api.FORWARD.open.asked, OpenForward("j-1/a.0/1", 80, "ann")),
        (node_api.FORWARD.output.answered, ForwardOutput(((1, b"\xff"), (2, None)), 2, True, 0.0)),
        (node_api.FORWARD.input.asked, ForwardInput(connection=1, at=2, data=b"\x00", end=True)),
        (node_api.FORWARD.input.answered, Accepted(3)),
        (node_api.TASK_EXEC.open.asked, OpenTaskExec("j-1/a.0/1", ["x"], "i" * 16)),
        (node_api.TASK_EXEC.open.answered, Opened("i")),
        (node_api.TASK_EXEC.input.asked, ExecInput(data=b"\x00", at=7)),
        (node_api.SIGNAL.asked, TaskSignal("TERM")),
        (node_api.PROGRAMS.asked, ImagePrograms("i:1", ("mpirun",))),
        (node_api.PROGRAMS.answered, FoundPrograms(("mpirun",))),
        (
            node_api.STATUS.answered,
            NodeStatus(node="n", version="1", boot_id="b", steady=1.5, shepherd="ok", running=1, ended=2),
        ),
        (REFUSAL, Refusal(error=RefusedRequest("conflict", "no"))),
        (
            codec.Form[DesiredChange](DesiredChange),
            DesiredChange(
                launch={"j-1/a": template(name="a", command=("x",), width=1)},
                set={"j-1/a.0/1": DesiredAttempt(1, {"p": 20000}, ((0, 1000),), 10.0)},
                remove=("j-1/a.0/1",),
            ),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_message_comes_back_as_it_was_sent(form: codec.Form[Any], value: object) -> None:
    text = codec.encode(value)
    assert form.decode(text) == value
    assert form.convert(json.loads(text)) == value


@pytest.mark.parametrize(
    ("form", "text", "said"),
    [
        (TICKET, '{"kind":"stop","id":1,"user":"a"}', "id: Expected str, got int"),
        (TICKET, '{"kind":"stop","id":"x"}', "Object missing required field user"),
        (TICKET, '{"kind":"dance"}', "kind: Invalid value 'dance'"),
        (TICKET, '{"id":"x"}', "Object missing required field kind"),
        (REPORT, '{"kind":"tasks","events":[{"event":"ready","key":"k"},{"event":"born"}]}', "events[1].event: "),
        (
            SPECIFICATION,
            codec.encode(JOB_SPEC).replace('"replicas":1', '"replicas":"1"'),
            "components[...].replicas: Expected",
        ),
        (TASK_RECORD, '["AWAY"]', "[0]: Invalid enum value 'AWAY'"),
        (node_api.FORWARD.open.asked, '{"key":"j-1/a.0/1","port":65536,"user":"ann"}', "port: Expected int <= 65535"),
        (node_api.EXEC.open.asked, '{"key":"j-1/a.0/1","argv":["x"]}', "missing required field user"),
        (node_api.EXEC.open.asked, '{"key":"j-1/a.0/1","argv":["x"],"user":"ann\\n"}', "user: Expected str matching"),
        (node_api.EXEC.input.asked, '{"data":"%"}', "data: Invalid base64"),
        (node_api.FORWARD.input.asked, '{"connection":1,"at":-1,"data":""}', "at: Expected int >= 0"),
        (node_api.SIGNAL.asked, '{"signal":"KILL"}', "signal: Invalid enum value 'KILL'"),
        (TICKET, "{", "Input data was truncated"),
        (TICKET, b"\xff", "malformed"),
        (TICKET, '{"kind":"delete","more":' + "[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_message_is_refused_with_the_path_of_what_is_wrong(
    form: codec.Form[Any], text: str | bytes, said: str
) -> None:
    with pytest.raises(UndecodableError) as refused:
        form.decode(text)
    assert said in str(refused.value)


def test_text_that_is_no_unicode_can_be_sent_all_the_same() -> None:
    reason = Reason(ReasonCode.CANNOT_START, "no such file: \udcff")
    assert codec.Form[Reason](Reason).decode(codec.encode(reason)).message == "no such file: ?"


@pytest.mark.parametrize("text", ["é\u2028\x00\x7f…\U0001f600", "\udcff", "é\udc80\u2028\U0001f600\ud83d"])
def test_a_reply_keeps_each_character_however_it_is_encoded(text: str) -> None:
    body = {"line": text, text: ["one\ntwo"]}
    reply = codec.packed(body)
    assert json.loads(reply) == body
    assert b"\n" not in reply


@pytest.mark.parametrize("text", ["j-1/a.0/1", "a-b_c.d-0123/learner.15/200"])
def test_an_attempt_key_is_read_as_it_was_written(text: str) -> None:
    key = AttemptKey.parse(text)
    assert str(key) == text
    assert f"{key.launch}.{key.index}/{key.attempt}" == text and str(key.task) in text
    assert LaunchKey.parse(str(key.launch)) == key.launch and TaskKey.parse(str(key.task)) == key.task


@pytest.mark.parametrize(
    "text", ["", "j", "j/a", "j/a.0", "j/a.x/1", "j/a.0/-1", "j/a.b.0/1", "/a.0/1", "j/a.0/1\n", "j/a.١/1"]
)
def test_what_is_no_attempt_key_is_refused(text: str) -> None:
    with pytest.raises(UndecodableError, match="not an attempt key"):
        AttemptKey.parse(text)


def test_bytes_to_and_from_a_task_are_base64_and_the_path_of_a_call_names_whose_channel_it_is() -> None:
    where = {"user": "ann", "job_id": "j-1", "task": "a.0", "name": "i"}
    assert codec.encode(ExecOutput((("stdout", b"\xff\x00"),), 2, 0, 0.0)) == (
        '{"chunks":[["stdout","/wA="]],"next":2,"code":0,"pause":0.0}'
    )
    assert codec.encode(ForwardInput(connection=1, at=0, data=b"\xff\x00")) == (
        '{"connection":1,"at":0,"data":"/wA=","end":false}'
    )
    assert node_api.EXEC.input.target(where) == "/v1/exec/ann/j-1/a.0/i/input"
    assert node_api.CLOSE_CONNECTION.target({**where, "number": "7"}) == "/v1/forward/ann/j-1/i/connections/7"


@pytest.mark.parametrize("data", [b"a line\n", "gr\u00fc\u00df".encode(), b"\xff\x00", b""])
def test_a_log_block_carries_any_bytes_and_begins_with_what_readers_look_for(data: bytes) -> None:
    line = codec.encode(LogBlock.of_data(2, "stderr", 10, 1.5, data))
    assert line.startswith('{"attempt":2,"stream":"stderr","offset":10,"time":1.5,')
    assert LOG_BLOCK.decode(line).data() == data


@pytest.mark.parametrize("more", ['"text":"a","base64":"YQ=="', '"base64":"%"'])
def test_a_log_block_with_no_or_two_contents_is_refused(more: str) -> None:
    with pytest.raises(UndecodableError):
        LOG_BLOCK.decode('{"attempt":1,"stream":"stdout","offset":0,"time":1,' + more + "}").data()


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: TaskKey.parse("w"), "not a task: 'w'"),
        (lambda: AttemptKey.parse("w"), "not an attempt key: 'w'"),
        (lambda: LogBlock(1, "stdout", 0, 1.0).data(), "must have one of text and base64"),
        (lambda: LogBlock(1, "stdout", 0, 1.0, base64="!").data(), "base64: Only base64 data is allowed"),
    ],
)
def test_an_error_begins_with_the_path_only_if_it_is_about_a_part(read: Callable[[], object], said: str) -> None:
    with pytest.raises(UndecodableError) as caught:
        read()
    assert str(caught.value) == said


def test_a_channel_has_four_calls_and_its_output_is_that_of_its_own_path() -> None:
    calls = node_api.ChannelCalls("/v1/x", "/<user>", ExecSize, ExecOutput, ExecInput)
    found = [calls.open, calls.output, calls.input, calls.close]
    assert [(each.method, each.path) for each in found] == [
        ("POST", "/v1/x"),
        ("GET", "/v1/x/<user>/<name>/output"),
        ("POST", "/v1/x/<user>/<name>/input"),
        ("DELETE", "/v1/x/<user>/<name>"),
    ]
    size = ExecSize(rows=5, cols=6)
    assert calls.open.asked.decode(codec.encode(size)) == size
    assert calls.input.asked.decode(codec.encode(ExecInput(at=1, data=b"x"))) == ExecInput(at=1, data=b"x")


def test_a_peer_of_another_protocol_is_told_what_both_speak() -> None:
    older = version.mismatch("node n1", 1, "0.0.1", "0.1")
    assert older == (
        f"node n1 speaks protocol 1 (Grass 0.0.1), the master speaks protocol {version.PROTOCOL} (Grass 0.1); "
        "install Grass 0.1 there"
    )
    assert version.mismatch("node n1", version.PROTOCOL, "0.1", "0.1") is None
    newer = '{"kind":"hello","protocol":99,"version":"9.9","what":"is this"}'
    with pytest.raises(UndecodableError) as refused:
        REPORT.decode(newer)
    speaker = undecodable(newer, refused.value).envelope
    said = version.mismatch("node n1", speaker.protocol, speaker.version, "0.1")
    assert said is not None and "protocol 99 (Grass 9.9)" in said and f"protocol {version.PROTOCOL} (Grass 0.1)" in said
    assert "install Grass 0.1 there, or upgrade the cluster with that one's `grass create`" in said
    assert version.mismatch("this client", 1, "0.0.9", "0.1", version.OLDEST_CLIENT) is None
    silent = version.mismatch("node n1", 0, "", "0.1")
    assert silent is not None and "no known protocol" in silent


def test_the_page_of_messages_is_what_the_types_say() -> None:
    assert tables.main(["--check"]) == 0
    assert "| `deadline` | `float \\| None` | `None` | Seconds from now" in tables.page()


def test_every_module_of_messages_is_on_the_page_or_is_described_elsewhere() -> None:
    without_messages = {"__init__", "codec", "specification", "tables", "version", "waits"}
    of_fluentd = {"handshake"}  # lists of its forward protocol, which docs/internals/logs.md names
    modules = {path.stem for path in Path(tables.__file__).parent.glob("*.py")}
    openapi = {"calls", "job_details", *(module for module in modules if module.endswith("views"))}
    assert modules - openapi - without_messages - of_fluentd == set(tables.MODULES)


def test_of_two_versions_the_older_one_is_named_with_what_to_do() -> None:
    old, new = version.Speaks(2, 1, "0.1.0"), version.Speaks(2, 3, "0.2.0")
    assert version.difference(old, old) == ""
    assert "the cluster runs an older Grass" in version.difference(client=new, cluster=old)
    said = version.difference(client=old, cluster=new)
    assert said.startswith("this client is older") and said.endswith("install Grass 0.2.0 here")


def test_what_a_newer_version_says_beside_its_numbers_is_passed_over() -> None:
    known = ClusterVersion(lambda: None)
    known.note({"speaks": {"protocol": 2, "revision": 9, "version": "0.9.0", "since": "2027"}})
    assert known.speaks() == version.Speaks(2, 9, "0.9.0")
