"""The messages on the shepherd's socket, as bytes: shepherd and agent may be of neighbouring versions."""

from __future__ import annotations

import signal
from typing import Any, get_args

import pytest

from grass.model.reasons import Reason, ReasonCode
from node.runtime import shepherd_messages
from node.runtime.frames import Lines
from node.runtime.process.client import _definition, _observed
from node.runtime.protocol import Launch, Observed
from node.runtime.shepherd_messages import (
    Account,
    AttemptEvents,
    AttemptList,
    AttemptReport,
    DropLaunches,
    EndedBeside,
    Failed,
    ForgetAttempts,
    GiveScratch,
    KeepMemory,
    KillBeside,
    LaunchLimits,
    LetGo,
    ListAttempts,
    NewAttempt,
    Ping,
    Pong,
    ProcessLaunch,
    RemoveJobs,
    RemoveScratch,
    Reply,
    Request,
    RunBeside,
    RunsBeside,
    SignalBeside,
    Spent,
    StartAttempts,
    StopAttempts,
    StopOrder,
    StopWith,
    WatchAttempts,
    pack,
    unpack_reply,
    unpack_request,
)

LAUNCH = Launch(["run", "it"], {"A": "b"}, "/here", 5.0, 2)
OWNED = LAUNCH._replace(user="ann", awaited=("j-1",), cpu=500, memory=1 << 20)
REASON: dict[str, object] = {"code": "timeout", "message": "too slow", "details": {}}
RUNS = AttemptReport("j/c.0/1", 11, 3.5, 1.25, False, None, None, None, None, None, None)
SPENT = Spent(0.5, 1024, 0, 512)
SIZES = {"stdout": 1, "stderr": 2}
ENDED = AttemptReport("j/c.0/1", 11, 3.5, 1.25, True, 9.0, None, 15, REASON, SIZES, SPENT)

REQUESTS: list[tuple[Request, str]] = [
    (
        ProcessLaunch("j/c", ["run"], {"A": "b"}, None, 5.0, None, "ann", ["j-1"], True),
        '["launch","j/c",["run"],{"A":"b"},null,5.0,null,"ann",["j-1"],true]',
    ),
    (KeepMemory("j/c", 1024), '["keep","j/c",1024]'),
    (StopWith("j/c", 10), '["stop_with","j/c",10]'),
    (LetGo(["j/c.0"]), '["let_go",["j/c.0"]]'),
    (LaunchLimits("j/c", 500, 1024), '["limits","j/c",500,1024]'),
    (DropLaunches(["j/c"]), '["drop",["j/c"]]'),
    (StartAttempts([NewAttempt("j/c.0/1", "j/c", {"A": "b"})]), '["start",[["j/c.0/1","j/c",{"A":"b"}]]]'),
    (
        StopAttempts([StopOrder("j/c.0/1", 2.0, None), StopOrder("j/c.1/1", 0.0, REASON)]),
        '["stop",[["j/c.0/1",2.0,null],["j/c.1/1",0.0,{"code":"timeout","message":"too slow","details":{}}]]]',
    ),
    (ForgetAttempts(["j/c.0/1"]), '["forget",["j/c.0/1"]]'),
    (Ping(), '["ping"]'),
    (ListAttempts(), '["list"]'),
    (WatchAttempts(), '["watch"]'),
    (RunBeside("j/c.0/1", ["ps"], {"TERM": "xterm"}, True), '["beside","j/c.0/1",["ps"],{"TERM":"xterm"},true]'),
    (SignalBeside(2), '["signal",2]'),
    (KillBeside(), '["kill"]'),
    (RemoveScratch(["j/c.0/1"]), '["remove",["j/c.0/1"]]'),
    (RemoveJobs(["j-1"]), '["remove_jobs",["j-1"]]'),
    (GiveScratch("j/c.0/1", "ann"), '["give","j/c.0/1","ann"]'),
]
REPLIES: list[tuple[Reply, str]] = [
    (AttemptList([RUNS]), '["list",[["j/c.0/1",11,3.5,1.25,false,null,null,null,null,null,null]]]'),
    (
        AttemptEvents([ENDED]),
        '["events",[["j/c.0/1",11,3.5,1.25,true,9.0,null,15,{"code":"timeout","message":"too slow","details":{}},'
        '{"stdout":1,"stderr":2},[0.5,1024,0,512]]]]',
    ),
    (Pong(), '["pong"]'),
    (RunsBeside(7), '["beside",7]'),
    (EndedBeside(256), '["ended",256]'),
    (Account(4001), '["account",4001]'),
    (Failed(126, "no"), '["failed",126,"no"]'),
]
"""Bytes that the versions before sent and took, too."""


def received(data: bytes) -> Any:
    [message] = Lines().feed(data)
    return message


