"""Define the options `--env` and `--env-all`: variables for the tasks of a job. Used by ``job start`` and ``run``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from grass import environment

_F = TypeVar("_F", bound=Callable[..., Any])


def environment_options(command: _F) -> _F:
    """Add the options to a command; its parameters are ``env`` and ``env_all``."""
    every = click.option("--env-all", is_flag=True, help="Pass all variables of this shell to the tasks.")
    one = click.option(
        "--env", metavar="NAME[=VALUE]", multiple=True, help="Set a variable; without a value, pass on the shell's."
    )
    return one(every(command))


def environment_of(env: tuple[str, ...], env_all: bool) -> dict[str, str]:
    """Return the variables that the options name. Raises InputError for a bad name, or one that is not set."""
    if not env and not env_all:
        return {}
    from grass.manifest import shell

    here = environment.whole_environment()
    return {**(shell.passable(here) if env_all else {}), **shell.assignments(env, here)}
