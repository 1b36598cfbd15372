"""The Python client of a cluster's API. Used by the CLI, and by Python programs as ``from grass import Client``.

It returns plain data: the views of ``grass.wire.views`` as dicts. It sends requests and repeats them; it decides
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grass import clock, environment
from grass.api.figure_calls import FigureCalls
from grass.api.keyring import load_client
from grass.api.node_calls import NodeCalls
from grass.api.operation_calls import OperationCalls
from grass.api.requests import View, path_of, quoted
from grass.api.schedule_calls import ScheduleCalls
from grass.api.streams import (
    LogQuery,
    event_query,
    events_before,
    follow_changes,
    follow_items,
    read_log_batches,
    read_logs,
    wait_for_job,
)
from grass.api.transport import TIMEOUT, Transport
from grass.api.user_calls import UserCalls
from grass.entropy import run_id
from grass.errors import InputError, ManifestError, NotFoundError
from grass.mode_file import read_mode
from grass.model.lifecycle import TaskState
from grass.model.mode import LOCAL

if TYPE_CHECKING:
    from grass.api.execution import Execution
    from grass.api.forwarding import Forwarding
    from grass.api.job import Job

__all__ = ["Client", "Document", "View"]

Document = Mapping[str, Any] | str | Path
"""A manifest: its content, or the path of its file."""

_PAGE = 500
"""Jobs that one request asks for."""


class Client(OperationCalls, ScheduleCalls, NodeCalls, UserCalls, FigureCalls):
    """A cluster, as the user whose keys are in its ``client/`` folder.

    ``cluster``: its name (default: ``GRASS_CLUSTER``, what `grass use` chose, the only one). ``home``: default
    ``GRASS_HOME``. Methods raise the errors of ``grass.errors``; UnreachableError after ``timeout`` seconds without an
    answer.
    """

    def __init__(
        self,
        cluster: str | None = None,
        *,
        home: Path | None = None,
        wall: Callable[[], float] = clock.wall,
        timeout: float = TIMEOUT,
    ) -> None:
        name = cluster or environment.current_cluster(home)
        folder = environment.cluster_home(name, home)
        if not folder.is_dir():
            raise NotFoundError(f"no cluster {name} in {folder.parent}; `grass create` makes one")
        self.folder = folder
        """The cluster's folder on this machine."""
        self.on_this_machine = read_mode(folder) == LOCAL
        """Whether the cluster's tasks run on this machine, with its files and programs."""
        self._transport = Transport(load_client(folder / "client"), wall=wall, timeout=timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The client can still be used; it opens new ones."""
        self._transport.close()

    def submit(
        self,
        job: Document,
        *,
        strict: bool = False,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Job:
        """Start a job as ``start`` does, and return it as an object with typed views."""
        from grass.api.job import Job

        return Job(self, str(self.start(job, strict=strict, cwd=cwd, env=env)["id"]))

    def start(
        self,
        job: Document,
        *,
        strict: bool = False,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> View:
        """Start a job: ``{"name", "id", "warnings"}``. The job is durable when this returns.

        Its tasks run in ``cwd``, by default the file's folder, or the current one for a mapping. ``strict``: refuse
        jobs with warnings, and jobs that no node could ever run. ``env``: variables for all tasks; they replace those
        of the job. Raises ManifestError, ConflictError (that name is active).
        """
        from grass.manifest import parse_job

        document, folder, source = _load(job, cwd, env)
        name = parse_job(document, source=source).job.name
        body = {"manifest": document, "strict": strict, "cwd": folder, "shell": self._shell(), "id": run_id(name)}
        return self._submit("/v1/jobs", body, source)

    def plan(self, job: Document) -> View:
        """Return where a job would run if it were started now. Changes nothing.

        ``{"name", "reason", "components": {name: {"replicas", "at_once", "depends_on", "nodes": [{"node", "count",
        "devices": [[id, thousandths]]}], "reason"}}, "evictions": [{"job", "count"}], "warnings"}``.
        """
        from grass.manifest import parse_job

        document, _, source = _load(job, None)
        parse_job(document, source=source)
        return self._submit("/v1/plan", {"manifest": document}, source)

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
    ) -> list[View]:
        """Return active jobs, or with ``all`` also the finished jobs that are kept; oldest first.

        ``limit``: at most this many, the newest. ``before``: only jobs submitted before the job with this id.
        ``state``: only in these states. ``name``: only those that match, such as ``train-*``. ``tag``: only with each
        of these, ``NAME`` or ``NAME=VALUE``. ``since``: submitted after, in wall seconds. Reads page by page.
        """
        selection = _selection(state, user, name, tag, since)
        found: list[View] = []
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            answer = self._get("/v1/jobs", all=all, limit=wanted, before=before, **selection)
            page: list[View] = answer["jobs"]
            found[:0] = page
            if not answer["more"] or not page:
                break
            before = page[0]["id"]
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
    ) -> View:
        """Return ``{"jobs", "total", "more"}``: running jobs, then the newest others, up to ``limit`` (at most 1,000).

        The other arguments are those of ``jobs``; ``total`` is None if names, tags or times select the jobs.
        """
        selection = _selection(state, user, name, tag, since)
        return self._get("/v1/jobs", all=all, limit=limit, begun_first=True, **selection)

    def job(self, name: str, *, specification: bool = True) -> View:
        """Return the latest run of that name, or the run with that id.

        ``specification``: include what its file said; secrets in environments read ``[REDACTED]``.
        """
        return self._get(path_of("jobs", name), specification=specification)

    def tasks(self, name: str, component: str | None = None, first: int | None = None) -> list[View]:
        """Return all tasks, in the order of the job. ``first``: only so many, failed tasks first."""
        found: list[View] = self._get(path_of("jobs", name, "tasks"), component=component, first=first)["tasks"]
        return found

    def attempts(self, name: str, task: str | None = None) -> list[View]:
        """Return the attempts of all tasks, or of one: ``{"task", "attempt", "node", "exit_code", "signal", "reason",
        "started", "ended"}``. Of each task the newest and up to 20 earlier ones are kept."""
        found: list[View] = self._get(path_of("jobs", name, "attempts"), task=task)["attempts"]
        return found

    def why(self, name: str) -> View:
        """Explain why tasks do not run: ``{"id", "name", "state", "reason", "groups": [{"component", "state", "count",
        "reason", "next"}]}``."""
        return self._get(path_of("jobs", name, "why"))

    def wait(
        self, name: str, timeout: float | None = None, on_progress: Callable[[View], object] | None = None
    ) -> View:
        """Wait until the job has ended and return its view. Raises WaitTimeoutError after ``timeout`` seconds.

        ``on_progress`` is called with new views: at each change of state, otherwise at most five times a second.
        """
        return wait_for_job(self._transport, lambda job: path_of("jobs", job, "wait"), name, timeout, on_progress)

    def wait_any(self, names: Sequence[str], timeout: float | None = None) -> View:
        """Wait until one of these jobs has ended and return its view. Raises WaitTimeoutError."""
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
    ) -> Iterator[View]:
        """Yield the lines of tasks: ``{"task", "attempt", "stream", "time", "text", "newline", "lost"}``.

        ``component`` may also name one task, ``worker.3``. ``tail``: the last lines of all tasks together. ``since``:
        wall seconds. ``grep``: a regular expression. ``follow``: until the job has ended and its log is complete.
        ``stream``: only ``stdout`` or ``stderr``. ``failed``: only tasks that have failed by now. ``joined``: a record
        may have several lines, with newlines between them, which is much faster. No line is lost or repeated when the
        API server restarts.
        """
        if component is not None and index is None:
            component, index = _task(component)
        bad = self._failed_tasks(name, component) if failed else None
        query = LogQuery(component, index, tail, since, grep, follow, stream, bad, joined)
        return read_logs(self._transport, lambda job: path_of("jobs", job, "logs"), name, query)

    def log_batches(
        self, name: str, component: str | None = None, tail: int | None = None, follow: bool = False
    ) -> Generator[list[View], None, None]:
        """Yield the lines of ``logs`` in lists, as they come; an empty list every few seconds while none comes."""
        component, index = (None, None) if component is None else _task(component)
        query = LogQuery(component, index, tail, None, None, follow)
        return read_log_batches(self._transport, lambda job: path_of("jobs", job, "logs"), name, query)

    def _failed_tasks(self, name: str, component: str | None) -> frozenset[str]:
        tasks = self.tasks(name, component)
        return frozenset(task["task"] for task in tasks if task["state"] in (TaskState.FAILED, TaskState.LOST))

    def stop(self, name: str, grace: float | None = None, tasks: Sequence[str] | None = None) -> View:
        """Ask a job to stop; use ``wait`` for its end. ``grace``: seconds between TERM and KILL.

        ``tasks``: stop only these (``worker.3``, or ``worker`` for all of a component). They do not start again.
        """
        if isinstance(tasks, str) or not all(isinstance(task, str) for task in tasks or ()):
            raise InputError(f"tasks must be a list of names, got {tasks!r}")
        return self._post(path_of("jobs", name, "stop"), {"grace": grace, "tasks": list(tasks or ())})

    def delete(self, name: str) -> View:
        """Delete a finished job with its logs. Return its last view."""
        view = self.job(name, specification=False)
        try:
            deleted: View = self._delete(path_of("jobs", view["id"]))
        except NotFoundError:
            return view  # an earlier attempt of this call, or another user, deleted it
        return deleted

    def execute(self, job: str, task: str, argv: Sequence[str], size: tuple[int, int] | None = None) -> Execution:
        """Run a command beside a running task (``component.index``); ``size``: rows and columns of its terminal."""
        from grass.api.execution import Execution

        if isinstance(argv, str) or not (isinstance(argv, Sequence) and all(isinstance(word, str) for word in argv)):
            raise InputError(f"a command must be a list of strings, got {argv!r}")
        return Execution(self._transport, path_of("jobs", job, "tasks", quoted("task", task), "exec"), argv, size)

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

        Without a component: the one that publishes a page (``web``). ``local_port``: 0: a free one.
        """
        from grass.api.forwarding import Forwarding

        body: dict[str, object] = {"component": component, "index": index, "port": port}
        return Forwarding(self._transport, path_of("jobs", job, "forward"), body, local_port)

    def start_schedule(self, schedule: Document, *, cwd: str | Path | None = None) -> View:
        """Start a batch of jobs or a cron rule. Return its view, with ``warnings``."""
        from grass.manifest import parse_schedule

        document, folder, source = _load(schedule, cwd)
        parse_schedule(document, source=source)
        return self._submit(
            "/v1/schedules",
            lambda attempt: {"manifest": document, "cwd": folder, "shell": self._shell(), "retry": attempt > 0},
            source,
        )

    def events(
        self,
        follow: bool = False,
        job: str | None = None,
        limit: int = 1000,
        node: str | None = None,
        user: str | None = None,
        kind: Sequence[str] = (),
        since: float | None = None,
        text: str | None = None,
    ) -> Iterator[View]:
        """Yield the newest ``limit`` events, oldest first; with ``follow``, also each later event, without end.

        ``user``: only what this user did. ``kind``: only these kinds, also ``task-*``. ``since``: wall seconds.
        ``text``: only events with each of these words in the message, the kind or a name.
        """
        query = {**event_query(job, node, user, kind, since, text), "limit": limit}
        return follow_items(self._transport, "/v1/events", "events", query, follow)

    def older_events(
        self,
        before: str,
        limit: int = 1000,
        job: str | None = None,
        node: str | None = None,
        user: str | None = None,
        kind: Sequence[str] = (),
        since: float | None = None,
        text: str | None = None,
    ) -> View:
        """Return ``{"events", "before"}``: the newest ``limit`` events before the id ``before``, oldest first.

        ``before`` of the answer continues; None: there are no older events. A filter that selects few events may answer
        none of them, and a ``before``: ask again.
        """
        query = event_query(job, node, user, kind, since, text)
        return events_before(self._transport, query, before, limit)

    def daemon_logs(
        self,
        daemon: str | None = None,
        node: str | None = None,
        follow: bool = False,
        tail: int = 1000,
        since: float | None = None,
    ) -> Iterator[View]:
        """Yield what the cluster's daemons logged, in the order of arrival: ``{"time", "node", "daemon", "level",
        "text"}``; ``node`` is None for the master. For administrators: others get NotAllowedError.

        ``tail``: begin with the newest entries; at most 10,000. ``since``: wall seconds. ``follow``: then each later
        entry, without end.
        """
        query = {"daemon": daemon, "node": node, "since": since, "limit": tail}
        return follow_items(self._transport, "/v1/daemon-logs", "lines", query, follow)

    def changes(self, job: str | None = None) -> Generator[View, None, None]:
        """Yield a snapshot of the cluster in pieces, then what changes, without end; see ``ChangePiece``.

        ``job``: instead, that job and its tasks. A piece with ``snapshot`` replaces all that was known. Raises
        UnreachableError while the cluster does not answer; call it again for a new snapshot.
        """
        return follow_changes(self._transport, job)

    def sign_off_image(self, name: str, digest: str) -> View:
        """Let nodes load the image ``name`` only with this digest (64 hexadecimal digits, of its configuration)."""
        return self._post("/v1/images", {"name": name, "digest": digest})

    def forget_image(self, name: str) -> View:
        """Forget the digest of a removed image."""
        return self._post("/v1/images/forget", {"name": name})

    def status(self) -> View:
        """Return ``{"cluster", "mode", "version", "time", "user", "role", "jobs": {state: n}, "nodes": {state:
        n}}``."""
        return self._get("/v1/status")

    def _shell(self) -> dict[str, str]:
        """Return the variables of this shell that tasks get. They do not leave this machine."""
        from grass.manifest.shell import passable

        return passable(environment.inherited_environment()) if self.on_this_machine else {}

    def _submit(self, path: str, body: View | Callable[[int], View], source: str) -> View:
        try:
            answer: View = self._transport.call("POST", path, body)
        except ManifestError as error:
            raise ManifestError(error.problems, source) from error
        return answer


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
    component, dot, index = text.rpartition(".")
    if not dot:
        return text, None
    if not (index.isascii() and index.isdecimal()):
        raise InputError(f"{text!r} is neither a component nor a task; write a task as COMPONENT.INDEX")
    return component, int(index)


def _load(document: Document, cwd: str | Path | None, env: Mapping[str, str] | None = None) -> tuple[View, str, str]:
    """Return the content, the folder that its tasks run in, and its name for error messages."""
    from grass.api.document_data import with_data  # imported here: most calls load nothing

    if isinstance(document, Mapping):
        from grass.api.plain import plain_mapping

        folder = _absolute(cwd or ".")
        return with_data(plain_mapping(document), env, folder, ""), folder, ""
    if not isinstance(document, (str, Path)):
        raise InputError(f"a job must be a mapping or the path of a file, got {document!r}")
    from grass.document_file import load_document

    path = Path(document)
    folder = _absolute(cwd or path.parent)
    return with_data(load_document(path), env, _absolute(path.parent), str(document)), folder, str(document)


def _absolute(folder: str | Path) -> str:
    try:
        return str(Path(folder).absolute())
    except FileNotFoundError:
        raise InputError("the current folder was removed; change to another folder, or pass one as cwd") from None
