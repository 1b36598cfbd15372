"""Define the options `--env`, `--env-file` and `--env-all`: variables for the tasks of a job.

Used by ``job start`` and ``run``, and for `#GRASS` lines by ``documents``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from grass.errors import InputError
from grass.system import environment

_F = TypeVar("_F", bound=Callable[..., Any])


def environment_options(command: _F) -> _F:
    """Add the options to a command; its parameters are ``env``, ``env_file`` and ``env_all``."""
    every = click.option("--env-all", is_flag=True, help="Pass all variables of this shell to the tasks.")
    files = click.option(
        "--env-file", metavar="FILE", multiple=True, help="Set the variables in FILE, one NAME=VALUE a line."
    )
    one = click.option(
        "--env", metavar="NAME[=VALUE]", multiple=True, help="Set a variable; without a value, pass on the shell's."
    )
    return one(files(every(command)))


def environment_of(
    env: tuple[str, ...],
    env_file: tuple[str, ...],
    env_all: bool,
    warn: Callable[[str], object],
    folder: Path | None = None,
) -> dict[str, str]:
    """Return the variables that the options name: `--env` goes before `--env-file`, and that before `--env-all`.

    ``folder``: where relative paths begin. Raises InputError for a bad name, or one that is not set.
    """
    if not env and not env_file and not env_all:
        return {}
    from grass.manifest import shell

    here = environment.whole_environment()
    found = shell.passable(here) if env_all else {}
    if env_all and (left := shell.left_out(here)):
        warn(f"--env-all: not passed on: {', '.join(left)}; define functions in a file that the task reads")
    for name in env_file:
        found.update(_variables_in(Path(folder or "", name)))
    return {**found, **shell.assignments(env, here)}


def _variables_in(file: Path) -> dict[str, str]:
    from grass.document_file import read_text
    from grass.manifest import Wrong
    from grass.manifest.shell import read_file

    try:
        return read_file(read_text(file))
    except Wrong as wrong:
        raise InputError(f"--env-file: {file}: {wrong}") from wrong
