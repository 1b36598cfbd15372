"""What the shepherd and its clients say to each other, and the one place that knows the order of the fields.

On the socket, a message is a JSON list: its word, then its fields. Shepherd and client may be of neighbouring versions.
So a field that is new goes to the end and has a default, and fields beyond those known here are ignored. These are
named tuples, because msgspec would cost the shepherd 2 MiB and 10 ms at each start. Used by ``attempts``, ``server``,
``shepherd``, ``node.agent.folders``, ``node.api.app``, ``node.runtime.isolation`` and ``node.runtime.process``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from node.runtime import frames
from node.runtime.frames import Message, WireReason

_T = TypeVar("_T")


class ProcessLaunch(NamedTuple):
    """Define a launch, or replace it: the fields of ``protocol.Launch`` that processes need, without the limits."""

    name: str
    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    grace: float
    width: int | None
    user: str = ""
    awaited: Sequence[str] = ()
    read_only_data: bool = False


class LaunchLimits(NamedTuple):
    """Set the limits of a launch that is defined. They hold until it gets others, or is dropped."""

    name: str
    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""


UNLIMITED = LaunchLimits("", 0, 0)


class KeepMemory(NamedTuple):
    """Keep what ended attempts of a launch have in /dev/shm for the next ones, until the launch is dropped."""

    name: str
    most: int
    """Bytes of each task."""


class StopWith(NamedTuple):
    """Stop attempts of a launch that start from now on with this signal in place of TERM."""

    name: str
    signal: int


class LetGo(NamedTuple):
    """Remove what is kept of tasks (``<job id>/<component>.<index>``)."""

    tasks: list[str]


class DropLaunches(NamedTuple):
    """Forget launches, and remove what is kept of them."""

    names: list[str]


class NewAttempt(NamedTuple):
    """An attempt to start: the fields of ``protocol.Start`` that the shepherd uses."""

    key: str
    launch: str
    env: dict[str, str]


class StartAttempts(NamedTuple):
    """Start attempts in this order; those that are known are ignored."""

    starts: list[NewAttempt]


class StopOrder(NamedTuple):
    """An attempt to stop, as ``protocol.Stop``."""

    key: str
    grace: float
    reason: WireReason | None


class StopAttempts(NamedTuple):
    """Stop attempts; those that have ended, and unknown ones, are ignored."""

    stops: list[StopOrder]


class ForgetAttempts(NamedTuple):
    """Forget attempts that have ended."""

    keys: list[str]


class Ping(NamedTuple):
    """Answer with ``Pong``."""


class ListAttempts(NamedTuple):
    """Answer with ``AttemptList``."""


class WatchAttempts(NamedTuple):
    """Answer with ``AttemptList``, and send ``AttemptEvents`` from now on."""


class RunBeside(NamedTuple):
    """Start a command beside an isolated attempt, with the three descriptors that the client sends with it.

    The answer is ``RunsBeside`` or ``Failed``, later ``EndedBeside``. It is killed when its client disconnects.
    """

    key: str
    argv: list[str]
    env: Mapping[str, str]
    """Variables that the process of the attempt may lack."""
    tty: bool


class SignalBeside(NamedTuple):
    """Send a signal to the group of the client's command."""

    number: int


class KillBeside(NamedTuple):
    """Kill the session of the client's command."""


class RemoveScratch(NamedTuple):
    """Remove the scratch folders of attempts that have ended. The answer is an empty ``AttemptList``."""

    keys: list[str]


class RemoveJobs(NamedTuple):
    """Remove what is left of jobs without attempts that run or wait. The answer is an empty ``AttemptList``."""

    job_ids: list[str]


class GiveScratch(NamedTuple):
    """Make the account of a user, and a scratch folder of it for a container, which is no attempt of the shepherd.

    The answer is ``Account`` or ``Failed``.
    """

    key: str
    user: str


class Spent(NamedTuple):
    """What the first process of an attempt and its descendants used, by the kernel's count when it was reaped.

    Descendants that nobody waited for are not in it.
    """

    cpu: float
    """Core seconds."""
    memory: int
    """Bytes at the peak of the largest process."""
    read: int
    """Bytes from disks."""
    written: int


class AttemptReport(NamedTuple):
    """An attempt that the shepherd knows: the fields of ``protocol.Observed`` that it has."""

    key: str
    pid: int | None
    started: float | None
    since: float | None
    stopping: bool
    ended: float | None
    code: int | None
    signal: int | None
    reason: WireReason | None
    sizes: dict[str, int] | None
    spent: Spent | None = None


class AttemptList(NamedTuple):
    """All attempts of the shepherd."""

    attempts: list[AttemptReport]


