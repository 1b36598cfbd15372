"""The errors that Grass raises deliberately, by what the caller can do about them.

GrassError
├── InputError            fix the input; nothing was changed          (exit 2)
│   ├── ManifestError     … a file, with the path to every problem
│   ├── CommandNotExecutableError … a command beside a task           (exit 126)
│   └── CommandNotFoundError      … a command beside a task           (exit 127)
├── UndecodableError      a message, a record or a file of Grass is damaged, or of another version
├── ConflictError         the name is taken or the state forbids it   (exit 2)
│   └── NewerVersionError     … a newer Grass wrote what this one would change
├── NotFoundError         no such job, schedule, node or cluster      (exit 2)
├── NotAllowedError       the role or the key does not permit it      (exit 4)
│   └── ReplayedError         … a sealed request that was seen before
├── UnreachableError      retry: the cluster does not answer          (exit 3)
│   ├── NodeUnreachableError  … the master answers, but a node does not
│   ├── CertificateError      … a certificate of this host, or the key that signs them, has to be mended first
│   ├── MasterAwayError       … the API answers, but the master-agent does not
│   ├── TooManyCallsError     … as many calls of this user are being answered as one user may have
│   └── StoreRefusesError     … the master answers, but its store refuses writes
│       └── StoreFullError        … because the store's disk is full    (exit 74)
├── TaskDiedError         a task of an Executor ended without the result of a call
├── RemoteCallError       a call of an Executor ended with something that cannot be brought here as an object
├── WaitTimeoutError      wait longer: the work continues             (exit 124)
└── StaleLeaseError       end: another master-agent took over

KeyboardInterrupt
└── ChangeInterrupted         Ctrl-C while a request that changes something was on its way  (exit 130)
    └── SubmissionInterrupted     … the submission of a job

An error of one module is a subclass beside the code that raises it. Exceptions of libraries are translated at the edge,
with ``from``. Nothing branches on message text. Used by all packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class GrassError(Exception):
    """Root of the tree. ``code``: the stable word in API replies. ``exit_code``: of the CLI."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


class InputError(GrassError):
    """The request itself is wrong. Nothing was changed."""

    code = "bad-input"
    exit_code = 2
    http_status = 400


@dataclass(frozen=True)
class Problem:
    """One fault in a file: ``path`` is dotted (``components.actor.num``), empty for the whole file."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ManifestError(InputError):
    """A file that cannot be accepted, with all its problems at once."""

    code = "bad-manifest"

    def __init__(self, problems: list[Problem], source: str = "") -> None:
        self.problems = problems
        self.source = source
        lines = [f"{source}: {problem}" if source else str(problem) for problem in problems]
        super().__init__("\n".join(lines))


class UndecodableError(GrassError):
    """Text that does not match its type in ``grass.wire``. ``path`` is dotted; empty for the whole text."""

    code = "undecodable"

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}" if path else problem)


class CommandNotExecutableError(InputError):
    """A command beside a task exists but cannot be run."""

    code = "command-not-executable"
    exit_code = 126


class CommandNotFoundError(InputError):
    code = "command-not-found"
    exit_code = 127


class ConflictError(GrassError):
    """The state of the cluster forbids the request; it may succeed later."""

    code = "conflict"
    exit_code = 2
    http_status = 409


class NewerVersionError(ConflictError):
    """A newer Grass wrote the cluster's files or its store. Nothing was changed."""

    code = "newer-version"


class NotFoundError(GrassError):
    """There is no such thing, or the caller may not know of it."""

    code = "not-found"
    exit_code = 2
    http_status = 404


class NotAllowedError(GrassError):
    """The role, the key or a token does not permit it."""

    code = "not-allowed"
    exit_code = 4
    http_status = 403


class ReplayedError(NotAllowedError):
    code = "replayed"
    http_status = 401


class UnreachableError(GrassError):
    """Somebody did not answer. Whether the request was carried out may be unknown; it may be repeated."""

    code = "unreachable"
    exit_code = 3
    http_status = 503


class NodeUnreachableError(UnreachableError):
    """The master cannot reach the node of a request."""

    code = "node-unreachable"


class StoreRefusesError(UnreachableError):
    """The store answers and refuses writes. Reads work; the same write may succeed later."""

    code = "store-refuses-writes"


class StoreFullError(StoreRefusesError):
    code = "store-full"
    exit_code = 74
    http_status = 507


class CertificateError(UnreachableError):
    """A file of a host's TLS is missing or wrong. Nothing can be sent or received until it is mended."""

    code = "certificate"


class MasterAwayError(UnreachableError):
    """The API answers, but the master-agent does not: it is stopped, busy or starting."""

    code = "master-away"


class TooManyCallsError(UnreachableError):
    """A later call succeeds, so clients repeat this one for a while."""

    code = "too-many-calls"
    http_status = 429


class TaskDiedError(GrassError):
    """A task of ``grass.Executor`` ended without a result: killed, stopped, out of memory, or its node was lost."""

    code = "task-died"


class RemoteCallError(GrassError):
    """A call of ``grass.Executor`` raised or returned something that cannot be pickled or unpickled.

    ``type_name``: of the exception in the task. ``traceback``: its text there; empty if there is none.
    """

    code = "remote-call"

    def __init__(self, message: str, type_name: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name
        self.traceback = traceback


class WaitTimeoutError(GrassError):
    """The time of a wait is over; what was waited for goes on."""

    code = "timeout"
    exit_code = 124
    http_status = 504


class ChangeInterrupted(KeyboardInterrupt):
    """Ctrl-C came while a request that changes something was on its way. The text says what may still happen."""


class SubmissionInterrupted(ChangeInterrupted):
    """Ctrl-C came while a job was being submitted. ``job_id``: of the job, which may run."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id}: interrupted while it was being submitted; it may run; `grass job stop {job_id}` stops it"
        )
        self.job_id = job_id


class StaleLeaseError(GrassError):
    """Another master-agent took over. This one must end without another write."""

    code = "stale-lease"
