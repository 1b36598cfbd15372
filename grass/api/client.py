"""The Python client of a cluster's API. Used by the CLI, and by Python programs as ``from grass import Client``.

It returns plain data: the views of ``grass.wire.views`` as dicts. It sends requests and repeats them; it decides
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from grass import clock, environment
from grass.api.keyring import load_client
from grass.api.streams import LogQuery, follow_events, read_logs, wait_for_job
from grass.api.transport import TIMEOUT, Transport, with_query
from grass.entropy import run_id
from grass.errors import InputError, ManifestError, NotFoundError

if TYPE_CHECKING:
    from grass.api.execution import Execution

View = dict[str, Any]  # Any: plain data for users' programs; the types are in grass.wire.views
Document = Mapping[str, Any] | str | Path
"""A manifest: its content, or the path of its file."""

_PAGE = 500
"""Jobs that one request asks for."""
_LONGEST_WAIT = 25.0


class Client:
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

    def start(self, job: Document, *, strict: bool = False, cwd: str | Path | None = None) -> View:
        """Start a job: ``{"name", "id", "warnings"}``. The job is durable when this returns.

        Its tasks run in ``cwd``, by default the file's folder, or the current one for a mapping. ``strict``: refuse
        jobs with warnings, and jobs that no node could ever run. Raises ManifestError, ConflictError (that name is
        active).
        """
        from grass.manifest import parse_job

        document, folder, source = _load(job, cwd)
        name = parse_job(document, source=source).job.name
        body = {"manifest": document, "strict": strict, "cwd": folder, "id": run_id(name)}
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

    def jobs(self, all: bool = False, limit: int | None = None, before: str | None = None) -> list[View]:
        """Return active jobs, or with ``all`` also the finished jobs that are kept; oldest first.

        ``limit``: at most this many, the newest. ``before``: only jobs submitted before the job with this id. The jobs
        are read page by page.
        """
        found: list[View] = []
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            answer = self._get("/v1/jobs", all=all, limit=wanted, before=before)
            page: list[View] = answer["jobs"]
            found[:0] = page
            if not answer["more"] or not page:
                break
            before = page[0]["id"]
        return found

    def newest_jobs(self, all: bool = False, limit: int = 100) -> View:
        """Return ``{"jobs", "total"}``: running jobs, then the newest others, up to ``limit`` (at most 1,000)."""
        return self._get("/v1/jobs", all=all, limit=limit, begun_first=True)

    def job(self, name: str) -> View:
        """Return the latest run of that name, or the run with that id."""
        return self._get(_path("jobs", name))

    def tasks(self, name: str, component: str | None = None, first: int | None = None) -> list[View]:
        """Return all tasks, in the order of the job. ``first``: only so many, failed tasks first."""
        found: list[View] = self._get(_path("jobs", name, "tasks"), component=component, first=first)["tasks"]
        return found

    def why(self, name: str) -> View:
        """Explain why tasks do not run: ``{"id", "name", "state", "reason", "groups": [{"component", "state", "count",
        "reason", "next"}]}``."""
        return self._get(_path("jobs", name, "why"))

    def wait(
        self, name: str, timeout: float | None = None, on_progress: Callable[[View], object] | None = None
    ) -> View:
        """Wait until the job has ended and return its view. Raises WaitTimeoutError after ``timeout`` seconds.

        ``on_progress`` is called with new views: at each change of state, otherwise at most five times a second.
        """
        return wait_for_job(self._transport, lambda job: _path("jobs", job, "wait"), name, timeout, on_progress)

    def logs(
        self,
        name: str,
        component: str | None = None,
        index: int | None = None,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        grep: str | None = None,
    ) -> Iterator[View]:
        """Yield the lines of tasks: ``{"task", "attempt", "stream", "time", "text", "newline", "lost"}``.

        ``component`` may also name one task, ``worker.3``. ``tail``: the last lines of all tasks together. ``since``:
        wall seconds. ``grep``: a regular expression. ``follow``: until the job has ended and its log is complete. No
        line is lost or repeated when the API server restarts.
        """
        if component is not None and index is None:
            component, index = _task(component)
        query = LogQuery(component, index, tail, since, grep, follow)
        return read_logs(self._transport, lambda job: _path("jobs", job, "logs"), name, query)

    def stop(self, name: str, grace: float | None = None) -> View:
        """Ask a job to stop; use ``wait`` for its end. ``grace``: seconds between TERM and KILL."""
        return self._post(_path("jobs", name, "stop"), {"grace": grace})

    def delete(self, name: str) -> View:
        """Delete a finished job with its logs. Return its last view."""
        view = self.job(name)
        try:
            deleted: View = self._transport.call("DELETE", _path("jobs", view["id"]))
        except NotFoundError:
            return view  # an earlier attempt of this call, or another user, deleted it
        return deleted

    def execute(self, job: str, task: str, argv: Sequence[str], size: tuple[int, int] | None = None) -> Execution:
        """Run a command beside a running task (``component.index``); ``size``: rows and columns of its terminal."""
        from grass.api.execution import Execution

        if isinstance(argv, str) or not (isinstance(argv, Sequence) and all(isinstance(word, str) for word in argv)):
            raise InputError(f"a command must be a list of strings, got {argv!r}")
        return Execution(self._transport, _path("jobs", job, "tasks", _quoted("task", task), "exec"), argv, size)

    def start_schedule(self, schedule: Document, *, cwd: str | Path | None = None) -> View:
        """Start a batch of jobs or a cron rule. Return its view, with ``warnings``."""
        from grass.manifest import parse_schedule

        document, folder, source = _load(schedule, cwd)
        parse_schedule(document, source=source)
        return self._submit(
            "/v1/schedules", lambda attempt: {"manifest": document, "cwd": folder, "retry": attempt > 0}, source
        )

    def schedules(self) -> list[View]:
        found: list[View] = self._get("/v1/schedules")["schedules"]
        return found

    def schedule(self, name: str) -> View:
        return self._get(_path("schedules", name))

    def stop_schedule(self, name: str) -> View:
        """Stop a schedule, so that it starts nothing more. Jobs of a batch are stopped; the run of a cron rule
        continues."""
        return self._post(_path("schedules", name, "stop"), {})

    def nodes(self) -> list[View]:
        found: list[View] = self._get("/v1/nodes")["nodes"]
        return found

    def node(self, name: str) -> View:
        return self._get(_path("nodes", name))

    def cordon(self, node: str) -> View:
        """Let a node take no new tasks. Returns, as do the next three, ``{"node": view before, "mark": for
        watch_node}``."""
        return self._post(_path("nodes", node, "cordon"), {})

    def uncordon(self, node: str) -> View:
        """Let a node take tasks again, also after a drain."""
        return self._post(_path("nodes", node, "uncordon"), {})

    def drain(self, node: str, deadline: float | None = None) -> View:
        """Let a node take no new tasks, and move its tasks elsewhere after ``deadline`` seconds (None: wait for their
        end)."""
        return self._post(_path("nodes", node, "drain"), {"deadline": deadline})

    def remove_node(self, node: str, force: bool = False) -> View:
        """Remove a node once it is empty. ``force``: now, even if it does not answer; its tasks are placed
        elsewhere."""
        return self._post(_path("nodes", node, "remove"), {"force": force})

    def watch_node(self, node: str, seen: str | None, timeout: float = _LONGEST_WAIT) -> View:
        """Wait until the node's mark differs from ``seen``: ``{"node": view or None when it is gone, "mark"}``."""
        wait = min(timeout, _LONGEST_WAIT)
        target = with_query(_path("nodes", node, "wait"), {"seen": seen, "timeout": f"{wait:.3f}"})
        answer: View = self._transport.call("GET", target, wait=wait)
        clock.sleep(min(answer["pause"], timeout))
        return answer

    def join_token(self, name: str | None = None, expires: float = 3600.0, uses: int = 1) -> View:
        """Issue a join token: ``{"token", "expires": wall seconds, "uses", "name"}``. ``expires``: seconds from now."""
        return self._post("/v1/join-tokens", {"name": name, "expires": expires, "uses": uses})

    def join_terms(self) -> View:
        """Return the content of a join token without its secret: ``{"urls", "key", "bundle", "cluster"}``."""
        return self._get("/v1/join-terms")

    def join_check(self, body: View) -> View:
        """Check whether a machine could join: the answer of a join with ``check``, without a token."""
        return self._post("/v1/join-terms", {name: body[name] for name in ("name", "facts", "node", "password")})

    def events(self, follow: bool = False, job: str | None = None, limit: int = 1000) -> Iterator[View]:
        """Yield the newest ``limit`` events, oldest first; with ``follow``, also each later event, without end."""
        return follow_events(self._transport, {"job": job}, limit, follow)

    def status(self) -> View:
        """Return ``{"cluster", "mode", "version", "time", "user", "role", "jobs": {state: n}, "nodes": {state:
        n}}``."""
        return self._get("/v1/status")

    def _get(self, path: str, **query: str | bool | int | None) -> View:
        answer: View = self._transport.call("GET", with_query(path, query))
        return answer

    def _post(self, path: str, body: View) -> View:
        answer: View = self._transport.call("POST", path, body)
        return answer

    def _submit(self, path: str, body: View | Callable[[int], View], source: str) -> View:
        try:
            answer: View = self._transport.call("POST", path, body)
        except ManifestError as error:
            raise ManifestError(error.problems, source) from error
        return answer


