"""Wait for a job, and show its progress. Used by ``job``, ``job_logs`` and ``run``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grass.cli.exits import Exit
from grass.cli.job_text import job_line, job_reason
from grass.cli.output import Output
from grass.errors import WaitTimeoutError
from grass.model.lifecycle import JobState
from grass.system import clock

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView


def until_ended(client: Client, output: Output, name: str, timeout: float | None) -> JobView:
    """Return the job's last view. Raise WaitTimeoutError after ``timeout`` seconds.

    The job goes on after the error, as it does after Ctrl-C.
    """
    said = ""

    def tell(view: JobView) -> None:
        nonlocal said
        line = job_line(view)
        if line != said and not view.state.ended:
            said = line
            output.progress(line)

    try:
        return client.wait(name, timeout=timeout, on_progress=tell)
    except KeyboardInterrupt:
        output.note(f"no longer waiting; {name} continues")
        raise


def until_any_or_all(
    client: Client, output: Output, names: Sequence[str], timeout: float | None, *, first: bool
) -> list[JobView]:
    """Return the last views of the jobs that were waited for: of one if ``first``, otherwise of all, in their order."""
    until = None if timeout is None else clock.steady() + timeout
    jobs = [client.job(name, specification=False).id for name in names]  # later runs of these names are not meant
    try:
        if first:
            return [client.wait_any(jobs, timeout)]
        return [_until(client, job, until, timeout) for job in jobs]
    except KeyboardInterrupt:
        output.note("no longer waiting; the jobs continue")
        raise


def _until(client: Client, job: str, until: float | None, timeout: float | None) -> JobView:
    """Wait for a job until a moment. The error names ``timeout``, not what is left of it."""
    try:
        return client.wait(job, None if until is None else max(0.0, until - clock.steady()))
    except WaitTimeoutError as error:
        raise WaitTimeoutError(f"job {job} has not ended after {timeout:g} s; it goes on") from error


class _Started(Exception):
    """Ends the wait for a job that is no longer queued."""


def until_started(client: Client, output: Output, job_id: str) -> None:
    """Wait until the job is no longer queued, and say why it waits, whenever that changes."""
    said: str | None = None

    def tell(view: JobView) -> None:
        nonlocal said
        if view.state is not JobState.QUEUED:
            raise _Started
        reason = job_reason(view)
        if reason != said:
            said = reason
            output.note(f"{view.name}: QUEUED ({reason})")

    try:
        client.wait(job_id, on_progress=tell)
    except _Started:
        return


def exit_of(job: JobView) -> Exit:
    return Exit.OK if job.state is JobState.SUCCEEDED else Exit.JOB_FAILED
