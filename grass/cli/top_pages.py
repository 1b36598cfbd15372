"""Read the pages of `grass top` and carry out its actions, in a thread, so that keys work while the cluster is slow.

Used by ``top``, which gets the results through its queue.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from grass.cli.job_curves import read_histories
from grass.cli.job_text import job_page
from grass.cli.sparkline import curve_lines
from grass.cli.top_actions import Action
from grass.errors import GrassError
from grass.system import clock

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView
    from grass.wire.status_views import DiskView

_TASKS, _LOG_LINES, _CURVES = 100, 500, 3
"""Tasks in the details, lines of a log, and tasks whose curves are drawn: those that used most cpu."""


class Asked(NamedTuple):
    """A page of a job that the user opened.

    ``what``: details or logs. ``width``: of the screen.
    """

    what: str
    job_id: str
    width: int


class Page(NamedTuple):
    asked: Asked
    lines: list[str]


class Said(NamedTuple):
    """What came of an action."""

    text: str


class Disks(NamedTuple):
    """News of the master's disks.

    ``of``: the disks of the master, as in ``StatusView``.
    """

    of: Sequence[DiskView]


class Pages:
    """The thread that calls the API.

    ``news``: where pages and answers go. One call at a time.
    """

    def __init__(self, client: Client, news: queue.SimpleQueue[Any]) -> None:
        self._client = client
        self._news = news
        self._calls: queue.SimpleQueue[Asked | tuple[Action, JobView] | None] = queue.SimpleQueue()
        self._newest: Asked | None = None
        threading.Thread(target=self._run, name="pages", daemon=True).start()

    def ask(self, asked: Asked) -> None:
        """Have a page read. Pages that were asked for before, and are not read yet, are left out."""
        self._newest = asked
        self._calls.put(asked)

    def look_at_disks(self) -> None:
        """Have the disks of the master read, which the change feed does not contain."""
        self._calls.put(None)

    def act(self, action: Action, job: JobView) -> None:
        self._calls.put((action, job))

    def _run(self) -> None:
        while True:
            call = self._calls.get()
            if call is None:
                with suppress(GrassError):  # the feed says that the cluster is away
                    self._news.put(Disks(self._client.status().disks))
            elif not isinstance(call, Asked):
                self._news.put(Said(self._done(*call)))
            elif call == self._newest:
                self._news.put(Page(call, self._read(call)))

    def _done(self, action: Action, job: JobView) -> str:
        try:
            action.act(self._client, job.id)
        except GrassError as error:
            return str(error)
        return f"job {job.name}: {action.done}"

    def _read(self, asked: Asked) -> list[str]:
        """Return the text of the page. An error is its text."""
        try:
            return self._details(asked) if asked.what == "details" else self._logs(asked)
        except GrassError as error:
            return [str(error)]

    def _details(self, asked: Asked) -> list[str]:

        client, now = self._client, clock.wall()
        job = client.job(asked.job_id, specification=False)
        usage = client.job_usage(job.id, first=_CURVES)
        job = structs.replace(job, usage=usage.totals)  # with what running tasks have used so far
        histories = read_histories(client, job, usage, now)
        curves = curve_lines(histories, client.job_metrics(job.id), asked.width)
        count = sum(part.replicas for part in job.components.values())
        return job_page(job, client.tasks(job.id, first=_TASKS), count, now, asked.width, curves=curves)

    def _logs(self, asked: Asked) -> list[str]:
        lines = self._client.logs(asked.job_id, tail=_LOG_LINES)
        return [f"{line.task} | {line.text.rstrip()}" for line in lines] or ["no output yet"]
