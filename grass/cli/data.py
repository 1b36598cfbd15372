"""Define the commands `grass data …` for files of the share, which tasks find under GRASS_DATA. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import click

from grass.cli import namespace_transfer, transfer
from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.files import paths, transfers
from grass.files.operations import FileEntry, FileType, ListFiles, RemoveFiles
from grass.model.amounts import show_memory
from grass.system import clock
from grass.wire.codec import builtins

_LIST = (Column("NAME"), Column("SIZE", right=True), Column("MODIFIED (UTC)", drop=1))


@click.group(cls=Group)
def data() -> None:
    """Send, fetch, list and remove files in the share. Tasks see the share under GRASS_DATA."""


_of_node = click.option(
    "--node", metavar="NAME", help="Use the claim that is the share of this namespace of Kubernetes."
)


@data.command()
@click.argument("local", type=click.Path(path_type=Path))
@click.argument("remote")
@click.option("-L", "--copy-links", is_flag=True, help="Send the content of what symbolic links point to.")
@_of_node
@pass_invocation
def push(invocation: Invocation, local: Path, remote: str, copy_links: bool, node: str | None) -> None:
    """Send LOCAL to the share, as REMOTE.

    The content of a folder goes into the folder REMOTE; a file becomes REMOTE, or goes into it when it ends in a slash.
    Unchanged files are skipped and interrupted ones continue, so the same command may be repeated.
    Symbolic links stay links. Links that point outside of LOCAL are refused, unless --copy-links is given.
    """
    begun = clock.steady()
    progress = transfer.shown(invocation.output)
    with transfer.interrupted(f"{remote}: interrupted; files that were sent are there; the same command continues"):
        if node is not None:
            size = namespace_transfer.push(invocation, node, local, remote, copy_links=copy_links)
        else:
            size = transfers.push(transfer.access(invocation), local, remote, progress, copy_links=copy_links)
    transfer.done(invocation.output, f"{local} → {remote}", size, clock.steady() - begun, remote)


@data.command()
@click.argument("remote")
@click.argument("local", type=click.Path(path_type=Path), default=".")
@transfer.force
@_of_node
@pass_invocation
def pull(invocation: Invocation, remote: str, local: Path, force: bool, node: str | None) -> None:
    """Fetch REMOTE from the share to LOCAL (default: here).

    A repeated pull fetches what is new. It refuses to overwrite files that were edited here, without --force.
    """
    begun = clock.steady()
    if node is not None:
        size = namespace_transfer.pull(invocation, node, remote, local, force=force)
    else:
        progress, pulled = transfer.shown(invocation.output), transfer.pulled(invocation)
        size = transfers.pull(transfer.access(invocation), remote, local, progress, pulled, force=force)
    transfer.done(invocation.output, f"{remote} → {local}", size, clock.steady() - begun, str(local))


@data.command("list")
@click.argument("remote", default="")
@pass_invocation
def list_files(invocation: Invocation, remote: str) -> None:
    """List the share, or a folder in it."""
    entries = transfer.access(invocation).ask(ListFiles(paths.to_read(remote)))
    invocation.output.show(
        Result(builtins(entries), lambda width: file_list(entries, width), [one.name for one in entries])
    )


@data.command()
@click.argument("remote")
@click.option("-r", "--recursive", is_flag=True, help="Remove a folder with its content.")
@pass_invocation
def remove(invocation: Invocation, remote: str, recursive: bool) -> None:
    """Remove a file or folder from the share."""
    with transfer.interrupted(f"{remote}: interrupted; it may be removed, or a part of it; see `grass data list`"):
        removed = transfer.access(invocation).ask(RemoveFiles(paths.to_remove(remote), recursive))
    invocation.output.show(Result(builtins(removed), lambda _: [f"{remote}  removed"], [remote]))


def file_list(entries: Sequence[FileEntry], width: int | None) -> list[str]:
    if not entries:
        return ["nothing"]
    return table(_LIST, [_row(entry) for entry in entries], width)


def _row(entry: FileEntry) -> list[str]:
    modified = datetime.fromtimestamp(entry.modified, timezone.utc).strftime("%Y-%m-%d %H:%M")
    if entry.type is FileType.FOLDER:
        return [f"{entry.name}/", "", modified]
    return [entry.name, show_memory(entry.size), modified]
