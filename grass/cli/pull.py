"""Define the command `grass job pull`: download the files that a job wrote into its share folder (GRASS_OUTPUT).

Loaded by ``job``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grass.api.output_files import pull_output
from grass.cli import transfer
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.values import JOB
from grass.model.namespace import has_share, is_namespace
from grass.system import clock

if TYPE_CHECKING:
    from grass.api.client import Client


@click.command(cls=Command)
@click.argument("name", type=JOB)
@click.argument("path", default="")
@click.option("--to", "local", type=click.Path(path_type=Path), help="Target folder or file. [default: ./NAME]")
@transfer.force
@pass_invocation
def pull(invocation: Invocation, name: str, path: str, local: Path | None, force: bool) -> None:
    """Fetch a job's GRASS_OUTPUT folder, or PATH in it.

    A repeated pull fetches what is new. It refuses to overwrite files that were edited here, without --force. Of a
    rerun of failed tasks, it also fetches what the earlier runs wrote, unless the rerun has written a file of that
    name. The output of tasks comes in files of its own if the job file has `output: {file: …}`.
    """
    client = invocation.client()
    begun = clock.steady()
    pulled = transfer.pulled(invocation)
    progress = transfer.shown(invocation.output)
    access = transfer.access(invocation)
    found = pull_output(client, access, name, path, local, progress, pulled, force=force)
    view, target, size = found.job, found.target, found.size
    transfer.done(
        invocation.output, f"{', '.join(found.remotes)} → {target}", size, clock.steady() - begun, str(target)
    )
    if found.late:
        invocation.output.note(
            f"job {view.name}: some of its output has not reached the log collector; a later pull fetches it"
        )
    node = None if found.shared else _with_claim(client, view.id)
    if node is not None:
        invocation.output.note(
            f"job {view.name}: its files are in the claim of node {node}; "
            f"`grass data pull {found.remotes[0]} {target} --node {node}` fetches them"
        )


def _with_claim(client: Client, job: str) -> str | None:
    """Return a node that the job ran on whose pods write their files into a claim."""
    used = {task.node for task in client.tasks(job)}
    namespaces = (node for node in client.nodes() if node.name in used and is_namespace(node.runtimes or ()))
    return next((node.name for node in namespaces if has_share(node.labels or {})), None)
