"""Options that describe a job on a command line: those of `grass run`, and of `#GRASS` lines in scripts.

``document_of`` turns them into a document, which the manifest checks like any job file. Used by ``documents`` and
``run``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from grass.cli.environment_options import environment_options
from grass.cli.values import FROM_NOW, Quantity, Whole
from grass.errors import InputError, ManifestError, Problem
from grass.model.runtime import RUNTIMES

if TYPE_CHECKING:
    from grass.manifest.document import Document

COMPONENT = "main"
_STDIN = "/dev/stdin"
HOLD = click.option("--hold", is_flag=True, help="Start nothing of it until `grass job release`.")
AT = click.option(
    "--at", type=FROM_NOW, metavar="TIME", help="Start nothing of it before: +2h, 03:00, or 2026-03-01T12:00 (local)."
)


@dataclass(frozen=True)
class JobOptions:
    """The options as they were given. None or empty: not given. Amounts and times are text; the manifest reads it."""

    name: str | None = None
    cpu: str | None = None
    memory: str | None = None
    gpu: str | None = None
    disk: str | None = None
    image: str | None = None
    runtime: str | None = None
    replicas: int | None = None
    parallelism: int | None = None
    array: str | None = None
    each_line: str | None = None
    each_json: str | None = None
    port: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    cwd: str | None = None
    restart: str | None = None
    restart_limit: int | None = None
    grace: str | None = None
    gang: bool = False
    rendezvous: bool = False
    framework: str | None = None
    min: int | None = None
    max: int | None = None
    timeout: str | None = None
    priority: int | None = None
    after: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class Directives(NamedTuple):
    """The options of the `#GRASS` lines of a script. The others: see ``environment_options``."""

    options: JobOptions
    env: tuple[str, ...]
    env_file: tuple[str, ...]
    env_all: bool


class Written(Quantity):
    """An amount that is checked here, and passed on as it was written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        super().convert(value, param, ctx)
        return value


def _options() -> list[click.Parameter]:
    duration, size = Written("duration", "duration"), Written("size", "memory")
    counted = Whole(1, 100_000)
    return [
        click.Option(["--name"], metavar="NAME", help="The job's name. [default: run-XXXXXXXX]"),
        click.Option(
            ["--cpu"], type=Written("cores", "cpu"), metavar="CORES", help="Cores per task, such as 0.5. [default: 1]"
        ),
        click.Option(["--memory"], type=size, metavar="SIZE", help="Memory, such as 512MiB."),
        click.Option(
            ["--gpu"], type=Written("devices", "gpu"), metavar="N", help="GPUs per task, or a share such as 0.25."
        ),
        click.Option(["--disk"], type=size, metavar="SIZE", help="Scratch space."),
        click.Option(["--image"], metavar="IMAGE", help="Run in a container of this image."),
        click.Option(["--runtime"], type=click.Choice(RUNTIMES), help="Runtime of the tasks."),
        click.Option(["--replicas"], type=counted, metavar="N", help="Number of tasks."),
        click.Option(["--parallelism"], type=counted, metavar="N", help="Most tasks at once."),
        click.Option(["--array"], metavar="1-10,17", help="One task per number, in GRASS_ENTRY."),
        click.Option(["--each-line"], metavar="FILE", help="One task per line of FILE, in GRASS_ENTRY; -: stdin."),
        click.Option(["--each-json"], metavar="FILE", help="One task per item of a JSON list; -: stdin."),
        click.Option(["--port"], metavar="NAME", multiple=True, help="A free port, in GRASS_PORT_NAME."),
        click.Option(["--where"], metavar="LABEL=VALUE", multiple=True, help="Only on nodes with this label."),
        click.Option(["--cwd"], metavar="FOLDER", help="Where the command starts."),
        click.Option(
            ["--restart"], type=click.Choice(["never", "on-failure", "always"]), help="When to start a task again."
        ),
        click.Option(["--restart-limit"], type=counted, metavar="N", help="Most restarts of a task. [default: 3]"),
        click.Option(
            ["--grace"],
            type=Written("duration", "duration_or_zero"),
            metavar="DURATION",
            help="Between TERM and KILL. [default: 10s]",
        ),
        click.Option(["--gang"], is_flag=True, help="Start all tasks together or not at all."),
        click.Option(["--rendezvous"], is_flag=True, help="Give each task MASTER_ADDR, RANK, WORLD_SIZE."),
        click.Option(["--framework"], metavar="NAME", help="Set up this framework, such as torchrun."),
        click.Option(["--min"], type=counted, metavar="N", help="Fewest tasks that the job runs with."),
        click.Option(["--max"], type=counted, metavar="N", help="Most tasks, for `grass job scale`."),
        click.Option(["--timeout"], type=duration, metavar="DURATION", help="Stop the job after this time."),
        click.Option(["--priority"], type=Whole(0, 1000), metavar="N", help="Higher goes first."),
        click.Option(["--after"], metavar="JOB", multiple=True, help="Start once this job has succeeded."),
        click.Option(["--tag"], metavar="NAME=VALUE", multiple=True, help="A label by which to find the job."),
        click.Option(
            ["--set", "settings"],
            metavar="KEY=VALUE",
            multiple=True,
            help="Any other key of a component, or job.KEY of the job, as in a job file.",
        ),
    ]


