"""``grass.Client``: a cluster for Python programs. Its methods return the typed views of ``grass.wire``.

It decides and sends nothing: each call is one of ``data``, the plain client, and its result is converted. Used by
programs of users, ``Executor`` and ``Job``; the CLI and the dashboard use the plain client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from grass.api.client import Client as PlainClient
from grass.api.client import Document
from grass.api.client_views import EventPage, LogLine
from grass.api.patience import TIMEOUT
from grass.api.typed_calls import one, same, several, stream
from grass.wire import usage_views, views
from grass.wire.codec import Form
from grass.wire.daemon_line import DaemonLine
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
        self.data = PlainClient(cluster, home=None if home is None else Path(home), timeout=timeout)
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
        """Whether the cluster's tasks run on this machine, with its files and programs."""
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

    start = one(PlainClient.start, views.StartedView)
    plan = one(PlainClient.plan, views.PlanView)
    jobs = several(PlainClient.jobs, views.JobView)
    newest_jobs = one(PlainClient.newest_jobs, views.JobsView)
    job = one(PlainClient.job, views.JobView)
    tasks = several(PlainClient.tasks, views.TaskView)
    attempts = several(PlainClient.attempts, views.AttemptView)
    why = one(PlainClient.why, views.WhyView)
    wait_any = one(PlainClient.wait_any, views.JobView)
    logs = stream(PlainClient.logs, LogLine)
    stop = one(PlainClient.stop, views.JobView)
    delete = one(PlainClient.delete, views.JobView)
    rerun = one(PlainClient.rerun, views.StartedView)
    hold = one(PlainClient.hold, views.JobView)
    release = one(PlainClient.release, views.JobView)
    set_priority = one(PlainClient.set_priority, views.JobView)
    execute = same(PlainClient.execute)
    forward = same(PlainClient.forward)
    push = same(PlainClient.push)
    pull = same(PlainClient.pull)

    scale = one(PlainClient.scale, views.OperationView)
    suspend = one(PlainClient.suspend, views.OperationView)
    resume = one(PlainClient.resume, views.OperationView)
    restart = one(PlainClient.restart, views.OperationView)
    replace = one(PlainClient.replace, views.OperationView)
    operations = several(PlainClient.operations, views.OperationView)
    cancel_operation = one(PlainClient.cancel_operation, views.OperationView)
    wait_for_operation = one(PlainClient.wait_for_operation, views.OperationView)

    start_schedule = one(PlainClient.start_schedule, views.ScheduleView)
    schedules = several(PlainClient.schedules, views.ScheduleView)
    schedule = one(PlainClient.schedule, views.ScheduleView)
    stop_schedule = one(PlainClient.stop_schedule, views.ScheduleView)
    pause_schedule = one(PlainClient.pause_schedule, views.ScheduleView)
    resume_schedule = one(PlainClient.resume_schedule, views.ScheduleView)
    run_schedule = one(PlainClient.run_schedule, views.ScheduleView)
    delete_schedule = one(PlainClient.delete_schedule, views.ScheduleView)

    status = one(PlainClient.status, views.StatusView)
    events = stream(PlainClient.events, views.EventView)
    older_events = one(PlainClient.older_events, EventPage)
    daemon_logs = stream(PlainClient.daemon_logs, DaemonLine)
    changes = stream(PlainClient.changes, views.ChangePiece)

    nodes = several(PlainClient.nodes, views.NodeView)
    node = one(PlainClient.node, views.NodeView)
    cordon = one(PlainClient.cordon, views.NodeAccepted)
    uncordon = one(PlainClient.uncordon, views.NodeAccepted)
    drain = one(PlainClient.drain, views.NodeAccepted)
    remove_node = one(PlainClient.remove_node, views.NodeAccepted)
    watch_node = one(PlainClient.watch_node, views.NodeWaited)
    join_token = one(PlainClient.join_token, views.JoinTokenView)
    join_tokens = several(PlainClient.join_tokens, views.JoinTokenRow)
    revoke_join_token = one(PlainClient.revoke_join_token, views.JoinTokenRow)
    sign_off_image = one(PlainClient.sign_off_image, views.ImageView)
    forget_image = one(PlainClient.forget_image, views.ImageView)

    usage = one(PlainClient.usage, usage_views.ClusterUsageView)
    node_usage = one(PlainClient.node_usage, usage_views.NodeUsageView)
    job_usage = one(PlainClient.job_usage, usage_views.JobUsageView)
    task_usage = one(PlainClient.task_usage, usage_views.TaskUsageView)
    job_metrics = one(PlainClient.job_metrics, usage_views.JobMetricsView)
    shares = one(PlainClient.shares, views.SharesView)

    users = several(PlainClient.users, views.UserView)
    add_user = one(PlainClient.add_user, views.UserInvitation)
    set_user_role = one(PlainClient.set_user_role, views.UserView)
    disable_user = one(PlainClient.disable_user, views.UserView)
    enable_user = one(PlainClient.enable_user, views.UserView)
    rotate_user = one(PlainClient.rotate_user, views.UserInvitation)
    remove_user = one(PlainClient.remove_user, views.UserView)
