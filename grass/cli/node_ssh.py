"""Define the command `grass node ssh`: open a shell on a node's machine with the system's ssh. Loaded by ``node``."""

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
from grass.provision.provisioner import CanLogIn, need


@click.command(cls=Command)
@click.argument("name", type=NODE)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD…]")
@pass_invocation
def ssh(invocation: Invocation, name: str, command: Sequence[str]) -> None:
    """Open a shell on a node's machine, or run one command there. Exits with its exit code.

    Several words of CMD are passed as they are; a single word is a line for the remote shell. Logs in as `grass node
    add` did, and checks the host key that was pinned then. A machine that joined by itself is reached with your own
    SSH settings.
    """
    provisioner = need(provisioning.of_cluster(invocation), CanLogIn)
    words = [*provisioner.ssh_command(name, invocation.client()), *remote(command)]
    if shutil.which("ssh") is None:
        raise InputError("`ssh` is not installed on this machine; install it (Debian: openssh-client)")
    invocation.close()
    os.execvp("ssh", words)


def remote(command: Sequence[str]) -> list[str]:
    """Quote words for ssh, which joins them with spaces and passes them to a shell."""
    return [shlex.join(command)] if len(command) > 1 else list(command)
