"""``grass.Client``: a cluster for Python programs. Its methods return the typed views of ``grass.wire``.

It decides and sends nothing: each call is one of ``data``, an ``ApiClient``, and its result is converted. Used by
programs of users, ``Executor`` and ``Job``; the CLI and the dashboard use ``ApiClient``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from grass.api.client import ApiClient, Document
from grass.api.client_views import LogLine
from grass.api.patience import TIMEOUT
from grass.api.typed_calls import one, same, several, stream
from grass.wire import views
from grass.wire.codec import Form
from grass.wire.views import JobView

if TYPE_CHECKING:
    from grass.api.job import Job

_JOB: Form[JobView] = Form(JobView)


class Client:
    """A cluster, as the user whose keys are in its ``client/`` folder.

    ``cluster``: its name (default: ``GRASS_CLUSTER``, what `grass use` chose, the only one). ``home``: default
    ``GRASS_HOME``. Raises NotFoundError: there is no such cluster.

    Methods return views: frozen structs, whose fields are explained in their classes, ``grass.JobView`` and others.
    Times are seconds since the epoch, amounts of memory are bytes. A name of a job means its latest run, an id one run.
    Methods raise the errors of ``grass.errors``; all of them UnreachableError after ``timeout`` seconds without an
    answer, and NotAllowedError for what this user may not do. It may be used in a ``with``.
    """

    def __init__(self, cluster: str | None = None, *, home: str | Path | None = None, timeout: float = TIMEOUT) -> None:
        self.data = ApiClient(cluster, home=None if home is None else Path(home), timeout=timeout)
        """The same calls, whose results are plain dicts and lists, as in JSON."""

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The client can still be used; it opens new ones."""
        self.data.close()

    @property
    def folder(self) -> Path:
        """The cluster's folder on this machine."""
        return self.data.folder

    @property
    def on_this_machine(self) -> bool:
        """Return whether the cluster's tasks run on this machine, with its files and programs."""
        return self.data.on_this_machine

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

    def wait(
        self, name: str, timeout: float | None = None, on_progress: Callable[[JobView], object] | None = None
    ) -> JobView:
        """Wait until the job has ended, however it ended, and return its view.

        ``on_progress`` is called with new views: at each change of state, otherwise at most five times a second.
        Raises WaitTimeoutError after ``timeout`` seconds, NotFoundError.
        """
        shown = None if on_progress is None else lambda view: on_progress(_JOB.convert(view))
        return _JOB.convert(self.data.wait(name, timeout, shown))

    start = one(ApiClient.start, views.StartedView)
    plan = one(ApiClient.plan, views.PlanView)
    jobs = several(ApiClient.jobs, views.JobView)
    newest_jobs = one(ApiClient.newest_jobs, views.JobsView)
    job = one(ApiClient.job, views.JobView)
    job_file = one(ApiClient.job_file, views.JobFileView)
    tasks = several(ApiClient.tasks, views.TaskView)
    attempts = several(ApiClient.attempts, views.AttemptView)
    why = one(ApiClient.why, views.WhyView)
    wait_any = one(ApiClient.wait_any, views.JobView)
    logs = stream(ApiClient.logs, LogLine)
    stop = one(ApiClient.stop, views.JobView)
    delete = one(ApiClient.delete, views.JobView)
    rerun = one(ApiClient.rerun, views.StartedView)
    hold = one(ApiClient.hold, views.JobView)
    release = one(ApiClient.release, views.JobView)
    set_priority = one(ApiClient.set_priority, views.JobView)
    execute = same(ApiClient.execute)
    forward = same(ApiClient.forward)
    push = same(ApiClient.push)
    pull = same(ApiClient.pull)

    scale = one(ApiClient.scale, views.OperationView)
    suspend = one(ApiClient.suspend, views.OperationView)
    resume = one(ApiClient.resume, views.OperationView)
    restart = one(ApiClient.restart, views.OperationView)
    replace = one(ApiClient.replace, views.OperationView)
    operations = several(ApiClient.operations, views.OperationView)
    cancel_operation = one(ApiClient.cancel_operation, views.OperationView)
    wait_for_operation = one(ApiClient.wait_for_operation, views.OperationView)

    start_schedule = one(ApiClient.start_schedule, views.ScheduleView)
    schedules = several(ApiClient.schedules, views.ScheduleView)
    schedule = one(ApiClient.schedule, views.ScheduleView)
    stop_schedule = one(ApiClient.stop_schedule, views.ScheduleView)
    pause_schedule = one(ApiClient.pause_schedule, views.ScheduleView)
    resume_schedule = one(ApiClient.resume_schedule, views.ScheduleView)
    run_schedule = one(ApiClient.run_schedule, views.ScheduleView)
    delete_schedule = one(ApiClient.delete_schedule, views.ScheduleView)

    status = same(ApiClient.status)
    events = same(ApiClient.events)
    older_events = same(ApiClient.older_events)
    daemon_logs = same(ApiClient.daemon_logs)
    changes = same(ApiClient.changes)

    nodes = same(ApiClient.nodes)
    node = same(ApiClient.node)
    cordon = same(ApiClient.cordon)
    uncordon = same(ApiClient.uncordon)
    drain = same(ApiClient.drain)
    remove_node = same(ApiClient.remove_node)
    watch_node = same(ApiClient.watch_node)
    join_token = same(ApiClient.join_token)
    join_tokens = same(ApiClient.join_tokens)
    revoke_join_token = same(ApiClient.revoke_join_token)
    sign_off_image = same(ApiClient.sign_off_image)
    forget_image = same(ApiClient.forget_image)

    usage = same(ApiClient.usage)
    node_usage = same(ApiClient.node_usage)
    job_usage = same(ApiClient.job_usage)
    task_usage = same(ApiClient.task_usage)
    job_metrics = same(ApiClient.job_metrics)
    shares = same(ApiClient.shares)

    users = same(ApiClient.users)
    add_user = same(ApiClient.add_user)
    set_user_role = same(ApiClient.set_user_role)
    disable_user = same(ApiClient.disable_user)
    enable_user = same(ApiClient.enable_user)
    rotate_user = same(ApiClient.rotate_user)
    remove_user = same(ApiClient.remove_user)
