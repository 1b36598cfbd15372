"""The calls of the node-api-server: the path of each, its request and its answer.

The master makes them, and node-agents make those of tasks. Used by ``node.api``, ``node.membership`` and
``master.api``. A channel is what a caller has open on a node: a command beside a task, or a forward of a port of a
task. Bytes are base64 in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from grass.wire.calls import ExecInput, ExecSize, ForwardInput, NoContent
from grass.wire.channel_views import Accepted, ExecOutput, ForwardOutput
from grass.wire.codec import Form

Asked = TypeVar("Asked", bound=msgspec.Struct)
Answered = TypeVar("Answered", bound=msgspec.Struct)
Given = TypeVar("Given", bound=msgspec.Struct)


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a machine and its shepherd."""

    node: str
    version: str
    boot_id: str
    steady: float
    shepherd: str
    """``ok``, or why it does not answer."""
    running: int | None = None
    """Attempts that run."""
    ended: int | None = None
    """Attempts that have ended, and are not forgotten yet."""


class ImagePrograms(msgspec.Struct, frozen=True):
    """Ask which of these programs an image of the node's engine has on its PATH."""

    image: str
    programs: tuple[str, ...]
    """Programs of frameworks."""


class FoundPrograms(msgspec.Struct, frozen=True):
    """The programs that an image has."""

    programs: tuple[str, ...] | None
    """None: not known."""


class OpenExec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start a command beside a running attempt, with its folder and environment, or in its container."""

    key: str
    """Of the attempt."""
    argv: tuple[str, ...]
    user: str
    """The Grass user who asks. Later calls name the same, and the job and the task."""
    tty: bool = False
    """Whether the command gets a terminal; all output is then stdout."""
    rows: int | None = None
    cols: int | None = None
    """Size of the terminal. None: the usual one."""


class OpenForward(msgspec.Struct, frozen=True):
    """Prepare connections to a port of a running attempt."""

    key: str
    """Of the attempt."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    user: str
    """The Grass user who asks. Later calls name the same, and the job."""


class OpenTaskExec(msgspec.Struct, frozen=True):
    """Start a command of a task beside an attempt of the same job: the ``ssh`` of launchers."""

    key: str
    """Of the attempt."""
    argv: tuple[str, ...]
    id: str = ""
    """As in ``TaskExec``."""


class Opened(msgspec.Struct, frozen=True):
    """A channel is open. The id proves nothing: later calls say who asks."""

    id: str


class TaskInput(msgspec.Struct, frozen=True):
    """A piece of the standard input of a command of a task."""

    data: bytes = b""
    """Base64."""
    end: bool = False
    at: Annotated[int, Meta(ge=0)] | None = None
    """How many bytes came before. What came with an earlier request is not written again."""


class TaskSignal(msgspec.Struct, frozen=True):
    """Send a signal to a command of a task."""

    signal: Literal["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"]


class NodeCall(Generic[Asked, Answered]):
    """One call. ``path``: as Flask writes it, such as ``/v1/users/<user>``."""

    def __init__(self, method: str, path: str, asked: type[Asked], answered: type[Answered]) -> None:
        self.method, self.path = method, path
        self.asked: Form[Asked] = Form(asked)
        self.answered: Form[Answered] = Form(answered)

    def target(self, where: Mapping[str, str]) -> str:
        """Return the path with these parts."""
        return re.sub(r"<(\w+)>", lambda found: where[found[1]], self.path)


class ChannelCalls(Generic[Asked, Answered, Given]):
    """The calls about one kind of channel. ``noun``: its name in messages. ``path``: of one channel.

    The query parameter ``after`` of a call for output is ``next`` of the answer before. The node waits for output.
    """

    def __init__(
        self, noun: str, start: str, path: str, opening: type[Asked], output: type[Answered], given: type[Given]
    ) -> None:
        self.noun = noun
        self.open = NodeCall("POST", start, opening, Opened)
        self.output = NodeCall("GET", f"{path}/output", NoContent, output)
        self.input = NodeCall("POST", f"{path}/input", given, Accepted)
        self.close = NodeCall("DELETE", path, NoContent, NoContent)


STATUS = NodeCall("GET", "/v1/status", NoContent, NodeStatus)
END_USER = NodeCall("DELETE", "/v1/users/<user>", NoContent, NoContent)
"""Ends all channels of a Grass user on the node."""
PROGRAMS = NodeCall("POST", "/v1/image", ImagePrograms, FoundPrograms)

_EXEC = "/v1/exec/<user>/<job_id>/<task>/<name>"
_FORWARD = "/v1/forward/<user>/<job_id>/<name>"
_TASK_EXEC = "/v1/tasks/exec/<name>"
EXEC = ChannelCalls("exec", "/v1/exec", _EXEC, OpenExec, ExecOutput, ExecInput)
RESIZE = NodeCall("POST", f"{_EXEC}/resize", ExecSize, NoContent)
FORWARD = ChannelCalls("forward", "/v1/forward", _FORWARD, OpenForward, ForwardOutput, ForwardInput)
CLOSE_CONNECTION = NodeCall("DELETE", f"{_FORWARD}/connections/<number>", NoContent, NoContent)
TASK_EXEC = ChannelCalls("session", "/v1/tasks/exec", _TASK_EXEC, OpenTaskExec, ExecOutput, TaskInput)
SIGNAL = NodeCall("POST", f"{_TASK_EXEC}/signal", TaskSignal, NoContent)