def _path(noun: str, name: str, *rest: str) -> str:
    return "/".join(["/v1", noun, _quoted(noun[:-1], name), *rest])


def _quoted(what: str, name: str) -> str:
    if not isinstance(name, str):
        raise InputError(f"the name of a {what} must be text, got {name!r}")
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:  # a command line that is not UTF-8
        quoted = ""
    if not quoted or "/" in name:
        raise NotFoundError(f"no {what} {name!r}: this is not a valid name")
    return quoted


def _task(text: str) -> tuple[str, int | None]:
    if not isinstance(text, str):
        raise InputError(f"a component must be text, got {text!r}")
    component, dot, index = text.rpartition(".")
    if not dot:
        return text, None
    if not (index.isascii() and index.isdecimal()):
        raise InputError(f"{text!r} is neither a component nor a task; write a task as COMPONENT.INDEX")
    return component, int(index)


def _load(document: Document, cwd: str | Path | None) -> tuple[View, str, str]:
    """Return the content, the folder that its tasks run in, and its name for error messages."""
    if isinstance(document, Mapping):
        return dict(document), _absolute(cwd or "."), ""
    if not isinstance(document, (str, Path)):
        raise InputError(f"a job must be a mapping or the path of a file, got {document!r}")
    from grass.document_file import load_document

    path = Path(document)
    return load_document(path), _absolute(cwd or path.parent), str(document)


def _absolute(folder: str | Path) -> str:
    try:
        return str(Path(folder).absolute())
    except FileNotFoundError:
        raise InputError("the current folder was removed; change to another folder, or pass one as cwd") from None