class AttemptEvents(NamedTuple):
    """Attempts that have changed."""

    attempts: list[AttemptReport]


class Pong(NamedTuple):
    """The shepherd answers."""


class RunsBeside(NamedTuple):
    """The command runs."""

    pid: int


class EndedBeside(NamedTuple):
    """The command has ended. ``status``: as from wait()."""

    status: int


class Account(NamedTuple):
    """The id of the account to which the scratch folder was given."""

    uid: int


class Failed(NamedTuple):
    """The request was refused. ``code``: the exit code that a shell would return."""

    code: int
    message: str


ServiceRequest = RunBeside | SignalBeside | KillBeside | RemoveScratch | RemoveJobs | GiveScratch
"""What the shepherd does only where users are isolated."""
Request = (
    ProcessLaunch
    | LaunchLimits
    | KeepMemory
    | StopWith
    | LetGo
    | DropLaunches
    | StartAttempts
    | StopAttempts
    | ForgetAttempts
    | Ping
    | ListAttempts
    | WatchAttempts
    | ServiceRequest
)
Reply = AttemptList | AttemptEvents | Pong | RunsBeside | EndedBeside | Account | Failed

_REQUESTS: dict[str, type[Request]] = {
    "launch": ProcessLaunch,
    "limits": LaunchLimits,
    "keep": KeepMemory,
    "stop_with": StopWith,
    "let_go": LetGo,
    "drop": DropLaunches,
    "start": StartAttempts,
    "stop": StopAttempts,
    "forget": ForgetAttempts,
    "ping": Ping,
    "list": ListAttempts,
    "watch": WatchAttempts,
    "beside": RunBeside,
    "signal": SignalBeside,
    "kill": KillBeside,
    "remove": RemoveScratch,
    "remove_jobs": RemoveJobs,
    "give": GiveScratch,
}
_REPLIES: dict[str, type[Reply]] = {
    "list": AttemptList,
    "events": AttemptEvents,
    "pong": Pong,
    "beside": RunsBeside,
    "ended": EndedBeside,
    "account": Account,
    "failed": Failed,
}
_WORDS: dict[type[Request | Reply], str] = {kind: word for word, kind in (*_REQUESTS.items(), *_REPLIES.items())}


def pack(message: Request | Reply) -> bytes:
    """Return a message as one line."""
    fields: Sequence[object] = message
    if isinstance(message, ProcessLaunch) and not message.read_only_data:
        # as earlier versions send it: they take awaited only with a user, and the flag only if it is set
        fields = message[:8] if message.user else message[:6]
    return frames.pack([_WORDS[type(message)], *fields])


def unpack_request(message: Message) -> Request | None:
    """Return what a client sent; None: no request that is known here, or a malformed one."""
    try:
        match frames.unpacked(message, _REQUESTS):
            case StartAttempts(list(starts)):
                return StartAttempts(_each(NewAttempt, starts))
            case StopAttempts(list(stops)):
                return StopAttempts(_each(StopOrder, stops))
            case (
                ProcessLaunch(str())
                | LaunchLimits(str(), int(), int())
                | KeepMemory(str(), int())
                | StopWith(str(), int())
                | LetGo(list())
                | DropLaunches(list())
                | ForgetAttempts(list())
                | Ping()
                | ListAttempts()
                | WatchAttempts()
                | RunBeside(str(), list(), dict(), bool())
                | SignalBeside(int())
                | KillBeside()
                | RemoveScratch(list())
                | RemoveJobs(list())
                | GiveScratch(str(), str())
            ) as request:
                return request
            case _:
                return None
    except TypeError:
        return None


def unpack_reply(message: Message) -> Reply | None:
    """Return what the shepherd sent; None: no reply that is known here, or a malformed one."""
    try:
        match frames.unpacked(message, _REPLIES):
            case AttemptList(list(attempts)):
                return AttemptList(_reports(attempts))
            case AttemptEvents(list(attempts)):
                return AttemptEvents(_reports(attempts))
            case (Pong() | RunsBeside(int()) | EndedBeside(int()) | Account(int()) | Failed(int(), str())) as reply:
                return reply
            case _:
                return None
    except TypeError:
        return None


def _reports(attempts: list[Any]) -> list[AttemptReport]:
    reports = _each(AttemptReport, attempts)
    return [each._replace(spent=frames.filled(Spent, each.spent)) if each.spent else each for each in reports]


def _each(kind: type[_T], items: list[Any]) -> list[_T]:
    """Make something of each item, in the same list: the memory for thousands of them is not needed twice."""
    for index, fields in enumerate(items):
        items[index] = frames.filled(kind, fields)
    return items
