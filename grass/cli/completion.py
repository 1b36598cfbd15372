"""Define the command `grass completion`. Loaded by ``main``."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.errors import InputError

_SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@pass_invocation
def completion(invocation: Invocation, shell: str | None) -> None:
    """Print the completion script for a shell. [default: your login shell]

    \b
    bash:  grass completion bash >> ~/.bashrc
    zsh:   grass completion zsh >> ~/.zshrc
    fish:  grass completion fish > ~/.config/fish/completions/grass.fish
    """
    from click.shell_completion import get_completion_class

    from grass.cli.main import grass

    shell = shell or login_shell()
    make = get_completion_class(shell)
    assert make is not None, f"click knows {shell}"
    invocation.output.raw(make(grass, {}, "grass", "_GRASS_COMPLETE").source())


def login_shell() -> str:
    name = Path(pwd.getpwuid(os.getuid()).pw_shell).name
    if name not in _SHELLS:
        raise InputError(f"no completion for {name or 'your login shell'}; name one of {', '.join(_SHELLS)}")
    return name