def run_options(command: click.Command) -> click.Command:
    """Add the options to a command."""
    command.params[:0] = _options()
    return command


def parsed(words: Sequence[str], where: str) -> Directives:
    """Parse the words of `#GRASS` lines. Raises InputError, which says ``where``."""
    reader = environment_options(click.Command(where, params=_options(), add_help_option=False))
    try:
        given = reader.make_context(where, list(words)).params
    except click.UsageError as error:
        what = error.format_message().rstrip(".")
        raise InputError(f"{where}: {what}; the options are those of `grass run --help`") from error
    env, files, every = given.pop("env"), given.pop("env_file"), given.pop("env_all")
    return Directives(JobOptions(**given), env, files, every)


def document_of(name: str, command: Sequence[str], options: JobOptions) -> Document:
    """Return the manifest of one command. An option that was not given has its default."""
    resources = _given(cpu=options.cpu, memory=options.memory, gpu=options.gpu, disk=options.disk)
    component = _given(
        image=options.image,
        runtime=options.runtime,
        replicas=options.replicas,
        parallelism=options.parallelism,
        cwd=options.cwd,
        restart=_restart(options),
        grace=options.grace,
        rendezvous=options.rendezvous or None,
        framework=options.framework,
        min=options.min,
        max=options.max,
        ports=list(options.port),
        where=_pairs("--where", options.where),
        **{"from": _source(options)},
    )
    part: Document = {"command": list(command), "resources": resources, **component}
    document: Document = {
        "name": name,
        "components": {COMPONENT: part},
        **_given(
            gang=options.gang or None, timeout=options.timeout, priority=options.priority, after=list(options.after)
        ),
        **_given(tags=_pairs("--tag", options.tag)),
    }
    for setting in options.settings:
        _set(document, part, setting)
    return document


_FLAGS = {"from.array": "array", "from.lines": "each-line", "from.json": "each-json", "ports": "port"}
"""Path in a component → the option that sets it, if its name differs."""


def as_options(error: ManifestError, options: JobOptions) -> ManifestError:
    """Return the error with options in place of the paths that they set. A value of ``--set`` keeps its path."""
    set_here = {setting.partition("=")[0].partition(".")[0] for setting in options.settings}
    return ManifestError([Problem(_option(problem.path, set_here), problem.message) for problem in error.problems])


def _option(path: str, set_here: set[str]) -> str:
    inner = path.removeprefix(f"components.{COMPONENT}.")
    field, key = inner.partition("[")[0], inner.partition(".")[0].partition("[")[0]
    known = {name.replace("_", "-") for name in JobOptions.__dataclass_fields__}
    flag = _FLAGS.get(field, key)
    return f"--{flag}" if flag in known and not {key, "job"} & set_here else path


def _set(document: Document, part: Document, setting: str) -> None:
    """Put one ``--set`` into the component, or into the job. The manifest checks the keys, as those of a file."""
    from grass.manifest.document import read_value

    key, equals, text = setting.partition("=")
    names = key.split(".")
    if not equals or not all(names):
        raise click.BadParameter(f"must be KEY=VALUE, such as resources.shm=1GiB, got {setting!r}", param_hint="--set")
    into = document if names[0] == "job" and len(names) > 1 else part
    *parents, last = names[1:] if into is document else names
    for name in parents:
        into = into.setdefault(name, {})
        if not isinstance(into, dict):
            raise click.BadParameter(f"{key}: {name} has a value already", param_hint="--set")
    if last in into:
        raise click.BadParameter(f"{key}: is given already, by another option", param_hint="--set")
    into[last] = read_value(text, f"--set {key}")


def _given(**values: object) -> Document:
    return {name: value for name, value in values.items() if value not in (None, [], {})}


def _restart(options: JobOptions) -> str | Document | None:
    if options.restart_limit is None:
        return options.restart
    return _given(policy=options.restart, limit=options.restart_limit)


def _source(options: JobOptions) -> dict[str, str]:
    kinds = {"array": options.array, "lines": options.each_line, "json": options.each_json}
    source = {kind: name for kind, name in kinds.items() if name is not None}
    source = {kind: _STDIN if kind != "array" and name == "-" else name for kind, name in source.items()}
    if len(source) > 1:
        raise click.UsageError("--array, --each-line and --each-json exclude each other; use one")
    return source


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"must be NAME=VALUE, got {text!r}", param_hint=option)
        found[name] = value
    return found
