"""Define `grass job signal`: send a signal to running tasks. Loaded by ``job``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import JOB, PART, Part


@click.command("signal", cls=Command)
@click.argument("name", type=JOB)
@click.argument("signal_name", metavar="SIGNAL")
@click.argument("parts", type=PART, nargs=-1, metavar="[COMPONENT[.INDEX]…]")
@pass_invocation
def send_signal(invocation: Invocation, name: str, signal_name: str, parts: Sequence[Part]) -> None:
    """Send a signal, such as USR1, to the first process of running tasks: of all, or of those that are named.

    With `exec` before the command, or a list as the command, the first process is the program itself and not a shell.
    To end tasks, use `grass job stop`.
    """
    told = invocation.client().signal(name, signal_name, [part.text for part in parts])
    lines = [f"{name}  {task}  {signal_name}" for task in told]
    invocation.output.show(Result({"job": name, "tasks": told}, lambda _: lines, told, items="tasks"))
