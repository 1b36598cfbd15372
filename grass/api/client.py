"""``grass.Client``: the calls of a cluster's API. They return the views of ``grass.wire``: frozen structs.

Used by the CLI, the dashboard, ``Executor``, ``Job`` and programs of users. It sends requests and repeats them; it
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from grass.api.event_calls import EventCalls
from grass.api.figure_calls import FigureCalls
from grass.api.file_calls import FileCalls
from grass.api.keyring import load_client
from grass.api.node_calls import NodeCalls
from grass.api.node_check_calls import NodeCheckCalls
from grass.api.operation_calls import OperationCalls
from grass.api.patience import TIMEOUT
from grass.api.queue_calls import QueueCalls
from grass.api.requests import after_ctrl_c, path_of
from grass.api.schedule_calls import ScheduleCalls
from grass.api.streams import wait_for_job
from grass.api.task_calls import TaskCalls
from grass.api.transport import PlainData, Transport
from grass.api.user_calls import UserCalls
from grass.errors import ChangeInterrupted, InputError, ManifestError, NotFoundError, SubmissionInterrupted
from grass.mode_file import is_on_this_machine
from grass.model.key_text import task_parts
from grass.model.lifecycle import TaskState
from grass.model.names import is_name
from grass.system import clock, environment
from grass.system.entropy import run_id
from grass.wire.codec import Form, builtins

if TYPE_CHECKING:
    from grass.api.client_views import LogLine
    from grass.api.comparison import Comparison
    from grass.api.job import Job
    from grass.api.results import Results
    from grass.wire.autoscale_views import AutoscaleView
    from grass.wire.job_details import JobDetails
    from grass.wire.job_views import AttemptView, JobFileView, JobsView, JobView, StartedView, TaskView, WhyView
    from grass.wire.status_views import StatusView
    from grass.wire.views import PlanView, ScheduleView

T = TypeVar("T")

__all__ = ["Client", "Document"]

Document = Mapping[str, Any] | str | Path  # Any: of users; the readers of grass.manifest check it
"""A manifest: its content, or the path of its file."""

_PAGE = 500
"""Jobs that one request asks for."""


class Client(
    OperationCalls,
    ScheduleCalls,
    EventCalls,
    NodeCalls,
    NodeCheckCalls,
    UserCalls,
    FigureCalls,
    FileCalls,
    TaskCalls,
    QueueCalls,
):
    """A cluster, as the user whose keys are in its ``client/`` folder.

    ``cluster``: its name (default: ``GRASS_CLUSTER``, what `grass use` chose, the only one). ``home``: default
    ``GRASS_HOME``. Raises NotFoundError: there is no such cluster.

    Methods return views: frozen structs, whose fields are explained in their classes, ``grass.JobView`` and others.
    Times are seconds since the epoch, amounts of memory are bytes. A name of a job means its latest run, an id one run.
    Methods raise the errors of ``grass.errors``; all of them UnreachableError after ``timeout`` seconds without an
    answer, and NotAllowedError for what this user may not do. It may be used in a ``with``.

    ``wall``: the clock. ``transport``: carries the requests.
    """

    def __init__(
        self,
        cluster: str | None = None,
        *,
        home: str | Path | None = None,
        wall: Callable[[], float] = clock.wall,
        timeout: float = TIMEOUT,
        transport: type[Transport] = Transport,
    ) -> None:
        home = None if home is None else Path(home)
        name = cluster or environment.current_cluster(home)
        folder = environment.cluster_home(name, home)
        if not folder.is_dir():
            raise NotFoundError(f"no cluster {name} in {folder.parent}; `grass create` makes one")
        self.folder = folder
        """The cluster's folder on this machine."""
        self.on_this_machine = is_on_this_machine(folder)
        """Whether the cluster's tasks run on this machine, with its files and programs."""
        self._transport = transport(load_client(folder / "client"), wall=wall, timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def on_away(self, report: Callable[[str], object]) -> None:
        """Have ``report`` called with a sentence when a call that waits or follows waits for the API to come back."""
        self._transport.on_away = report

    def close(self) -> None:
        """Close the connections. The client can still be used; it opens new ones."""
        self._transport.close()

    def start(
        self,
        job: Document,
        *,
        strict: bool = False,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        file: tuple[str, str] | None = None,
        job_id: str | None = None,
        hold: bool = False,
        delay: float | None = None,
        after_namesake: bool = False,
    ) -> StartedView:
        """Start a job and return its name, id and warnings. The job is durable when this returns.

        Its tasks run in ``cwd``, by default the file's folder, or the current one for a mapping. ``strict``: refuse
        jobs with warnings, and jobs that no node could ever run. ``env``: variables for all tasks; they replace those
        of the job. ``file``: name and text of the file that a mapping was read from, kept to be shown (``job_file``).
        ``job_id``: its id, ``NAME-xxxxxxxx`` (by default a new one); with the id of an earlier start, nothing is
        started, and the answer is that of the earlier one. ``hold``: nothing of it starts until ``release``. ``delay``:
        seconds from now before which nothing of it starts. ``after_namesake``: while jobs of its name are active, it
        waits for their end, under its name with a number (``NAME.2``), which the answer has.
        Raises ManifestError, ConflictError (that name is active); after Ctrl-C SubmissionInterrupted, with the id of
        the job, if it may run.
        """
        from grass.wire.job_file import pack
        from grass.wire.job_views import STARTED

        document, folder, source, text = _load(job, cwd, env)
        file = file if text is None else (Path(source).name, text)
        new_id = job_id or _new_id(document, source)
        self.check_programs(document, folder, source)
        body = {
            "manifest": document,
            "strict": strict,
            "cwd": folder,
            "shell": self._shell(),
            **self._process(),
            "id": new_id,
            "file": builtins(pack(*file)) if file else None,
            **({"hold": True} if hold else {}),  # an older cluster knows neither
            **({"delay": delay} if delay is not None else {}),
            **({"after_namesake": True} if after_namesake else {}),
        }
        with after_ctrl_c(SubmissionInterrupted(new_id)):
            return self._submit("/v1/jobs", body, source, STARTED)

    def submit(
        self,
        job: Document,
        *,
        strict: bool = False,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Job:
        """Start a job as ``start`` does, and return it as an object. Raises ManifestError, ConflictError."""
        from grass.api.job import Job

        return Job(self, self.start(job, strict=strict, cwd=cwd, env=env).id)

    def check_programs(self, document: Mapping[str, object], folder: str | Path, source: str) -> None:
        """Look at the programs of a job if its tasks run on this machine. Raises ManifestError."""
        if self.on_this_machine:
            from grass.api.program_check import check_programs

            check_programs(document, _absolute(folder), environment.variables(), source)

    def plan(self, job: Document) -> PlanView:
        """Return where a job would run if it were started now. Changes nothing. Raises ManifestError."""
        from grass.manifest import parse_job
        from grass.wire.views import PLAN

        document, _, source, _ = _load(job, None)
        parse_job(document, source=source)
        try:
            return self._submit("/v1/plan", {"manifest": document, "shell": self._shell()}, source, PLAN)
        except ChangeInterrupted as interrupt:
            raise KeyboardInterrupt from interrupt

    def jobs(
        self,
        all: bool = False,
        limit: int | None = None,
        before: str | None = None,
        *,
        state: Sequence[str] = (),
        user: str | None = None,
        name: str | None = None,
        tag: Sequence[str] = (),
        since: float | None = None,
    ) -> list[JobView]:
        """Return active jobs, or with ``all`` also the finished jobs that are kept; oldest first.

        ``limit``: at most this many, the newest. ``before``: only jobs submitted before the job with this id.
        ``state``: only in these states. ``name``: only those that match, such as ``train-*``. ``tag``: only with each
        of these, ``NAME`` or ``NAME=VALUE``. ``since``: submitted after, in wall seconds. Reads page by page. Raises
        InputError for a selection that cannot be read.
        """
        from grass.wire.job_views import JOBS

        selection = _selection(state, user, name, tag, since)
        found: list[JobView] = []
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self._get("/v1/jobs", JOBS, all=all, limit=wanted, before=before, **selection)
            found[:0] = page.jobs
            if not page.more or not page.jobs:
                break
            before = page.jobs[0].id
        return found

    def newest_jobs(
        self,
        all: bool = False,
        limit: int = 100,
        *,
        state: Sequence[str] = (),
        user: str | None = None,
        name: str | None = None,
        tag: Sequence[str] = (),
        since: float | None = None,
    ) -> JobsView:
        """Return one page: running jobs, then the newest others, up to ``limit`` (at most 1,000).

        The other arguments are those of ``jobs``; ``since``: wall seconds. ``total`` of the result is None if names,
        tags or times select the jobs. Raises InputError.
        """
        from grass.wire.job_views import JOBS

        selection = _selection(state, user, name, tag, since)
        return self._get("/v1/jobs", JOBS, all=all, limit=limit, begun_first=True, **selection)

    @overload
    def job(self, name: str, *, specification: Literal[True] = True) -> JobDetails: ...

    @overload
    def job(self, name: str, *, specification: bool) -> JobView: ...

    def job(self, name: str, *, specification: bool = True) -> JobView:
        """Return the latest run of that name, or the run with that id.

        ``specification``: include what its file said; secrets in environments read ``[REDACTED]``. Raises
        NotFoundError.
        """
        if specification:
            from grass.wire.job_details import JOB_DETAILS

            return self._get(path_of("jobs", name), JOB_DETAILS, specification=True)
        from grass.wire.job_views import JOB

        return self._get(path_of("jobs", name), JOB, specification=False)

    def job_file(self, name: str) -> JobFileView:
        """Return the job file as its user wrote it (``name``, ``text``, ``original``); secrets read ``[REDACTED]``.

        ``original`` False: no file is kept, and the text was written from the specification. Raises NotFoundError.
        """
        from grass.wire.job_views import JOB_FILE

        return self._get(path_of("jobs", name, "file"), JOB_FILE)

    def tasks(self, name: str, component: str | None = None, first: int | None = None) -> list[TaskView]:
        """Return all tasks, in the order of the job. ``first``: only so many, failed tasks first. Raises
        NotFoundError."""
        from grass.wire.job_views import TASKS

        return [*self._get(path_of("jobs", name, "tasks"), TASKS, component=component, first=first).tasks]

    def results(self, *jobs: str, tag: Sequence[str] = ()) -> Results:
        """Return what came out of jobs, a row for each task: parameters that differ, state, cause of failure, figures.

        ``tag``: all jobs with these tags, finished ones too. ``results(…).frame()`` is a frame of pandas, if that is
        installed. Raises NotFoundError: there is no such job.
        """
        found = jobs or tuple(job.id for job in self.jobs(all=True, tag=tag))
        if not found:
            raise NotFoundError(f"no job has the tag {' and '.join(tag)}" if tag else "results: name a job, or a tag")
        return self._results(found)

    def compare(self, *targets: str) -> Comparison:
        """Return jobs or tasks (``sweep.main.3``) side by side: parameters that differ, and figures.

        Raises NotFoundError, or InputError: there are less than two or more than 20 of them.
        """
        from grass.api.comparison import MOST_SIDES, Target, comparison

        if not 2 <= len(targets) <= MOST_SIDES:
            raise InputError(f"compare: name 2 to {MOST_SIDES} jobs or tasks, got {len(targets)}")
        sides = [Target.parse(each) for each in targets]
        ids = {name: self.job(name, specification=False).id for name in dict.fromkeys(side.job for side in sides)}
        jobs = [ids[side.job] for side in sides]
        return comparison(sides, jobs, self._results(list(dict.fromkeys(jobs))))

    def attempts(self, name: str, task: str | None = None) -> list[AttemptView]:
        """Return every attempt of all tasks, or of one (``worker.3``), or of several joined by commas.

        A job keeps them as long as itself, up to 100,000 restarts; then the newest of each task. Raises NotFoundError.
        """
        from grass.wire.job_views import ATTEMPTS

        path = path_of("jobs", name, "attempts")
        page = self._get(path, ATTEMPTS, task=task, limit=5000)
        found = [*page.attempts]
        while page.after is not None:
            page = self._get(path, ATTEMPTS, task=task, limit=5000, after=page.after)
            found += page.attempts
        return found

    def why(self, name: str) -> WhyView:
        """Explain why tasks do not run, by groups of tasks with one reason. Raises NotFoundError."""
        from grass.wire.job_views import WHY

        return self._get(path_of("jobs", name, "why"), WHY)

    def autoscale(self, name: str) -> AutoscaleView:
        """Return which size Grass would give now to each component that it may scale, and why. Changes nothing.

        Raises InputError if it may scale none, ConflictError if the job does not run, NotFoundError.
        """
        from grass.wire.autoscale_views import AUTOSCALE

        return self._get(path_of("jobs", name, "autoscale"), AUTOSCALE)

    def wait(
        self, name: str, timeout: float | None = None, on_progress: Callable[[JobView], object] | None = None
    ) -> JobView:
        """Wait until the job has ended and return its view. Raises WaitTimeoutError after ``timeout`` seconds.

        ``on_progress`` is called with new views: at each change of state, otherwise at most five times a second.
        Raises NotFoundError.
        """
        return wait_for_job(self._transport, lambda job: path_of("jobs", job, "wait"), name, timeout, on_progress)

    def wait_any(self, names: Sequence[str], timeout: float | None = None) -> JobView:
        """Wait until one of these jobs has ended and return its view.

        Raises WaitTimeoutError after ``timeout`` seconds, NotFoundError.
        """
        from grass.api.wait_any import first_ended

        return first_ended(self.wait, names, timeout)

    def logs(
        self,
        name: str,
        component: str | None = None,
        index: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        grep: str | None = None,
        *,
        stream: str | None = None,
        failed: bool = False,
        joined: bool = False,
        unfinished: bool = False,
        late: Callable[[], object] | None = None,
    ) -> Iterator[LogLine]:
        """Yield the lines of tasks. Raises NotFoundError; InputError for an expression that is not valid.

        ``component`` may also name one task, ``worker.3``. ``tail``: the last lines of all tasks together. ``since``:
        wall seconds. ``grep``: a regular expression. ``follow``: until the job has ended and its log is complete.
        ``stream``: only ``stdout`` or ``stderr``. ``failed``: only tasks that have failed so far. ``joined``: a record
        may have several lines, with newlines between them, which is much faster. ``unfinished``: with ``follow``, what
        a task has written of a line comes within a second, as a record without ``newline``; the rest follows.
        ``late``: called at the end if some output of the ended job has not reached the log collector. No line is lost
        or repeated when the API server restarts.
        """
        from grass.api.log_reading import LogQuery, read_logs

        if component is not None and index is None:
            component, index = _task(component)
        bad = self._failed_tasks(name, component) if failed else None
        query = LogQuery(component, index, tail, since, grep, follow, stream, bad, joined, unfinished, late)
        return read_logs(self._transport, lambda job: path_of("jobs", job, "logs"), name, query)

    def log_batches(
        self, name: str, component: str | None = None, tail: int | None = None, follow: bool = False
    ) -> Generator[list[LogLine], None, None]:
        """Yield the lines of ``logs`` in lists, as they come; an empty list every few seconds while none comes.

        Raises NotFoundError.
        """
        from grass.api.log_reading import LogQuery, read_log_batches

        component, index = (None, None) if component is None else _task(component)
        query = LogQuery(component, index, tail, None, None, follow)
        return read_log_batches(self._transport, lambda job: path_of("jobs", job, "logs"), name, query)

    def _failed_tasks(self, name: str, component: str | None) -> frozenset[str]:
        tasks = self.tasks(name, component)
        return frozenset(task.task for task in tasks if task.state in (TaskState.FAILED, TaskState.LOST))

    def stop(self, name: str, grace: float | None = None, tasks: Sequence[str] | None = None) -> JobView:
        """Ask a job to stop; use ``wait`` for its end. ``grace``: seconds between TERM and KILL.

        ``tasks``: stop only these (``worker.3``, or ``worker`` for all of a component). They do not start again.
        Raises ConflictError for a finished job, NotFoundError.
        """
        from grass.wire.job_views import JOB

        if isinstance(tasks, str) or not all(isinstance(task, str) for task in tasks or ()):
            raise InputError(f"tasks must be a list of names, got {tasks!r}")
        return self._post(path_of("jobs", name, "stop"), {"grace": grace, "tasks": list(tasks or ())}, JOB)

    def signal(self, job: str, signal: str | int, tasks: Sequence[str] = ()) -> list[str]:
        """Send a signal (``USR1``) to the first process of running tasks. Return their names.

        ``tasks``: only to these (``worker.3``, or ``worker`` for all of a component). Raises ConflictError if none of
        them runs or an image has no shell, NotFoundError.
        """
        from grass.api import task_signal

        if isinstance(tasks, str):
            raise InputError(f"tasks must be a list of names, got {tasks!r}")
        return task_signal.send(self, job, task_signal.number_of(signal), tasks)

    def delete(self, name: str) -> JobView:
        """Delete a finished job with its logs. Return its last view. Raises ConflictError while it is active,
        NotFoundError."""
        from grass.wire.job_views import JOB

        view = self.job(name, specification=False)
        try:
            return self._delete(path_of("jobs", view.id), JOB)
        except NotFoundError:
            return view  # an earlier attempt of this call, or another user, deleted it

    def start_schedule(self, schedule: Document, *, cwd: str | Path | None = None) -> ScheduleView:
        """Start a batch of jobs or a cron rule. Return its view, with ``warnings``. Raises ManifestError,
        ConflictError."""
        from grass.manifest.schedule import parse_schedule
        from grass.wire.views import SCHEDULE

        document, folder, source, _ = _load(schedule, cwd)
        name = parse_schedule(document, source=source).schedule.name
        self.check_programs(document, folder, source)
        interrupted = ChangeInterrupted(
            f"schedule {name}: interrupted while it was being submitted; it may have started; "
            f"`grass schedule stop {name}` stops it"
        )
        with after_ctrl_c(interrupted):
            return self._submit(
                "/v1/schedules",
                lambda attempt: {
                    "manifest": document,
                    "cwd": folder,
                    "shell": self._shell(),
                    **self._process(),
                    "retry": attempt > 0,
                },
                source,
                SCHEDULE,
            )

    def status(self) -> StatusView:
        """Return the cluster's name and version, the calling user, and the numbers of jobs and nodes by state. Raises
        UnreachableError."""
        from grass.wire.status_views import STATUS

        return self._get("/v1/status", STATUS)

    def _shell(self) -> dict[str, str]:
        """Return the variables of this shell that tasks get. They do not leave this machine."""
        from grass.manifest.shell import passable

        return passable(environment.inherited_environment()) if self.on_this_machine else {}

    def _process(self) -> dict[str, dict[str, int]]:
        """Return the umask and the limits of this process, for tasks on this machine."""
        if not self.on_this_machine:
            return {}
        from grass.process_settings import present

        return {"process": present()}

    def _submit(self, path: str, body: PlainData | Callable[[int], PlainData], source: str, form: Form[T]) -> T:
        try:
            return self._transport.read(form, "POST", path, body)
        except ManifestError as error:
            raise ManifestError(error.problems, source) from error


def _selection(
    state: Sequence[str], user: str | None, name: str | None, tag: Sequence[str], since: float | None
) -> dict[str, str | float | None]:
    """Return the query parameters that select jobs."""
    states, tags = (([one] if isinstance(one, str) else one) for one in (state, tag))
    return {
        "state": ",".join(states).upper() or None,
        "user": user,
        "name": name,
        "tag": "\n".join(tags) if tags else None,
        "since": since,
    }


def _task(text: str) -> tuple[str, int | None]:
    if not isinstance(text, str):
        raise InputError(f"a component must be text, got {text!r}")
    if "." not in text:
        return text, None
    task = task_parts(text)
    if task is None:
        raise InputError(f"{text!r} is neither a component nor a task; write a task as COMPONENT.INDEX")
    return task


def _load(
    document: Document, cwd: str | Path | None, env: Mapping[str, str] | None = None
) -> tuple[PlainData, str, str, str | None]:
    """Return the content, the folder that its tasks run in, its name for error messages, and the text of its file."""
    from grass.api.document_data import with_data  # imported here: most calls load nothing
    from grass.api.plain import plain_mapping

    env = None if env is None else plain_mapping(env)
    if isinstance(document, Mapping):
        folder = _absolute(cwd or ".")
        return with_data(plain_mapping(document), env, folder, ""), folder, "", None
    if not isinstance(document, (str, Path)):
        raise InputError(f"a job must be a mapping or the path of a file, got {document!r}")
    from grass.document_file import load_with_text

    path = Path(document)
    folder = _absolute(cwd or path.parent)
    content, text = load_with_text(path)
    return with_data(content, env, _absolute(path.parent), str(document)), folder, str(document), text


def _new_id(document: PlainData, source: str) -> str:
    """Return an id for the job. The client chooses it, so that it can repeat a submission whose reply was lost."""
    from grass.manifest.job import is_native

    name = document.get("name")
    if is_native(document) and is_name(name):
        return run_id(str(name))
    from grass.manifest import parse_job

    return run_id(parse_job(document, source=source).job.name)


def _absolute(folder: str | Path) -> str:
    try:
        return str(Path(folder).absolute())
    except FileNotFoundError:
        raise InputError("the current folder was removed; change to another folder, or pass one as cwd") from None
