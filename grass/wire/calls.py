"""The requests of the API, as JSON: one type per request. The OpenAPI document is generated from them.

The client sends them, the API server reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from grass.model.names import REQUEST_ID
from grass.model.runtime import PROCESSES_ONLY
from grass.wire.checks import MOST_NODES, Level, Measurements
from grass.wire.cloud import CloudCosts
from grass.wire.job_file import JobFile
from grass.wire.operation_record import OperationKind

Document = dict[str, Any]  # Any: the errors of its reader name every problem with its path, which a type could not
"""A JSON object that other code reads: ``grass.manifest`` a user's document, ``joserfc`` a public key."""


LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {"file": "it keeps no copy of the job file", "unfinished": "a line is shown once it has ended"}
)
"""Fields that a call can do without, and what an older cluster then does not do."""


MOST_DELAY = 365 * 86_400
"""Seconds for which a job can be put off."""


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. An unknown field is an error."""


class NoContent(Call, frozen=True):
    """No fields: the path says everything."""


class SessionRequest(Call, frozen=True, forbid_unknown_fields=False):
    """Unknown fields are ignored, so that a client of another protocol gets a clear answer."""

    protocol: int
    """What the client speaks."""
    version: str
    """Version of Grass on the client."""


class Submission(Call, frozen=True):
    """Start a job."""

    manifest: Document
    """The user's document, in any of the dialects; ``grass.manifest`` reads it."""
    strict: bool = False
    """Refuse warnings, and what no node could ever satisfy."""
    cwd: str | None = None
    """Folder in which the tasks of a native job run, if the nodes are the client's machine."""
    shell: dict[str, str] = {}
    """Selected variables of the client's shell, for tasks that run as processes, if the nodes are the client's
    machine."""
    process: dict[str, int] = {}
    """Umask and soft limits of the client, as in ``grass.model.process_settings``, for the same tasks."""
    id: str | None = None
    """NAME-xxxxxxxx. Sent again with the same id, nothing is started twice."""
    file: JobFile | None = None
    """The text from which the client made ``manifest``; it is kept to be shown."""
    hold: bool = False
    """Start nothing of it until it is released."""
    delay: Annotated[float, Meta(ge=0, le=MOST_DELAY)] | None = None
    """Seconds from now before which nothing of it starts. A difference, because clocks of machines differ."""
    after_namesake: bool = False
    """While jobs of its name are active, wait until they have ended, under the name with a number: ``NAME.2``."""


class Preview(Call, frozen=True):
    """Plan a job without starting it (`grass job plan`)."""

    manifest: Document
    shell: dict[str, str] = {}
    """Environment of the shell, as in a submission. Programs of frameworks are looked for on its PATH."""


class LogQuery(Call, frozen=True):
    """Which lines of a job's log to send, and where an earlier stream stopped."""

    component: str | None = None
    index: int | None = None
    tail: int | None = None
    """Number of last lines."""
    since: float | None = None
    """Only lines that are newer: seconds since the epoch."""
    follow: bool = False
    unfinished: bool = False
    """With ``follow``: send also what a task has written of a line so far. The rest of the line follows."""
    cursor: dict[str, dict[str, int]] | None = None
    """All cursors of an earlier stream, merged."""
    before: float | None = None
    """What the earlier stream said."""


class Stop(Call, frozen=True):
    """Stop a job, or some of its tasks."""

    grace: float | str | None = None
    """Between TERM and KILL: seconds, or a duration such as ``1m``."""
    tasks: list[str] = []
    """Only these tasks or components, such as ``worker.3`` or ``worker``. They do not start again."""


class StacksQuery(Call, frozen=True):
    """Ask what the processes of running tasks do now."""

    tasks: list[str] = []
    """Only these tasks or components, such as ``worker.3`` or ``worker``; empty: all."""


class Rerun(Call, frozen=True):
    """Start a finished job again as a new run."""

    failed: bool = False
    """Start only the tasks that did not succeed."""
    resume: bool = False
    """Start the tasks that did not succeed, and all tasks of components that depend on theirs."""
    id: str | None = None
    """Id of the new run: NAME-xxxxxxxx. A repeated request with the same id starts nothing twice."""


class JobChange(Call, frozen=True):
    """Change settings of a job that has not ended. What is left out stays."""

    priority: int | None = None
    timeout: float | str | None = None
    """Seconds, or a duration such as ``1m``; 0: no limit. Of a job that runs, it counts from the same moment as the old
    one, or from now if there was none."""
    parallelism: dict[str, int] = {}
    """Component → most tasks at once; 0: no limit."""


