"""`grass node ssh`: a shell on a node's machine, by the system's ssh."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence

import click

from grass import environment
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.values import NODE
from grass.errors import InputError, NotFoundError


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
    words = [*_ssh_words(invocation, name), *remote(command)]
    if shutil.which("ssh") is None:
        raise InputError("there is no `ssh` on this machine; install one (Debian: openssh-client)")
    invocation.close()
    os.execvp("ssh", words)


def remote(command: Sequence[str]) -> list[str]:
    """For ssh, which puts words together with spaces and gives them to a shell."""
    return [shlex.join(command)] if len(command) > 1 else list(command)


def _ssh_words(invocation: Invocation, name: str) -> list[str]:
    from grass.provision.on_premises.machines import KNOWN_HOSTS, load_machines

    cluster = invocation.existing_cluster()
    machines = load_machines(cluster)
    settings = machines.nodes.get(name) if machines else None
    if settings is None:
        address = invocation.client().node(name)["address"]
        if not address:
            raise NotFoundError(f"node {name} has not said its address yet")
        return ["ssh", address]
    login = settings.login
    known = environment.cluster_home(cluster) / "client" / KNOWN_HOSTS
    words = ["ssh", "-p", str(login.port), "-o", f'UserKnownHostsFile="{known}"', "-o", "StrictHostKeyChecking=yes"]
    words += ["-o", "GlobalKnownHostsFile=/dev/null"]
    if login.key:
        words += ["-i", login.key]
    return [*words, f"{login.username}@{settings.address}" if login.username else settings.address]
