"""Define `grass job start`: job files of any dialect, scripts with `#GRASS` lines, standard input. Loaded by `job`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from grass.cli.apply import FILES, Terms, apply_all, check_cluster, checked
from grass.cli.command import Command
from grass.cli.documents import called, sources_of
from grass.cli.environment_options import environment_of, environment_options
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.run_options import AT, HOLD


class StartCommand(Command):
    """Takes what is behind `--` for the arguments of a script, not for more files."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, arguments = args, []
        if "--" in args:
            at = args.index("--")
            own, arguments = args[:at], args[at + 1 :]
        ctx.params["arguments"] = arguments
        return super().parse_args(ctx, own)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARG...]"]


@click.command("start", cls=StartCommand)
@FILES
@click.option("--name", metavar="NAME", help="Call the job so, whatever the file says.")
@click.option("--strict", is_flag=True, help="Refuse a job that fits on no node, and treat warnings as errors.")
@HOLD
@AT
@click.option(
    "--after-namesake", is_flag=True, help="While a job of that name is active, wait for its end as NAME.2, NAME.3 …"
)
@environment_options
@pass_invocation
def start(
    invocation: Invocation,
    files: Sequence[Path],
    strict: bool,
    hold: bool,
    at: float | None,
    after_namesake: bool,
    env: tuple[str, ...],
    env_file: tuple[str, ...],
    env_all: bool,
    name: str | None,
    arguments: Sequence[str],
) -> None:
    """Start the job in each FILE: a job file, or a script that begins with `#!`. `-` reads standard input.

    A script gets the ARGs behind `--`.

    A job file may be one of Grass, of MARO, of et-operator or of KubeDL, and may have several documents. Comments of a
    script such as `#GRASS --cpu 2 --name train` take the options of `grass run`. All files are checked before the first
    job starts.

    Returns as soon as the cluster has stored the jobs; they then run independently of this terminal.
    """
    added = environment_of(env, env_file, env_all, invocation.output.warn)
    sources = [source for file in files for source in sources_of(file, arguments)]
    found = checked(called(sources, name) if name is not None else sources, added)
    client = invocation.client()
    check_cluster(client, found, names=not after_namesake)
    apply_all(client, invocation, found, Terms(strict, added, hold, at, after_namesake))