class OperationRequest(Call, frozen=True):
    """File an operation on a job that runs or is suspended. The answer comes at once; wait for the operation's end."""

    kind: OperationKind
    """``scale``, ``suspend``, ``resume``, ``restart`` or ``replace``."""
    component: str | None = None
    """The component to scale."""
    size: int | None = None
    """For a scaling: the new number of tasks."""
    delta: int | None = None
    """For a scaling: how many tasks more, or fewer if negative, than there are when the operation begins."""
    remove: list[str] = []
    """For a scaling: tasks that leave first, such as ``worker.3``. For a replacement: the one task."""
    partial: bool = False
    """For a scaling: whether a part of the new tasks suffices."""
    deadline: float | str | None = None
    """How long new tasks may take until they are ready, or tasks that leave until they are told to stop: seconds, or a
    duration such as ``1m``."""
    reason: str = ""
    """Why, for people."""
    id: str | None = None
    """Id of the operation: 8 hexadecimal digits. A repeated request with the same id does nothing twice."""


class ScheduleRequest(Call, frozen=True):
    """Pause, resume or run a schedule."""

    id: str | None = None
    """Id of this request: 8 hexadecimal digits. A repeated request with the same id does nothing twice."""


class ScheduleSubmission(Call, frozen=True):
    """Start a schedule. The fields are those of a submission."""

    manifest: Document
    cwd: str | None = None
    shell: dict[str, str] = {}
    process: dict[str, int] = {}
    retry: bool = False
    """Whether this repeats a submission whose reply may have been lost."""


class Exec(Call, frozen=True):
    """Start a command beside a running task."""

    argv: list[str]
    tty: bool = False
    """Whether the command gets a terminal; all output is then stdout."""
    rows: int | None = None
    cols: int | None = None


class ExecInput(Call, frozen=True):
    """A piece of the command's standard input."""

    data: bytes = b""
    """Base64."""
    end: bool = False
    at: Annotated[int, Meta(ge=0)] | None = None
    """How many bytes came before. What came with an earlier request is then not written again."""


class ExecSize(Call, frozen=True):
    """The new size of the command's terminal, in characters."""

    rows: int
    cols: int


class Forward(Call, frozen=True):
    """Open a way to a port of a running task."""

    component: str | None = None
    """None: the one that publishes a page."""
    index: int | None = None
    """None: the first task that runs."""
    port: str | None = None
    """Name of the port. None: the one of the page."""


class ForwardInput(Call, frozen=True):
    """Data of one connection for the task."""

    connection: int
    """Chosen by the client; its first input opens it, also one without data."""
    at: Annotated[int, Meta(ge=0)]
    """How many bytes came before."""
    data: bytes
    """Base64."""
    end: bool = False
    """No more follows."""


class Drain(Call, frozen=True):
    """Give a node no new tasks, and empty it."""

    deadline: float | str | None = None
    """Time until its tasks are stopped: seconds or a duration. None: they run to their end."""


class NodeStop(Call, frozen=True):
    """Note that the machine of a drained node is turned off."""

    why: Annotated[str, Meta(max_length=1000)] = ""
    """What follows from it, for people."""


class CloudReport(Call, frozen=True):
    """Tell who autoscales a cluster in a cloud, and what it costs."""

    holder: Annotated[str, Meta(max_length=200)] = ""
    """Who wants to start and stop nodes: one name for each process. Empty: nobody; only the costs are told."""
    seconds: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """For how long it alone wants to start and stop nodes by itself; 0: not at all, and no longer."""
    problem: Annotated[str, Meta(max_length=2000)] = ""
    """Why it cannot."""
    costs: CloudCosts | None = None
    """What the machines cost; None: as told before."""


class NodeRemoval(Call, frozen=True):
    """Remove a node from the cluster."""

    force: bool = False
    """Remove it even if it has tasks, or does not answer."""


class NodeCheckRequest(Call, frozen=True):
    """Begin a check: a job holds the nodes while the client measures."""

    nodes: Annotated[list[str], Meta(max_length=MOST_NODES)] = []
    """Empty: all that are READY."""
    level: Level = 0
    image: str | None = None
    """Measure in a container of this image, such as one with torch and NCCL."""
    wait: bool = False
    """Whether to wait for nodes that have tasks. Otherwise the check is refused."""
    id: str | None = None
    """Id of the job: ``check-xxxxxxxx``. Sent again with the same id, nothing is started twice."""


class NodeCheckResult(Call, frozen=True):
    """What a check measured, while its job still held the nodes."""

    level: Level
    measured: Measurements


