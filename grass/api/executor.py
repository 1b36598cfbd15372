"""``grass.Executor``: functions as tasks, behind the interface of ``concurrent.futures``. Used by ``grass``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor as StandardExecutor
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from grass.api import call_packing
from grass.api.call_packing import Call, Outcome
from grass.entropy import password, run_id
from grass.errors import ConflictError, InputError, NotFoundError, TaskDiedError
from grass.model.lifecycle import JobState, NodeState

if TYPE_CHECKING:
    from grass.api.client import View
    from grass.api.typed_client import Client

T = TypeVar("T")
_GATHER = 0.02
"""Seconds for which calls of ``submit`` are gathered into one job."""
_MOST_GATHERED = 1000


class RemoteTraceback(Exception):
    """The cause of an exception that a function raised in a task: its traceback there, as text."""


class Executor(StandardExecutor):
    """Runs functions as tasks of a cluster. Functions, arguments and results travel by cloudpickle.

    ``client``: default: of the current cluster. ``cpu`` (cores), ``memory``, ``gpu``, ``image``, ``env``: of each task,
    as in a job file. ``max_workers``: most tasks of a ``map`` (default: as many as fit into the cluster).
    ``python``: the program that runs them; default: this one on a cluster of this machine, otherwise ``python3``. It
    must have cloudpickle, and nearly the version of this Python. ``keep``: keep the jobs; otherwise those that
    succeeded are deleted.

    ``map`` starts one array job for all items; ``submit`` gathers calls for 20 ms into one job. What a function prints
    is in the job's log. A future raises what the function raised, with its traceback as the cause; TaskDiedError if the
    task ended before (killed, stopped, node lost); InputError for a call that cannot be pickled or is larger than
    117 KiB.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        cpu: float = 1,
        memory: int | str | None = None,
        gpu: float | None = None,
        image: str | None = None,
        env: Mapping[str, str] | None = None,
        max_workers: int | None = None,
        python: str | None = None,
        name: str = "executor",
        keep: bool = False,
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise InputError(f"max_workers must be at least 1, got {max_workers}")
        if client is None:
            from grass.api.typed_client import Client

            client = Client()
        self._client = client.data
        self._cpu = cpu
        amounts = {"cpu": cpu, "memory": memory, "gpu": gpu}
        self._component = {
            "command": [
                python or (sys.executable if client.on_this_machine else "python3"),
                "-c",
                call_packing.PROGRAM,
            ],
            "resources": {key: amount for key, amount in amounts.items() if amount is not None},
            "env": dict(env or {}),
            **({"image": image} if image else {}),
        }
        self._max_workers = max_workers
        self._key = password().encode()
        self._name = name
        self._keep = keep
        self._lock = threading.Lock()
        self._closed = False
        self._calls: SimpleQueue[tuple[Future[Any], Call] | None] = SimpleQueue()
        self._gatherer: threading.Thread | None = None
        self._jobs: dict[str, threading.Thread] = {}

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run ``fn(*args, **kwargs)`` in a task of its own; return its future. Raises RuntimeError after shutdown."""
        future: Future[T] = Future()
        with self._lock:
            self._check_open()
            if self._gatherer is None:
                self._gatherer = threading.Thread(target=self._gather, name="grass-executor", daemon=True)
                self._gatherer.start()
            self._calls.put((future, Call(0, fn, args, kwargs)))
        return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Return the results of ``fn`` for each item, in their order; raises the exception of an item in its place.

        The items are divided among the tasks at once, so ``chunksize`` has no effect. ``timeout``: seconds per
        result; a later one raises TimeoutError. Raises RuntimeError after shutdown.
        """
        calls = [Call(number, fn, items, {}) for number, items in enumerate(zip(*iterables, strict=False))]
        futures: list[Future[Any]] = [Future() for _ in calls]
        with self._lock:
            self._check_open()
        self._start(futures, calls, self._workers(len(calls)))
        return (future.result(timeout) for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. ``wait``: until all results are there. ``cancel_futures``: stop the tasks."""
        with self._lock:
            self._closed = True
            gatherer = self._gatherer
        self._calls.put(None)
        if gatherer is not None and (wait or cancel_futures):
            gatherer.join()  # it starts the last calls
        if cancel_futures:
            for job_id in list(self._jobs):
                with suppress(ConflictError, NotFoundError):  # it has just ended, and may have been deleted
                    self._client.stop(job_id)
        if wait:
            for thread in list(self._jobs.values()):
                thread.join()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _workers(self, items: int) -> int:
        if self._max_workers is not None or not items:
            return self._max_workers or 1
        ready = [node for node in self._client.nodes() if node["state"] == NodeState.READY and node["resources"]]
        cores = sum(node["resources"]["cpu"] for node in ready) / 1000
        return max(1, int(cores // self._cpu)) if self._cpu else max(1, int(cores))

    def _gather(self) -> None:
        """Start the calls of ``submit`` until shutdown."""
        last = False
        while not last:
            first = self._calls.get()
            batch = [first] if first is not None else []
            last = first is None
            while not last and len(batch) < _MOST_GATHERED:
                try:
                    item = self._calls.get(timeout=_GATHER)
                except Empty:
                    break
                last = item is None
                batch += [item] if item is not None else []
            wanted = [(future, call) for future, call in batch if future.set_running_or_notify_cancel()]
            calls = [call._replace(number=number) for number, (_, call) in enumerate(wanted)]
            self._start([future for future, _ in wanted], calls, len(calls))

    def _start(self, futures: Sequence[Future[Any]], calls: Sequence[Call], tasks: int) -> None:
        """Start the calls, in as many jobs as their size needs. A failure to start becomes that of the futures whose
        jobs did not start."""
        if not calls:
            return
        waiting = dict(enumerate(futures))
        try:
            for job in call_packing.jobs_of(call_packing.packed_tasks(calls, tasks, self._key)):
                started = self._start_job([task.text for task in job])
                own = {number: futures[number] for task in job for number in task.numbers}
                reader = threading.Thread(target=self._collect, args=(started["id"], own), daemon=True)
                self._jobs[started["id"]] = reader
                reader.start()
                for number in own:
                    del waiting[number]
        except Exception as error:  # noqa: BLE001 those who wait must learn of it
            _fail(waiting.values(), error)

    def _start_job(self, texts: Sequence[str]) -> View:
        component = {**self._component, "from": {"entries": list(texts)}}
        return self._client.start({"name": run_id(self._name), "components": {"main": component}})

    def _collect(self, job_id: str, futures: Mapping[int, Future[Any]]) -> None:
        """Pass the results of one job on, and say what became of the calls without one."""
        try:
            for outcome in call_packing.outcomes(self._lines(job_id), self._key):
                _settle(futures[outcome.number], outcome)
            ended = self._client.wait(job_id)
            why = ended["reason"]["message"] if ended["reason"] else ended["state"]
            text = f"job {job_id}: ended without this result ({why}); `grass job logs {job_id}` shows its output"
            _fail(futures.values(), TaskDiedError(text))
            if ended["state"] == JobState.SUCCEEDED and not self._keep:
                self._client.delete(job_id)
        except Exception as error:  # noqa: BLE001 nobody else would tell those who wait: a result may not unpickle
            _fail(futures.values(), error)
        finally:
            self._jobs.pop(job_id, None)

    def _lines(self, job_id: str) -> Iterator[str]:
        for record in self._client.logs(job_id, follow=True, stream="stdout"):
            yield record["text"]


def _settle(future: Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if outcome.good:
        future.set_result(outcome.value)
        return
    error, text = outcome.value
    error.__cause__ = RemoteTraceback(f"\n{text}")
    future.set_exception(error)


def _fail(futures: Iterable[Future[Any]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