@pytest.mark.parametrize(("request_", "line"), REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_is_the_same_bytes_as_ever_and_comes_back_whole(request_: Request, line: str) -> None:
    assert pack(request_) == line.encode() + b"\n"
    found = unpack_request(received(pack(request_)))
    assert found == request_ and type(found) is type(request_)


@pytest.mark.parametrize(("reply", "line"), REPLIES, ids=lambda each: type(each).__name__)
def test_a_reply_is_the_same_bytes_as_ever_and_comes_back_whole(reply: Reply, line: str) -> None:
    assert pack(reply) == line.encode() + b"\n"
    found = unpack_reply(received(pack(reply)))
    assert found == reply and type(found) is type(reply)
    if isinstance(found, AttemptList | AttemptEvents):
        assert {type(each) for each in found.attempts} == {AttemptReport}
        assert {type(each.spent) for each in found.attempts} <= {Spent, type(None)}


def test_each_message_is_pinned_here() -> None:
    assert {type(each) for each, _ in REQUESTS} == set(get_args(Request))
    assert {type(each) for each, _ in REPLIES} == set(get_args(Reply))
    assert len(shepherd_messages._WORDS) == len(REQUESTS) + len(REPLIES)


def test_a_launch_is_defined_in_the_form_that_shepherds_of_earlier_versions_take() -> None:
    plain = ["launch", "j/c", ["run", "it"], {"A": "b"}, "/here", 5.0, 2]
    limits = ["limits", "j/c", 500, 1 << 20]

    def sent(launch: Launch) -> list[Any]:
        return [received(pack(each)) for each in _definition("j/c", launch)]

    assert sent(LAUNCH._replace(cpu=1, awaited=("j-1",), read_only_data=True)) == [plain]
    stops = ["stop_with", "j/c", signal.SIGUSR1]
    assert sent(LAUNCH._replace(stop_signal=signal.SIGUSR1)) == [plain, stops]
    assert sent(OWNED._replace(stop_signal=signal.SIGUSR1)) == [[*plain, "ann", ["j-1"]], limits, stops]
    assert sent(OWNED) == [[*plain, "ann", ["j-1"]], limits]
    assert sent(OWNED._replace(awaited=())) == [[*plain, "ann", []], limits]
    assert sent(OWNED._replace(read_only_data=True)) == [[*plain, "ann", ["j-1"], True], limits]


def test_a_launch_of_an_agent_of_an_earlier_version_isolates_nobody_and_may_write() -> None:
    defined = unpack_request(["launch", "j/c", ["run"], {}, None, 5.0, None])
    assert isinstance(defined, ProcessLaunch)
    assert (defined.user, defined.awaited, defined.read_only_data) == ("", (), False)
    defined = unpack_request(["launch", "j/c", ["run"], {}, None, 5.0, None, "ann", ["j-1"]])
    assert isinstance(defined, ProcessLaunch)
    assert (defined.user, defined.awaited, defined.read_only_data) == ("ann", ["j-1"], False)


def test_an_attempt_of_a_shepherd_of_an_earlier_version_has_spent_nothing_that_is_known() -> None:
    reply = unpack_reply(["list", [["j/c.0/1", 11, 3.5, 1.25, True, 9.0, 0, None, None, SIZES]]])
    assert isinstance(reply, AttemptList)
    assert _observed(reply.attempts[0]) == Observed("j/c.0/1", 11, 3.5, 1.25, True, 9.0, 0, None, None, SIZES, None)


def test_an_observed_attempt_has_each_field_of_its_report() -> None:
    [reply] = [unpack_reply(received(pack(AttemptEvents([ENDED]))))]
    assert isinstance(reply, AttemptEvents)
    why = Reason(ReasonCode.TIMEOUT, "too slow")
    expected = Observed("j/c.0/1", 11, 3.5, 1.25, True, 9.0, None, 15, why, SIZES, SPENT)
    assert _observed(reply.attempts[0]) == expected
    assert isinstance(_observed(reply.attempts[0]).spent, Spent)


def test_fields_that_a_later_version_adds_are_ignored() -> None:
    assert unpack_request(["give", "j/c.0/1", "ann", "new"]) == GiveScratch("j/c.0/1", "ann")
    assert unpack_request(["start", [["j/c.0/1", "j/c", {}, "new"]]]) == StartAttempts(
        [NewAttempt("j/c.0/1", "j/c", {})]
    )
    read_only = unpack_request(["launch", "j/c", ["run"], {}, None, 5.0, None, "ann", [], True, "new"])
    assert isinstance(read_only, ProcessLaunch) and read_only.read_only_data
    assert unpack_reply(["list", [[*ENDED, "new"]], "new"]) == AttemptList([ENDED])


@pytest.mark.parametrize(
    "message",
    [
        [],
        [{}],
        5,
        "ping",
        {"ping": 1},
        ["unheard"],
        ["pong"],
        ["limits", "j/c", 500],
        ["limits", "j/c", "500", 1024],
        ["launch", 5, ["run"], {}, None, 5.0, None],
        ["launch", "j/c"],
        ["start", 5],
        ["stop_with", "j/c", "USR1"],
        ["start", [5]],
        ["start", [["j/c.0/1", "j/c"]]],
        ["stop", [["j/c.0/1"]]],
        ["stop", None],
        ["drop", "j/c"],
        ["forget", 5],
        ["give", 5, "ann"],
        ["beside", "j/c.0/1", ["ps"], {}, "yes"],
        ["signal", "9"],
        ["remove", "/"],
        ["remove_jobs", None],
    ],
    ids=str,
)
def test_a_malformed_request_is_none(message: Any) -> None:
    assert unpack_request(message) is None


@pytest.mark.parametrize(
    "message",
    [[], 5, ["ping"], ["list"], ["list", 5], ["list", [["j/c.0/1"]]], ["account", "0"], ["failed", "126", "no"]],
    ids=str,
)
def test_a_malformed_reply_is_none(message: Any) -> None:
    assert unpack_reply(message) is None
