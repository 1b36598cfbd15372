"""``grass.Executor``: functions as tasks, behind the interface of ``concurrent.futures``. Used by ``grass``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import Executor as StandardExecutor
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from grass.api import call_packing, driver_path, executor_end
from grass.api.call_files import CallFiles
from grass.api.call_job import COMPONENT, CallJob, fail
from grass.api.call_packing import Call, PackedTask
from grass.api.call_program import program
from grass.api.executor_slots import Slots
from grass.errors import ConflictError, GrassError, InputError, NotFoundError, SubmissionInterrupted
from grass.model.lifecycle import NodeState
from grass.system import clock
from grass.system.entropy import password, run_id

if TYPE_CHECKING:
    from grass.api.client import Client

T = TypeVar("T")
_GATHER = 0.02
"""Seconds for which calls of ``submit`` are gathered into one job."""
_MOST_GATHERED = 1000


class Executor(StandardExecutor):
    """Runs functions as tasks of a cluster. Functions, arguments and results travel by cloudpickle.

    ``first``: ``max_workers`` or ``client``. ``max_workers``: most tasks of a ``map``, and most calls of ``submit`` at
    once (default: as many as fit into the cluster). ``client``: default: of the current cluster. ``cpu`` (cores),
    ``memory``, ``gpu``, ``image``, ``env``: of each task, as in a job file. ``python``: the program that runs them;
    default: this one on a cluster of this machine, otherwise ``python3``. It must have cloudpickle, and nearly the
    version of this Python. ``keep``: keep the jobs; otherwise those that succeeded are deleted.

    ``map`` starts one array job for all items; ``submit`` gathers calls for 20 ms into one job. What a function prints
    is in the job's log. A future raises what the function raised, with its traceback as the cause; RemoteCallError if
    that cannot be brought here; TaskDiedError if the call ended its process, or its task ended before (stopped, node
    lost); InputError for a call that cannot be pickled, or has a value of more than 256 MiB after compression. No call
    has the error of another.

    Large functions and arguments travel in files of the share, each once: ``$GRASS_DATA/executors/…``. ``shutdown``
    removes them, unless ``keep``.

    Modules of the driver's own folders (``sys.path``) work in tasks. The interpreter waits for its calls before it
    ends. Ctrl-C in a ``with`` stops its jobs.
    """

    def __init__(
        self,
        first: Client | int | None = None,
        /,
        *,
        client: Client | None = None,
        max_workers: int | None = None,
        cpu: float = 1,
        memory: int | str | None = None,
        gpu: float | None = None,
        image: str | None = None,
        env: Mapping[str, str] | None = None,
        python: str | None = None,
        name: str = "executor",
        keep: bool = False,
    ) -> None:
        if isinstance(first, int):
            max_workers = first
        elif first is not None:
            client = first
        if max_workers is not None and max_workers < 1:
            raise InputError(f"max_workers must be at least 1, got {max_workers}")
        if client is None:
            from grass.api.client import Client

            client = Client()
        self._client = client
        self._cpu = cpu
        amounts = {"cpu": cpu, "memory": memory, "gpu": gpu}
        self._component = {
            "command": [
                python or (sys.executable if client.on_this_machine else "python3"),
                "-c",
                program(),
            ],
            "resources": {key: amount for key, amount in amounts.items() if amount is not None},
            "env": dict(env or {}),
            **({"image": image} if image else {}),
        }
        self._max_workers = max_workers
        self._slots = None if max_workers is None else Slots(max_workers)
        self._finds_files = client.on_this_machine and not image
        """Whether tasks find the files of the driver."""
        self._key = password().encode()
        self._name = name
        self._keep = keep
        self._files = CallFiles(client, f"executors/{run_id(name)}")
        self._lock = threading.Lock()
        self._closed = False
        self._calls: SimpleQueue[tuple[Future[Any], Call] | None] = SimpleQueue()
        self._gatherer: threading.Thread | None = None
        self._jobs: dict[str, threading.Thread] = {}
        self._unsure: list[str] = []
        """Jobs whose submission Ctrl-C interrupted."""
        executor_end.wait_at_exit(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Wait for all results. After Ctrl-C: stop the jobs, and do not wait."""
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.interrupt()
            return None
        return super().__exit__(kind, error, trace)

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

        The items are divided among the tasks at once, at least ``chunksize`` for each task. ``timeout``: seconds from
        this call on; a later result raises TimeoutError. An iterator that raised or was dropped stops the rest.
        Raises RuntimeError after shutdown.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        until = None if timeout is None else clock.steady() + timeout
        calls = [Call(number, fn, items, {}) for number, items in enumerate(zip(*iterables, strict=False))]
        futures: list[Future[Any]] = [Future() for _ in calls]
        with self._lock:
            self._check_open()
        tasks = min(self._workers(len(calls)), -(-len(calls) // chunksize))
        jobs = self._start(futures, calls, tasks)
        return self._results(futures, jobs, until)

    def _results(self, futures: list[Future[Any]], jobs: Sequence[str], until: float | None) -> Iterator[Any]:
        """Yield the results. Nobody can get the others once this ends early, so their jobs are stopped."""
        futures.reverse()
        try:
            while futures:  # each is removed before its result is given away, so that this does not keep it
                yield futures.pop().result(None if until is None else until - clock.steady())
        finally:
            if any(not future.done() for future in futures):
                self._stop(jobs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. ``wait``: until all results are there. ``cancel_futures``: stop the tasks."""
        with self._lock:
            self._closed = True
            gatherer = self._gatherer
        self._calls.put(None)
        if cancel_futures and self._slots is not None:
            self._slots.close()
        if gatherer is not None and (wait or cancel_futures):
            gatherer.join()  # it starts the last calls
        if cancel_futures:
            self._stop(list(self._jobs))
        if wait:
            for thread in list(self._jobs.values()):
                thread.join()
            if not self._keep:
                self._files.remove()

    def interrupt(self) -> None:
        """Stop all jobs after Ctrl-C, and say which. Does not wait for their ends."""
        why, stopping = "interrupted", set(self._jobs)
        try:
            self.shutdown(wait=False, cancel_futures=True)
            self._unsure = [job_id for job_id in self._unsure if not self._stop([job_id])]
        except (GrassError, KeyboardInterrupt) as error:
            why, stopping = str(error) or "interrupted again", set()
        if stopping:
            executor_end.say(f"grass.Executor: interrupted; stopping {', '.join(sorted(stopping))}")
        if going_on := [*self._unsure, *({*self._jobs} - stopping)]:
            how = executor_end.how_to_stop(going_on)
            executor_end.say(f"grass.Executor: {', '.join(going_on)} may still run ({why}); {how}")
        self._jobs.clear()  # nobody waits for them any more

    def active_jobs(self) -> list[str]:
        """Return the ids of the jobs that have not ended."""
        return list(self._jobs)

    def _stop(self, jobs: Iterable[str]) -> int:
        """Stop jobs; return how many are known to the cluster."""
        found = 0
        for job_id in jobs:
            with suppress(NotFoundError):  # it has ended and was deleted
                with suppress(ConflictError):  # it has just ended
                    self._client.stop(job_id)
                found += 1
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _workers(self, items: int) -> int:
        if self._max_workers is not None or not items:
            return self._max_workers or 1
        ready = [node for node in self._client.nodes() if node.state == NodeState.READY]
        cores = sum(node.resources.cpu for node in ready if node.resources) / 1000
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
            self._start([future for future, _ in wanted], calls, len(calls), self._slots)

    def _start(
        self, futures: Sequence[Future[Any]], calls: Sequence[Call], tasks: int, slots: Slots | None = None
    ) -> list[str]:
        """Start the calls, in as many jobs as their size needs, and return the ids of the jobs.

        ``slots``: bound how many tasks run at once; each job waits for one.

        A call that cannot be sent has its own error. A failure to start becomes that of the futures whose jobs did not
        start.
        """
        started: list[str] = []
        waiting = dict(enumerate(futures))
        try:
            packed = self._packed(calls, tasks)
            for number, error in packed.refused.items():
                waiting.pop(number).set_exception(error)
            for job in call_packing.jobs_of(packed.tasks):
                own = {number: futures[number] for task in job for number in task.numbers}
                at_once = slots.wait() if slots is not None else None
                if at_once == 0:
                    raise CancelledError
                started.append(self._start_job(job, own, at_once))
                if slots is not None and at_once is not None:
                    slots.take(at_once, list(own.values()))
                for number in own:
                    del waiting[number]
        except Exception as error:  # noqa: BLE001 those who wait must learn of it
            fail(waiting.values(), error)
        return started

    def _packed(self, calls: Sequence[Call], tasks: int) -> call_packing.Packed:
        folders = driver_path.own_folders()
        packer = call_packing.Packer(self._key, folders if self._finds_files else (), self._files.folder)
        with nullcontext() if self._finds_files else driver_path.by_value(folders):
            packed = packer.tasks(calls, tasks)
        self._files.send(packed.files)
        return packed

    def _start_job(
        self, tasks: Sequence[PackedTask], futures: Mapping[int, Future[Any]], at_once: int | None = None
    ) -> str:
        component: dict[str, object] = {**self._component, "from": {"entries": [task.text for task in tasks]}}
        if at_once is not None:
            component["parallelism"] = at_once
        try:
            started = self._client.start({"name": run_id(self._name), "components": {COMPONENT: component}})
        except SubmissionInterrupted as interrupted:
            self._unsure.append(interrupted.job_id)
            raise
        job_id: str = started.id
        job = CallJob(self._client, job_id, tasks, futures, self._keep)
        reader = threading.Thread(target=self._read, args=(job,), name=f"grass-{job_id}", daemon=True)
        self._jobs[job_id] = reader
        try:
            reader.start()
        except RuntimeError:  # the interpreter is ending, and starts no threads: this one reads
            self._jobs[job_id] = threading.current_thread()
            self._read(job)
        return job_id

    def _read(self, job: CallJob) -> None:
        try:
            job.read(self._key)
        finally:
            self._jobs.pop(job.id, None)
