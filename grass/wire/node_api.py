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

from grass.model.names import USER
from grass.wire.calls import Exec, ExecInput, ExecSize, ForwardInput, NoContent
from grass.wire.channel_views import Accepted, ExecOutput, ForwardOutput
from grass.wire.codec import Form
from grass.wire.stacks import TaskStacks
from grass.wire.witness import AskVote, MasterLives, WitnessAnswer

Asked = TypeVar("Asked", bound=msgspec.Struct)
Answered = TypeVar("Answered", bound=msgspec.Struct)
Given = TypeVar("Given", bound=msgspec.Struct)
User = Annotated[str, Meta(pattern=rf"^{USER}\Z")]


class NodeStatus(msgspec.Struct, frozen=True):
    """The state of a machine and its shepherd."""

    node: str
    version: str
    boot_id: str
    steady: float
    shepherd: str
    """``ok``, or why it does not answer."""
    running: int | None
    """Attempts that run."""
    ended: int | None
    """Attempts that have ended, and are not forgotten yet."""
    protocol: int = 0
    """What the node speaks. 0: it is of before revision 1."""
    revision: int = 0


class ImagePrograms(msgspec.Struct, frozen=True):
    """Ask which of these programs an image of the node's engine has on its PATH."""

    image: str
    programs: tuple[str, ...]
    """Programs of frameworks."""


class FoundPrograms(msgspec.Struct, frozen=True):
    """The programs that an image has."""

    programs: tuple[str, ...] | None
    """None: not known."""


class OpenExec(Exec, frozen=True, kw_only=True, omit_defaults=True):
    """Start a command beside a running attempt, with its folder and environment, or in its container. The other fields
    are those of an ``Exec`` of the API."""

    key: str
    """Of the attempt."""
    user: User
    """Who asks. Later calls name the same, and the job and the task."""


class OpenForward(msgspec.Struct, frozen=True):
    """Prepare connections to a port of a running attempt."""

    key: str
    """Of the attempt."""
    port: Annotated[int, Meta(ge=1, le=65535)]
    user: User
    """Who asks. Later calls name the same, and the job."""


class OpenTaskExec(msgspec.Struct, frozen=True):
    """Start a command of a task beside an attempt of the same job: the ``ssh`` of launchers."""

    key: str
    """Of the attempt."""
    argv: list[str]
    id: str = ""
    """As in ``TaskExec``."""


class Opened(msgspec.Struct, frozen=True):
    """A channel is open. The id proves nothing: later calls say who asks. A task gets ``NODE:ID`` for a command."""

    id: str


class TaskSignal(msgspec.Struct, frozen=True):
    """Send a signal to a command of a task."""

    signal: Literal["HUP", "INT", "QUIT", "TERM", "USR1", "USR2"]


class AskStacks(msgspec.Struct, frozen=True):
    """Ask what the processes of running attempts do now."""

    keys: tuple[str, ...]
    """Of the attempts."""


class NodeStacks(msgspec.Struct, frozen=True):
    """The processes of running attempts."""

    tasks: tuple[TaskStacks, ...]
    note: str = ""
    """Why stacks are missing, and the setting of this machine that would change this."""


class NewMaster(msgspec.Struct, frozen=True):
    """A standby took over from the master by itself, and tells where nodes find what the master has."""

    term: int
    """Of its store."""
    host: str
    """Of its redis, as ``port``."""
    port: int
    collector: str
    """``HOST:PORT``, as ``task_redis_server``. Empty: there is none."""
    task_redis_server: str
    url: str = ""
    """Of its API. Empty: it is older and does not say."""


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
    """The calls about one kind of channel. ``owner``: what the path of one says of its owner.

    The query parameter ``after`` of a call for output is ``next`` of the answer before. The node waits for output.
    """

    def __init__(self, path: str, owner: str, asked: type[Asked], output: type[Answered], given: type[Given]) -> None:
        self.open = NodeCall("POST", path, asked, Opened)
        path = f"{path}{owner}/<name>"
        self.output = NodeCall("GET", f"{path}/output", NoContent, output)
        self.input = NodeCall("POST", f"{path}/input", given, Accepted)
        self.close = NodeCall("DELETE", path, NoContent, NoContent)


NOTHING = NoContent()
STATUS = NodeCall("GET", "/v1/status", NoContent, NodeStatus)
END_USER = NodeCall("DELETE", "/v1/users/<user>", NoContent, NoContent)
"""Ends all channels of a Grass user on the node."""
PROGRAMS = NodeCall("POST", "/v1/image", ImagePrograms, FoundPrograms)
MASTER_LIVES = NodeCall("POST", "/v1/witness/master", MasterLives, WitnessAnswer)
NEW_MASTER = NodeCall("POST", "/v1/master", NewMaster, NoContent)
VOTE = NodeCall("POST", "/v1/witness/vote", AskVote, WitnessAnswer)
STACKS = NodeCall("POST", "/v1/stacks", AskStacks, NodeStacks)

EXEC = ChannelCalls("/v1/exec", "/<user>/<job_id>/<task>", OpenExec, ExecOutput, ExecInput)
RESIZE = NodeCall("POST", f"{EXEC.close.path}/resize", ExecSize, NoContent)
FORWARD = ChannelCalls("/v1/forward", "/<user>/<job_id>", OpenForward, ForwardOutput, ForwardInput)
CLOSE_CONNECTION = NodeCall("DELETE", f"{FORWARD.close.path}/connections/<number>", NoContent, NoContent)
TASK_EXEC = ChannelCalls("/v1/tasks/exec", "", OpenTaskExec, ExecOutput, ExecInput)
SIGNAL = NodeCall("POST", f"{TASK_EXEC.close.path}/signal", TaskSignal, NoContent)
