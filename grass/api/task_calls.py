"""Calls to a running task: a command beside it, a port of it, its stacks. A part of ``Client``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.api.requests import Requests, path_of, quoted
from grass.errors import InputError

if TYPE_CHECKING:
    from grass.api.execution import Execution
    from grass.api.forwarding import Forwarding
    from grass.wire.stacks import JobStacks


class TaskCalls(Requests):
    """Commands beside tasks, and ports of tasks. Both are imported here when they are used: most calls need neither."""

    def execute(self, job: str, task: str, argv: Sequence[str], size: tuple[int, int] | None = None) -> Execution:
        """Run a command beside a running task (``component.index``); ``size``: rows and columns of its terminal.

        Raises ConflictError if the task does not run, NotFoundError.
        """
        from grass.api.execution import Execution

        if isinstance(argv, str) or not (isinstance(argv, Sequence) and all(isinstance(word, str) for word in argv)):
            raise InputError(f"a command must be a list of strings, got {argv!r}")
        return Execution(self._transport, path_of("jobs", job, "tasks", quoted("task", task), "exec"), argv, size)

    def stacks(self, job: str, tasks: Sequence[str] = ()) -> JobStacks:
        """Return what the processes of running tasks do now. ``tasks``: only these tasks or components (``worker.3``).

        Raises ConflictError if none of them runs, NotFoundError.
        """
        from grass.wire.stacks import JOB_STACKS

        return self._post(path_of("jobs", job, "stacks"), {"tasks": list(tasks)}, JOB_STACKS)

    def forward(
        self,
        job: str,
        component: str | None = None,
        index: int | None = None,
        *,
        port: str | None = None,
        local_port: int = 0,
    ) -> Forwarding:
        """Make a port of a running task a port of this machine; call ``serve`` of the result.

        Without a component: the one that publishes a page (``web``). ``local_port``: 0: a free one. Raises
        ConflictError if the task does not run, NotFoundError.
        """
        from grass.api.forwarding import Forwarding
        from grass.wire.calls import Forward

        wanted = Forward(component=component, index=index, port=port)
        return Forwarding(self._transport, path_of("jobs", job, "forward"), wanted, local_port)
