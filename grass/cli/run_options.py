"""Options that describe a job on a command line: those of `grass run`, and of `#GRASS` lines in scripts.

``document_of`` turns them into a document, which the manifest checks like any job file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from grass.cli.values import Quantity

COMPONENT = "main"
_STDIN = "/dev/stdin"
Options = Mapping[str, Any]
"""Name of an option's parameter → value. None or empty: the option was not given."""


class Written(Quantity):
    """An amount that is checked here, and passed on as it was written."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        super().convert(value, param, ctx)
        return value


def _options() -> list[click.Parameter]:
    duration, size = Written("duration", "duration"), Written("size", "memory")
    counted = click.IntRange(1, 100_000)
    return [
        click.Option(["--name"], metavar="NAME", help="The job's name. [default: run-XXXXXXXX]"),
        click.Option(["--cpu"], type=Written("cores", "cpu"), metavar="CORES", help="Cores, 1 or 0.5. [default: 1]"),
        click.Option(["--memory"], type=size, metavar="SIZE", help="Memory, such as 512MiB."),
        click.Option(["--gpu"], type=Written("devices", "gpu"), metavar="N", help="Devices, or a share such as 0.25."),
        click.Option(["--disk"], type=size, metavar="SIZE", help="Scratch space."),
        click.Option(["--image"], metavar="IMAGE", help="Run in a container of this image."),
        click.Option(["--runtime"], type=click.Choice(["process", "docker"]), help="How to run."),
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
        click.Option(["--timeout"], type=duration, metavar="DURATION", help="Stop the job after this time."),
        click.Option(["--priority"], type=click.IntRange(0, 1000), metavar="N", help="Higher goes first."),
        click.Option(["--after"], metavar="JOB", multiple=True, help="Start once this job has succeeded."),
        click.Option(["--tag"], metavar="NAME=VALUE", multiple=True, help="A note, to find the job by."),
    ]


def run_options(command: click.Command) -> click.Command:
    """Add the options to a command."""
    command.params[:0] = _options()
    return command


def parsed(words: Sequence[str], where: str, also: Callable[[Any], Any]) -> dict[str, Any]:
    """Parse the words of `#GRASS` lines. ``also``: adds further options. Raises click.UsageError."""
    reader = also(click.Command(where, params=_options(), add_help_option=False))
    try:
        return dict(reader.make_context(where, list(words)).params)
    except click.UsageError as error:
        raise click.UsageError(f"{where}: {error.format_message()}") from error


def document_of(name: str, command: Sequence[str], options: Options) -> dict[str, Any]:
    """Return the manifest of one command. An option that was not given has its default."""
    given = {key: value for key, value in options.items() if value not in (None, ())}
    component: dict[str, Any] = {"command": list(command), "resources": _chosen(given, "cpu", "memory", "gpu", "disk")}
    component |= _chosen(given, "image", "runtime", "replicas", "parallelism", "cwd", "restart")
    component |= {key: list(given[option]) for key, option in (("ports", "port"),) if option in given}
    if "where" in given:
        component["where"] = _pairs("--where", given["where"])
    if source := _source(given):
        component["from"] = source
    job = {"name": name, "components": {COMPONENT: component}, **_chosen(given, "timeout", "priority")}
    if "after" in given:
        job["after"] = list(given["after"])
    if "tag" in given:
        job["tags"] = _pairs("--tag", given["tag"])
    return job


def _chosen(given: Options, *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _source(given: Options) -> dict[str, str]:
    kinds = {"array": "array", "each_line": "lines", "each_json": "json"}
    source = {kind: given[option] for option, kind in kinds.items() if option in given}
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
