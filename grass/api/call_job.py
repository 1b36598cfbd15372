"""One job with calls of an executor: passes results to the futures. Used by ``executor``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from grass.api.call_packing import PackedTask
from grass.api.call_results import Outcome, outcomes
from grass.errors import TaskDiedError
from grass.model.lifecycle import JobState

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.wire.job_views import JobView, TaskView

COMPONENT = "main"
"""The component of such a job. Its tasks are in the order of the packed tasks."""


class CallJob:
    """A started job. ``tasks``: its calls; ``futures``: of these, by number. ``keep``: do not delete it at its end."""

    def __init__(
        self,
        client: Client,
        job_id: str,
        tasks: Sequence[PackedTask],
        futures: Mapping[int, Future[Any]],
        keep: bool,
    ) -> None:
        self.id = job_id
        self._client = client
        self._tasks = tasks
        self._futures = futures
        self._keep = keep

    def read(self, key: bytes) -> None:
        """Pass the results on until the job has ended, and say what became of the calls without one."""
        try:
            for outcome in outcomes(self._lines(), key, self.id):
                settle(self._futures[outcome.number], outcome)
            ended = self._client.wait(self.id)
            lost = any(not future.done() for future in self._futures.values())
            if lost:
                self._fail_lost(ended)
            if ended.state is JobState.SUCCEEDED and not self._keep and not lost:
                self._client.delete(self.id)
        except Exception as error:  # noqa: BLE001 nobody else would tell those who wait
            fail(self._futures.values(), error)

    def _lines(self) -> Iterator[str]:
        for record in self._client.logs(self.id, follow=True, stream="stdout"):
            yield record.text

    def _fail_lost(self, job: JobView) -> None:
        """Fail the calls without a result. A task runs its calls in order: the first of them is the one that it ran."""
        views = {view.task: view for view in self._client.tasks(self.id, COMPONENT)}
        for index, task in enumerate(self._tasks):
            name = f"{COMPONENT}.{index}"
            why = _reason(views.get(name, job))
            what = "ended without the result of this call"
            for number in task.numbers:
                if not self._futures[number].done():
                    text = f"job {self.id}: {name} {what} ({why}); `grass job logs {self.id}` shows its output"
                    self._futures[number].set_exception(TaskDiedError(text))
                    what = "ended before it ran this call"


def _reason(view: JobView | TaskView) -> str:
    return view.reason.message if view.reason else view.state.value


def settle(future: Future[Any], outcome: Outcome) -> None:
    """Give a future its outcome; the first one counts."""
    if future.done():
        return
    if outcome.error is None:
        future.set_result(outcome.value)
    else:
        future.set_exception(outcome.error)


def fail(futures: Iterable[Future[Any]], error: Exception) -> None:
    """Give the futures that wait this error."""
    for future in futures:
        if not future.done():
            future.set_exception(error)
