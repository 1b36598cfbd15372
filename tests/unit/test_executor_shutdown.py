"""The end of ``grass.Executor``, with calls that were submitted just before. The test plays the cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from grass import Client, Executor, JobView, LogLine, TaskView
from grass.errors import ConflictError, GrassError, NotFoundError, TaskDiedError
from grass.wire.job_views import StartedView
from tests.support.job_views import job_view


class Cluster:
    """A job ends without a result: after a moment, or once it is stopped. ``left``: the shutdown has returned."""

    on_this_machine = True

    def __init__(self, until_stopped: bool) -> None:
        self.left = threading.Event()
        self.patience = 20.0 if until_stopped else 0.2
        self.stopped: list[str] = []
        self.data = self

    def start(self, document: dict[str, Any]) -> StartedView:
        return StartedView("j", "j-1", ())

    def logs(self, job_id: str, **choice: Any) -> Iterator[LogLine]:
        return iter(())

    def stop(self, job_id: str) -> None:
        self.stopped.append(job_id)
        self.left.set()

    def tasks(self, job_id: str, component: str) -> list[TaskView]:
        return []

    def wait(self, job_id: str) -> JobView:
        self.left.wait(self.patience)
        return job_view(state="STOPPED")


@pytest.mark.parametrize("cancel", [False, True])
def test_shutdown_waits_for_calls_that_were_not_started_yet_and_stops_them(cancel: bool) -> None:
    cluster = Cluster(until_stopped=cancel)
    executor = Executor(cast("Client", cluster))
    future = executor.submit(pow, 2, 3)
    executor.shutdown(cancel_futures=cancel)
    done = future.done()
    cluster.left.set()
    assert done and isinstance(future.exception(20), TaskDiedError)
    assert cluster.stopped == (["j-1"] if cancel else [])


@pytest.mark.parametrize("ended", [ConflictError("already SUCCEEDED"), NotFoundError("deleted")])
def test_shutdown_stops_the_other_jobs_although_one_has_ended_at_this_moment(ended: GrassError) -> None:
    class Ended(Cluster):
        def start(self, document: dict[str, Any]) -> StartedView:
            self.starts = getattr(self, "starts", 0) + 1
            return StartedView("j", f"j-{self.starts}", ())

        def stop(self, job_id: str) -> None:
            self.stopped.append(job_id)
            if job_id == "j-1":
                raise ended
            self.left.set()

    cluster = Ended(until_stopped=True)
    executor = Executor(cast("Client", cluster), max_workers=1)
    results = [executor.map(len, ["x"]), executor.map(len, ["y"])]
    executor.shutdown(cancel_futures=True)
    for each in results:
        with pytest.raises(TaskDiedError):
            next(each)
    assert cluster.stopped == ["j-1", "j-2"]


def test_a_call_whose_job_started_keeps_its_own_end_when_a_later_job_cannot_start() -> None:
    class Full(Cluster):
        def start(self, document: dict[str, Any]) -> StartedView:
            self.starts = getattr(self, "starts", 0) + 1
            if self.starts > 1:
                raise ConflictError("no more jobs")
            return StartedView("j", "j-1", ())

    cluster = Full(until_stopped=False)
    executor = Executor(cast("Client", cluster), max_workers=14)
    results = executor.map(len, [os.urandom(55_000) for _ in range(14)])  # more than one job can have
    with pytest.raises(TaskDiedError):
        next(results)
    assert cluster.starts == 2
    executor.shutdown()
