"""Define the command `grass job pull`: download the files that a job wrote into its share folder (GRASS_OUTPUT).

Loaded by ``job``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grass.api.earlier_runs import earlier_runs
from grass.cli import transfer
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.values import JOB
from grass.files import paths, transfers
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
    name.
    """
    client = invocation.client()
    view = client.job(name)
    earlier = earlier_runs(view, client.job)
    remotes = [f"{paths.JOBS}/{run}/{paths.to_read(path)}".rstrip("/") for run in (view.id, *earlier)]
    remote = remotes[0]
    target = local or Path(view.name)
    begun = clock.steady()
    pulled = transfer.pulled(invocation)
    progress = transfer.shown(invocation.output)
    access = transfer.access(invocation)
    size = transfers.pull_runs(access, remotes, target, progress, pulled, force=force)
    transfer.done(invocation.output, f"{', '.join(remotes)} → {target}", size, clock.steady() - begun, str(target))
    node = None if size else _with_claim(client, view.id)
    if node is not None:
        invocation.output.note(
            f"job {view.name}: its files are in the claim of node {node}; "
            f"`grass data pull {remote} {target} --node {node}` fetches them"
        )


def _with_claim(client: Client, job: str) -> str | None:
    """Return a node that the job ran on whose pods write their files into a claim."""
    used = {task.node for task in client.tasks(job)}
    namespaces = (node for node in client.nodes() if node.name in used and is_namespace(node.runtimes or ()))
    return next((node.name for node in namespaces if has_share(node.labels or {})), None)
