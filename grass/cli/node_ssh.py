"""`grass node ssh`: a shell on a node's machine, by the system's ssh."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.values import NODE
from grass.errors import InputError


@click.command(cls=Command)
@click.argument("name", type=NODE)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@pass_invocation
def ssh(invocation: Invocation, name: str, command: Sequence[str]) -> None:
    """A shell on the machine of a node, or one command there; exits as it does.

    CMD of several words reaches the machine as these words; one word is a line for its shell. Logs in as `grass node
    add` did, with the host key that was pinned then; a machine that joined by itself is reached by your own SSH
    settings.
    """
    words = [*provisioning.of_cluster(invocation).ssh_command(name, invocation.client()), *remote(command)]
    if shutil.which("ssh") is None:
        raise InputError("there is no `ssh` on this machine; install one (Debian: openssh-client)")
    invocation.close()
    os.execvp("ssh", words)


def remote(command: Sequence[str]) -> list[str]:
    """For ssh, which puts words together with spaces and gives them to a shell."""
    return [shlex.join(command)] if len(command) > 1 else list(command)
