"""From the body of a submission to a job that the cluster accepts. Pure. Used by ``jobs``, ``plan``, ``schedules``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from grass.config import ClusterConfig
from grass.errors import InputError, ManifestError, Problem, UndecodableError
from grass.manifest import ParsedJob, maro, parse_job, values
from grass.manifest.document import show_text
from grass.manifest.schedule import ParsedSchedule, parse_schedule
from grass.model.job import Job
from grass.model.names import is_run_of
from grass.model.process_settings import is_setting
from grass.wire.calls import ScheduleSubmission, Submission
from grass.wire.job_file import JobFile, unpack
from grass.wire.node_record import NodeRecord
from master.api.suitability import Allowed, above_quota, asks_about_nodes, unsuited


@dataclass(frozen=True)
class Accepted:
    """A submission that was checked.

    ``file``: of the job, to be kept; None: none was sent.
    """

    job: Job
    job_id: str
    warnings: tuple[str, ...]
    file: JobFile | None = None


@dataclass(frozen=True)
class Terms:
    """What the cluster says about all jobs of a user.

    ``keep_cwd``: tasks start in the client's folder, with variables of the client's shell. ``task_redis``: the port at
    which tasks reach their redis as localhost; 0: there is none. ``allowed``: the user's quota.
    """

    keep_cwd: bool = True
    task_redis: int = 0
    allowed: Allowed | None = None

    @classmethod
    def of(cls, config: ClusterConfig, user: str) -> Terms:
        quota = config.master.quotas.get(user, config.master.default_quota)
        return cls(config.master.nodes_on_client, config.task_redis, Allowed(user, quota))


PLAIN = Terms()


def accept_job(
    submission: Submission, nodes: Callable[[], list[NodeRecord]], new_id: Callable[[str], str], terms: Terms = PLAIN
) -> Accepted:
    """Return the job. Raises InputError or ManifestError; if ``strict``, also for warnings and unsuited parts.

    ``nodes``: reads their records, which most jobs do not need. ``new_id``: makes a job id from a name.
    """
    parsed: ParsedJob = parse_job(submission.manifest)
    origin = origin_of(submission) if terms.keep_cwd else Origin()
    job = origin.applied(parsed.job)
    missing = unsuited(job, nodes()) if submission.strict or asks_about_nodes(job) else []
    missing += above_quota(job, terms.allowed)
    told = (*parsed.warnings, *_redis_elsewhere(job, terms.task_redis))
    if submission.strict and (told or missing):
        raise ManifestError([*(Problem("", warning) for warning in told), *missing])
    warnings = (*told, *map(str, missing))
    job_id = checked_job_id(submission.id, job.name) or new_id(job.name)
    return Accepted(job, job_id, warnings, _checked_file(submission.file))


def accept_schedule(
    submission: ScheduleSubmission, nodes: Callable[[], list[NodeRecord]], terms: Terms = PLAIN
) -> ParsedSchedule:
    """Return the schedule. Raises InputError or ManifestError. The arguments are those of ``accept_job``."""
    parsed = parse_schedule(submission.manifest)
    origin = origin_of(submission) if terms.keep_cwd else Origin()
    jobs = tuple(origin.applied(job) for job in parsed.schedule.jobs)
    first = jobs[0]  # the jobs of a batch differ only in their names
    missing = unsuited(first, nodes()) if asks_about_nodes(first) else []
    missing += above_quota(first, terms.allowed)
    return replace(
        parsed,
        schedule=replace(parsed.schedule, jobs=jobs),
        warnings=(*parsed.warnings, *_redis_elsewhere(first, terms.task_redis), *map(str, missing)),
    )


def _redis_elsewhere(job: Job, port: int) -> tuple[str, ...]:
    """Warn of a job of MARO's file whose tasks would wait for minutes for a redis, and then fail."""
    if job.dialect != maro.DIALECT or job.task_count < 2 or port == maro.REDIS_PORT:
        return ()
    there = f"has its redis for tasks at localhost:{port}" if port else "has no redis for tasks"
    return (
        f"mode: MARO's Proxy looks for a redis at localhost:{maro.REDIS_PORT}, and this cluster {there}; "
        f"if the job uses a Proxy, set `task_redis: {{port: {maro.REDIS_PORT}}}` in the settings of the cluster, or "
        "give the Proxy a redis_address",
    )


@dataclass(frozen=True)
class Origin:
    """Where a job was submitted from. ``folder``: what relative paths of its components refer to; None: not known."""

    folder: PurePosixPath | None = None
    shell: tuple[tuple[str, str], ...] = ()
    process: tuple[tuple[str, int], ...] = ()

    def applied(self, job: Job) -> Job:
        """Return the job with this origin in each component."""
        if self == Origin():
            return job
        base = None if self.folder is None else str(self.folder)
        components = {
            name: replace(part, base=base, shell=self.shell, process=self.process)
            for name, part in job.components.items()
        }
        return replace(job, components=components)


def origin_of(submission: Submission | ScheduleSubmission) -> Origin:
    """Return the origin of a submission from the machine of the nodes. Raises InputError."""
    return Origin(_folder(submission.cwd), _shell(submission.shell), _process(submission.process))


def _process(settings: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """Check the settings of the client's process."""
    for name, value in settings.items():
        if not is_setting(name, value):
            raise InputError(f"process.{show_text(name)}: must be a umask or a limit, got {value}")
    return tuple(settings.items())


def _shell(variables: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Check the variables. Those that Grass itself sets are refused."""
    for name, value in variables.items():
        try:
            values.variable_name(name)
            values.scalar_text(value)
        except values.Wrong as wrong:
            raise InputError(f"shell.{show_text(name)}: {wrong}") from wrong
    return tuple(variables.items())


def _checked_file(file: JobFile | None) -> JobFile | None:
    """Return the file, or None for an empty one. Raises InputError for what is not text, or too long."""
    if file is None:
        return None
    try:
        return file if unpack(file) else None
    except UndecodableError as error:
        raise InputError(str(error)) from error


def _folder(text: str | None) -> PurePosixPath | None:
    if text is None:
        return None
    folder = PurePosixPath(text)
    if not folder.is_absolute() or "\0" in text:
        raise InputError(f"cwd: must be an absolute path, got {text!r}")
    return folder


def checked_job_id(text: str | None, name: str) -> str | None:
    """Check the id, which the client chooses so that it can repeat a submission whose reply was lost."""
    if text is not None and not is_run_of(text, name):
        raise InputError(f"id: must be the job's name, '-' and 8 hexadecimal digits, got {text!r}")
    return text
