"""``grass.Client``: a cluster for Python programs. Its methods return the typed views of ``grass.wire``.

It decides and sends nothing: each call is one of ``data``, an ``ApiClient``, and its result is converted. Used by
programs of users, ``Executor`` and ``Job``; the CLI and the dashboard use ``ApiClient``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from grass.api.client import ApiClient, Document
from grass.api.patience import TIMEOUT
from grass.api.typed_calls import same

if TYPE_CHECKING:
    from grass.api.job import Job


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

    start = same(ApiClient.start)
    plan = same(ApiClient.plan)
    jobs = same(ApiClient.jobs)
    newest_jobs = same(ApiClient.newest_jobs)
    job = same(ApiClient.job)
    job_file = same(ApiClient.job_file)
    tasks = same(ApiClient.tasks)
    attempts = same(ApiClient.attempts)
    wait = same(ApiClient.wait)
    why = same(ApiClient.why)
    wait_any = same(ApiClient.wait_any)
    logs = same(ApiClient.logs)
    stop = same(ApiClient.stop)
    delete = same(ApiClient.delete)
    rerun = same(ApiClient.rerun)
    hold = same(ApiClient.hold)
    release = same(ApiClient.release)
    set_priority = same(ApiClient.set_priority)
    execute = same(ApiClient.execute)
    forward = same(ApiClient.forward)
    push = same(ApiClient.push)
    pull = same(ApiClient.pull)

    scale = same(ApiClient.scale)
    suspend = same(ApiClient.suspend)
    resume = same(ApiClient.resume)
    restart = same(ApiClient.restart)
    replace = same(ApiClient.replace)
    operations = same(ApiClient.operations)
    cancel_operation = same(ApiClient.cancel_operation)
    wait_for_operation = same(ApiClient.wait_for_operation)

    start_schedule = same(ApiClient.start_schedule)
    schedules = same(ApiClient.schedules)
    schedule = same(ApiClient.schedule)
    stop_schedule = same(ApiClient.stop_schedule)
    pause_schedule = same(ApiClient.pause_schedule)
    resume_schedule = same(ApiClient.resume_schedule)
    run_schedule = same(ApiClient.run_schedule)
    delete_schedule = same(ApiClient.delete_schedule)

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
