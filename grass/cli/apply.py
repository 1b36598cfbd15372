"""Define `grass apply`: start and scale the jobs of files in any dialect. All documents are checked before one acts.

Loaded by ``main``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grass.cli import apply_scale
from grass.cli.command import Command
from grass.cli.documents import Source, sources_of
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.operation_text import operation_line
from grass.cli.output import Result
from grass.errors import ConflictError, ManifestError, NotFoundError, Problem

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.manifest import ParsedJob
    from grass.manifest.foreign.dialects import ParsedScale
    from grass.wire.job_views import OperationView, StartedView

FILES = click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True)
)


@dataclass(frozen=True)
class JobDocument:
    """A document that starts a job."""

    source: Source
    parsed: ParsedJob

    @property
    def name(self) -> str:
        return self.parsed.job.name


@dataclass(frozen=True)
class ScaleDocument:
    """A document that scales a job."""

    source: Source
    parsed: ParsedScale


Document = JobDocument | ScaleDocument


@dataclass(frozen=True)
class Terms:
    """How jobs are started. ``env``: variables for all tasks. The others: as in ``Client.start``."""

    strict: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    hold: bool = False
    delay: float | None = None
    after_namesake: bool = False


@click.command("apply", cls=Command)
@FILES
@click.option("--strict", is_flag=True, help="Refuse a job that fits on no node, and treat warnings as errors.")
@click.option("--dry-run", is_flag=True, help="Print the jobs as Grass's own job files, and start nothing.")
@pass_invocation
def apply(invocation: Invocation, files: Sequence[Path], strict: bool, dry_run: bool) -> None:
    """Apply the documents in each FILE: job files of Grass, MARO, et-operator, KubeDL and Kubeflow.

    The kinds are TrainingJob, MarsJob, PyTorchJob, TFJob and MPIJob.

    A ScaleIn or ScaleOut of et-operator files an operation on the job that it names (`grass job operations`). The
    job, the pods and the size are checked before, also with --dry-run.

    A file may have several documents. `-` reads standard input. All documents are checked before the first one is
    applied; nothing is applied if one of them has a problem.
    """
    found = checked([source for file in files for source in sources_of(file)], {})
    if dry_run:
        check_scaling(invocation.client, found)
        _show(invocation, found)
        return
    client = invocation.client()
    check_cluster(client, found)
    apply_all(client, invocation, found, Terms(strict))


def checked(sources: Sequence[Source], env: Mapping[str, str]) -> list[Document]:
    """Parse all documents. ``env``: variables for all tasks. Raises ManifestError with the problems of all of them."""
    found: list[Document] = []
    problems: list[tuple[Source, Problem]] = []
    names: set[str] = set()
    for source in sources:
        try:
            each = _parsed(source, env)
        except ManifestError as error:
            problems += [(source, problem) for problem in error.problems]
            continue
        found.append(each)
        if isinstance(each, JobDocument):
            if each.name in names:
                problems.append((source, Problem("", f"another document starts a job {each.name}, too")))
            names.add(each.name)
    _refuse(problems)
    return found


def _parsed(source: Source, env: Mapping[str, str]) -> Document:
    from grass.api.document_data import with_data
    from grass.manifest import parse_job
    from grass.manifest.foreign.dialects import is_scale, parse_scale

    if is_scale(source.document):
        return ScaleDocument(source, parse_scale(dict(source.document), source=source.name))
    document = with_data(source.document, {**source.env, **env}, str(source.folder), source.name)
    return JobDocument(source, parse_job(document, source=source.name))


def _refuse(problems: Sequence[tuple[Source, Problem]]) -> None:
    """Raise ManifestError if there are problems. Those of one document keep their paths; others begin with its name."""
    sources = {source.name for source, _ in problems}
    if len(sources) == 1:
        raise ManifestError([problem for _, problem in problems], sources.pop())
    if sources:
        raise ManifestError([Problem(_path(source, problem), problem.message) for source, problem in problems])


def _path(source: Source, problem: Problem) -> str:
    return f"{source.name}: {problem.path}" if problem.path else source.name


def check_cluster(client: Client, found: Sequence[Document], *, names: bool = True) -> None:
    """Compare the documents with the jobs of the cluster: names of new jobs must be free, jobs to scale must exist.

    ``names``: whether they must. Raises ConflictError or ManifestError. The API itself checks the name of a single job.
    """
    check_scaling(lambda: client, found)
    for each in found:
        if isinstance(each, JobDocument):
            client.check_programs(each.source.document, each.source.folder, each.source.name)
            if names and len(found) > 1:
                _check_name(client, each)


def check_scaling(client: Callable[[], Client], found: Sequence[Document]) -> None:
    """Check that each request to scale can be carried out after the documents before it. Raises ManifestError.

    ``client``: of the cluster, which is asked only for jobs that no document before the request starts.
    """
    jobs: dict[str, apply_scale.ScaledJob | Problem] = {}
    problems: list[tuple[Source, Problem]] = []
    for each in found:
        if isinstance(each, JobDocument):
            jobs[each.name] = apply_scale.starting(each.parsed.job)
            continue
        request = each.parsed.request
        job = jobs.get(request.job)
        if job is None:
            job = jobs[request.job] = apply_scale.running(client(), request.job)
        problem = job if isinstance(job, Problem) else job.scale(request)
        if problem is not None:
            problems.append((each.source, problem))
    _refuse(problems)


def _check_name(client: Client, each: JobDocument) -> None:
    try:
        view = client.job(each.name, specification=False)
    except NotFoundError:
        return
    if not view.state.ended:
        raise ConflictError(f"{each.source.name}: job {each.name}: still active; nothing was applied")


def apply_all(client: Client, invocation: Invocation, found: Sequence[Document], terms: Terms) -> None:
    """Start and scale all jobs, in order, and print what was done: also if a later document fails."""
    done: list[StartedView | OperationView] = []
    try:
        for each in found:
            done.append(apply_one(client, invocation, each, terms))
    finally:
        if done:
            _show_applied(invocation, done, alone=len(found) == 1)


def apply_one(client: Client, invocation: Invocation, each: Document, terms: Terms) -> StartedView | OperationView:
    """Start or scale a job. Return the view of the started job, or of the operation."""
    if isinstance(each, ScaleDocument):
        for warning in each.parsed.warnings:
            invocation.output.warn(warning)
        return apply_scale.file(client, each.source.name, each.parsed.request)
    source = each.source
    for warning in source.warnings:
        invocation.output.warn(warning)
    if source.sends:
        invocation.output.note(f"{source.name}: sends {', '.join(source.sends)} to the cluster")
    with source.named():
        started = client.start(
            source.document,
            strict=terms.strict,
            cwd=source.folder,
            env={**source.env, **terms.env},
            file=source.file,
            hold=terms.hold,
            delay=terms.delay,
            after_namesake=terms.after_namesake,
        )
    for warning in started.warnings:
        invocation.output.warn(warning)
    return started


def _show_applied(invocation: Invocation, found: Sequence[StartedView | OperationView], *, alone: bool) -> None:
    from grass.wire.job_views import StartedView

    lines = [f"{each.name}  {each.id}" if isinstance(each, StartedView) else operation_line(each) for each in found]
    data: Any = found[0] if alone else list(found)
    invocation.output.show(Result(data, lambda _: lines, [each.id for each in found]))


def _show(invocation: Invocation, found: Sequence[Document]) -> None:
    """Print what would be done: native job files, and operations as comments between them."""
    from grass.manifest import yaml_text
    from grass.manifest.native_writer import job_document

    texts, data, names = [], list[Any](), []
    for each in found:
        for warning in each.parsed.warnings:
            invocation.output.warn(warning)
        if isinstance(each, ScaleDocument):
            request = each.parsed.request
            texts.append(f"# {apply_scale.sentence(request)}\n")
            data.append(asdict(request))
            names.append(request.job)
        else:
            data.append(job_document(each.parsed.job))
            texts.append(yaml_text.write(data[-1]))
            names.append(each.name)
    lines = "---\n".join(texts).rstrip("\n").split("\n")
    invocation.output.show(Result(data[0] if len(data) == 1 else data, lambda _: lines, names))
