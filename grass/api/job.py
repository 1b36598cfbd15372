"""``grass.Job``: one run of a job as an object, with typed views. ``Client.submit`` returns one.

Used by ``grass`` and ``client``.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grass.errors import InputError
from grass.mode_file import keeps_files_here
from grass.model.lifecycle import JobState
from grass.wire.job_record import ComponentRecord
from grass.wire.job_views import JobView, TaskView

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.api.client_views import LogLine


class Job:
    """One run of a job. ``name``: of its latest run, or the id of a run. Methods raise the errors of ``grass.errors``.

    Views are frozen structs: ``job.view.state``, ``task.exit_code``. Times are seconds since the epoch. In a notebook
    it shows itself as a table.
    """

    def __init__(self, client: Client, name: str) -> None:
        """Look the run up. Raises NotFoundError."""
        self._client = client
        self.id: str = client.job(name, specification=False).id

    @property
    def view(self) -> JobView:
        """How the job is now, with its specification. Raises NotFoundError once it is deleted."""
        return self._client.job(self.id)

    @property
    def state(self) -> JobState:
        """Its state now, such as ``RUNNING``. Raises NotFoundError once it is deleted."""
        return self._client.job(self.id, specification=False).state

    def wait(self, timeout: float | None = None) -> JobView:
        """Wait until it has ended. Raises WaitTimeoutError after ``timeout`` seconds."""
        self._client.wait(self.id, timeout)
        return self.view

    def stop(self, grace: float | None = None) -> None:
        """Ask it to stop. ``grace``: seconds between TERM and KILL. Raises ConflictError if it has ended."""
        self._client.stop(self.id, grace)

    def tasks(self, component: str | None = None) -> list[TaskView]:
        """Return its tasks, in the order of the job. Raises NotFoundError."""
        return self._client.tasks(self.id, component)

    def logs(self, component: str | None = None, **choice: Any) -> Iterator[LogLine]:
        """Yield the lines of its tasks; the arguments are those of ``Client.logs``. Raises NotFoundError."""
        return self._client.logs(self.id, component, **choice)

    def text(self, component: str | None = None) -> str:
        """Return what its tasks have printed so far, of both streams. Raises NotFoundError."""
        records = self._client.logs(self.id, component, joined=True)
        return "".join(record.text + ("\n" if record.newline else "") for record in records)

    def output(self) -> Path:
        """Return the folder with the files that it wrote to ``GRASS_OUTPUT``.

        Only on a cluster of this machine. Raises InputError elsewhere: ``pull`` fetches the files.
        """
        if not keeps_files_here(self._client.folder):
            raise InputError(f"job {self.id}: its files are on other machines; fetch them with its method pull")
        return self._client.folder / "data" / "jobs" / self.id

    def pull(self, path: str = "", local: str | Path | None = None, *, force: bool = False) -> int:
        """Fetch the files that it wrote to ``GRASS_OUTPUT``, or ``path`` of them, to ``local`` (default: ``./ID``).

        Of a rerun of failed tasks, also those of the earlier runs.

        Return the number of bytes compared. Raises NotFoundError, UnreachableError; ConflictError if it would overwrite
        files that were edited here, without ``force``.
        """
        return self._client.pull_job(self.id, path, local or self.id, force=force)

    def delete(self) -> None:
        """Delete it with its logs, once it has ended. Raises ConflictError before."""
        self._client.delete(self.id)

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def _repr_html_(self) -> str:
        view = self.view
        rows = "".join(_row(name, part) for name, part in view.components.items())
        reason = f" ({escape(view.reason.message)})" if view.reason else ""
        head = f"<b>{escape(view.name)}</b> {escape(self.id)}: {view.state.value}{reason}"
        return f"<p>{head}</p><table><tr><th>component</th><th>replicas</th><th>tasks</th></tr>{rows}</table>"


def _row(name: str, part: ComponentRecord) -> str:
    counts = ", ".join(f"{count} {state.value.lower()}" for state, count in part.counts.items())
    return f"<tr><td>{escape(name)}</td><td>{part.replicas}</td><td>{escape(counts)}</td></tr>"