class ImageSignOff(Call, frozen=True):
    """Sign off an image that was pushed: nodes then load no other image of this name."""

    name: str
    """Name of the image, with its tag."""
    digest: str
    """Digest of the image's configuration: 64 hexadecimal digits."""
    programs: tuple[str, ...] | None = None
    """Programs of frameworks on its PATH. None: not known."""


class ImageName(Call, frozen=True):
    """Take back the sign-off of a removed image."""

    name: str


class UserRequest(Call, frozen=True):
    """Make a user and an invitation."""

    name: str
    role: Literal["admin", "user", "viewer"] = "user"
    expires: float = 86_400.0
    """Seconds for which the invitation is valid."""


class UserRole(Call, frozen=True):
    """Give a user another role."""

    role: Literal["admin", "user", "viewer"]


class UserEnd(Call, frozen=True):
    """Disable or remove a user. Their calls and streams end at once."""

    stop_jobs: bool = False
    """Also stop the user's jobs and schedules. Otherwise they go on."""


class UserRotation(Call, frozen=True):
    """Invite a user to make a new key."""

    expires: float = 86_400.0
    """Seconds for which the invitation is valid."""


class UserKey(Call, frozen=True):
    """Replace the caller's own keys."""

    key: Document
    """The new public key, as a JWK."""
    files_key: str = ""
    """The new public key for files over SSH, as ``ssh-ed25519 BASE64``. Empty: none."""


class Login(Call, frozen=True):
    """Turn an invitation into a key. Unsigned: the secret proves who calls."""

    user: str
    secret: str
    """Secret of the invitation."""
    key: Document
    """The public key that was made on the user's machine, as a JWK."""
    files_key: str = ""
    """The public key for files over SSH that was made there, as ``ssh-ed25519 BASE64``."""


class JoinTokenRequest(Call, frozen=True):
    """Make a join token."""

    name: str | None = None
    """The only node that may use it."""
    uses: int = 1
    expires: float = 3600.0
    """Seconds."""


class JoinFacts(Call, frozen=True, forbid_unknown_fields=False):
    """What a machine reports about itself. Unknown fields are ignored, so that another version gets a clear answer."""

    address: Annotated[str, Meta(min_length=1)]
    """IP address at which other hosts of the cluster reach it."""
    api_port: Annotated[int, Meta(ge=1, le=65535)]
    """Port of its node-api-server."""
    version: Annotated[str, Meta(min_length=1)]
    """Version of Grass on the machine."""


class OfferedNode(Call, frozen=True, forbid_unknown_fields=False):
    """What a machine offers as a node. None: everything that it has."""

    cpu: Annotated[int, Meta(ge=0)] | None = None
    """Thousandths of a core."""
    memory: Annotated[int, Meta(ge=0)] | None = None
    """Bytes."""
    gpu: Annotated[int, Meta(ge=0)] | None = None
    """Thousandths of a device."""
    labels: dict[str, str] = {}
    path: tuple[str, ...] = ()
    """Topology, from the outside in."""
    runtimes: tuple[str, ...] = PROCESSES_ONLY
    """``process``, ``docker``."""
    mounts: tuple[str, ...] = ()
    """Folders of the host that containers may mount."""
    share: str | None = None
    """Folder where the share is mounted already. None: the node mounts the master's share."""


class JoinQuestion(Call, frozen=True):
    """Ask whether a machine could join, as an administrator. Nothing is changed."""

    name: str
    facts: JoinFacts
    node: OfferedNode = OfferedNode()
    password: str = "none"  # noqa: S105 # nothing is made with it


class Join(Call, frozen=True):
    """Make a machine a node. Unsigned: the join token proves that it may."""

    secret: str
    """Secret of the join token. Empty: a node gets its files again, because its master was moved or replaced."""
    join_id: Annotated[str, Meta(pattern=f"^{REQUEST_ID}$")]
    """Chosen by the machine. Sent again with the same, nothing is used twice."""
    password: Annotated[str, Meta(min_length=1)]
    """The node's for redis, chosen by the machine."""
    name: str
    facts: JoinFacts
    check: bool = False
    """Only answer whether it could join, and what it must be able to reach."""
    node: OfferedNode = OfferedNode()


class NodeProof(Call, frozen=True):
    """A request of a node about itself, proved by its token."""

    token: str
    """The node's."""
    force: bool = False


class CertificateRequest(Call, frozen=True):
    """Ask for a certificate of this node."""

    token: str
    """The node's."""
    request: str
    """A certificate request in PEM form, signed with the key that the node made."""
