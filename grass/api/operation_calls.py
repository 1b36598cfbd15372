"""Calls that change a job after its submission: rerun, hold, and operations such as scale. A part of ``Client``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grass.api.requests import Requests, path_of, quoted
from grass.api.transport import PlainData, with_query
from grass.errors import ChangeInterrupted, InputError, SubmissionInterrupted, WaitTimeoutError
from grass.system import clock
from grass.system.entropy import operation_id, run_id
from grass.wire.waits import LONGEST_WAIT

if TYPE_CHECKING:
    from grass.wire.job_views import JobView, OperationView, StartedView


class OperationCalls(Requests):
    """Changes of a job. Each is durable when its call returns."""

    def rerun(self, name: str, failed: bool = False, resume: bool = False) -> StartedView:
        """Start a finished job again, as a new run. ``failed``: only the tasks that did not succeed. ``resume``: these,
        and all tasks of components that depend on theirs.

        Raises ConflictError if the job is active, or nothing failed.
        """
        from grass.wire.job_views import JOB, STARTED

        record = self._get(path_of("jobs", name), JOB, specification=False)
        new_id = run_id(record.name)
        body = {"failed": failed, "id": new_id, **({"resume": True} if resume else {})}
        interrupted = SubmissionInterrupted(new_id)
        return self._post(path_of("jobs", record.id, "rerun"), body, STARTED, interrupted=interrupted)

    def hold(self, name: str) -> JobView:
        """Start nothing of a queued job until ``release``. Raises ConflictError for a job that has begun,
        NotFoundError."""
        from grass.wire.job_views import JOB

        return self._post(path_of("jobs", name, "hold"), {}, JOB)

    def release(self, name: str) -> JobView:
        """Let a held job start. Raises ConflictError if it is not held, NotFoundError."""
        from grass.wire.job_views import JOB

        return self._post(path_of("jobs", name, "release"), {}, JOB)

    def set(
        self,
        name: str,
        *,
        priority: int | None = None,
        timeout: float | str | None = None,
        parallelism: Mapping[str, int] | None = None,
    ) -> JobView:
        """Change settings of a job that has not ended. What is left out stays.

        ``priority``: 0 to 1000. ``timeout``: of the job, in seconds or as ``2h``; 0: no limit. ``parallelism``:
        component → most tasks at once; 0: all. Raises ConflictError for a job that has ended, InputError,
        NotFoundError.
        """
        from grass.wire.job_views import JOB

        given = {"priority": priority, "timeout": timeout, "parallelism": parallelism}
        body = {key: value for key, value in given.items() if value is not None}
        return self._post(path_of("jobs", name, "set"), body, JOB)

    def scale(
        self,
        name: str,
        component: str,
        size: int | None = None,
        *,
        delta: int | None = None,
        remove: Sequence[str] = (),
        partial: bool = False,
        deadline: float | None = None,
        reason: str = "",
        operation: str | None = None,
    ) -> OperationView:
        """Change the size of a component while its job runs. Return the operation; ``wait_for_operation`` waits.

        ``size`` or ``delta`` (+1, -1). ``remove``: tasks that leave first. ``partial``: be content with a part of the
        new tasks. ``deadline``: seconds until new tasks must be ready, or until tasks that leave are told to stop.
        ``reason``: a note for the log. ``operation``: its id, 8 hexadecimal digits (by default a new one); with the
        id of an earlier operation on this job, nothing is filed, and that one is returned. Raises ConflictError,
        InputError, NotFoundError.
        """
        if isinstance(remove, str):
            raise InputError(f"remove must be a list of tasks, got {remove!r}")
        body = {"component": component, "size": size, "delta": delta, "remove": list(remove), "partial": partial}
        return self._operate(name, "scale", {**body, "deadline": deadline, "reason": reason}, operation)

    def suspend(self, name: str, deadline: float | None = None, reason: str = "") -> OperationView:
        """Stop all tasks of a job and release its resources until ``resume``. Return the operation.

        ``deadline``: seconds that tasks may take to leave by themselves (None: 30 with a framework,
        otherwise none). ``reason``: a note. Raises ConflictError, NotFoundError.
        """
        return self._operate(name, "suspend", {"deadline": deadline, "reason": reason})

    def resume(self, name: str, reason: str = "") -> OperationView:
        """Queue a suspended job again. Return the operation. Raises ConflictError if it is not suspended,
        NotFoundError."""
        return self._operate(name, "resume", {"reason": reason})

    def restart(self, name: str, deadline: float | None = None, reason: str = "") -> OperationView:
        """Stop all tasks of a job, and start all of them again. Return the operation.

        ``deadline``: seconds that tasks may take to leave by themselves (None: 30 with a framework,
        otherwise none). ``reason``: a note. Raises ConflictError, NotFoundError.
        """
        return self._operate(name, "restart", {"deadline": deadline, "reason": reason})

    def replace(self, name: str, task: str, deadline: float | None = None, reason: str = "") -> OperationView:
        """Stop a task (``worker.3``), and start it again on another node. Return the operation.

        With a framework, the task may take 30 seconds to leave by itself. ``deadline``: seconds until it must run again
        (None: 600 from its end). ``reason``: a note. Raises ConflictError, NotFoundError.
        """
        return self._operate(name, "replace", {"remove": [task], "deadline": deadline, "reason": reason})

    def operations(self, name: str) -> list[OperationView]:
        """Return the operations on a job, in the order in which they were filed. Raises NotFoundError."""
        from grass.wire.job_views import OPERATIONS

        return [*self._get(path_of("jobs", name, "operations"), OPERATIONS).operations]

    def cancel_operation(self, name: str, operation: str) -> OperationView:
        """Cancel an operation. Raises ConflictError if it has ended or cannot be undone any more."""
        from grass.wire.job_views import OPERATION

        return self._delete(path_of("jobs", name, "operations", quoted("operation", operation)), OPERATION)

    def wait_for_operation(self, name: str, operation: str, timeout: float | None = None) -> OperationView:
        """Wait until an operation has ended and return it. Raises WaitTimeoutError after ``timeout`` seconds."""
        from grass.wire.job_views import OPERATION_WAITED
        from grass.wire.operation_record import OperationState

        path = path_of("jobs", name, "operations", quoted("operation", operation))
        until = None if timeout is None else clock.steady() + timeout
        while True:
            left = LONGEST_WAIT if until is None else max(0.0, min(LONGEST_WAIT, until - clock.steady()))
            target = with_query(path, {"timeout": f"{left:.3f}"})
            answer = self._transport.read(OPERATION_WAITED, "GET", target, wait=left)
            found = answer.operation
            if found.state is OperationState.ENDED:
                return found
            if until is not None and clock.steady() >= until:
                raise WaitTimeoutError(f"operation {operation}: still {found.state.value} after {timeout:g} s")
            clock.sleep(answer.pause)

    def _operate(self, name: str, kind: str, body: PlainData, operation: str | None = None) -> OperationView:
        from grass.wire.job_views import OPERATION

        new_id = operation or operation_id()
        interrupted = ChangeInterrupted(
            f"job {name}: interrupted; operation {new_id} ({kind}) may still be carried out; "
            f"`grass job operations {name}` shows it"
        )
        filed = {"kind": kind, "id": new_id, **body}
        return self._post(path_of("jobs", name, "operations"), filed, OPERATION, interrupted=interrupted)
