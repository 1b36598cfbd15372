"""Define the commands `grass image …` for container images in the share; nodes load images from the share.

Loaded by ``main``.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import click

from grass.cli import transfer
from grass.cli.command import Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.errors import InputError, NotFoundError
from grass.files import transfers
from grass.files.operations import ImageEntry, Index, ListImages, RemoveImage
from grass.model.amounts import show_memory
from grass.model.image import full_name, is_path
from grass.system import environment
from grass.wire.codec import builtins

_LIST = (Column("NAME"), Column("ID"), Column("SIZE", right=True), Column("PUSHED (UTC)", drop=1))


@click.group(cls=Group)
def image() -> None:
    """Manage the container images of the cluster. A node loads an image before the first task that needs it."""


@image.command()
@click.argument("name", required=False, default="", metavar="[NAME | FILE]")
@click.option(
    "--file",
    "archive",
    type=click.Path(path_type=Path),
    help="File written by `docker save`; NAME may rename its image.",
)
@click.option("--node", metavar="NAME", help="Send it to the registry of this node, a namespace of Kubernetes.")
@pass_invocation
def push(invocation: Invocation, name: str, archive: Path | None, node: str | None) -> None:
    """Send an image to the share, from this machine's docker engine or from a file written by `docker save`.

    An argument that is a path (`image.tar`, `./image`) is a FILE. Layers that the share has are not sent again.
    With --node the image goes to a registry instead; the command prints which name it has there.
    """
    if archive is None and is_path(name):
        name, archive = "", Path(name)
    if not name and archive is None:
        raise InputError("name an image of this machine's engine, or a file: `grass image push --file image.tar`")
    if node is not None:
        _push_to_registry(invocation, node, name, archive)
        return
    scratch = environment.grass_home() / "cache"
    output = invocation.output
    what = f"image {name or archive}"
    with transfer.interrupted(f"{what}: interrupted; it may be incomplete in the share; the same command continues"):
        pushed = transfers.push_image(
            transfer.access(invocation), name, archive, scratch, output.note, transfer.shown(output)
        )
        for each, image in pushed.items():
            invocation.client().sign_off_image(each, image.config, image.programs)
    names = list(pushed)
    output.show(Result(names, lambda _: [f"{one}  pushed" for one in names], names))


def _push_to_registry(invocation: Invocation, node: str, name: str, archive: Path | None) -> None:
    from grass.cli import provisioning
    from grass.provision import namespace_images
    from grass.provision.provisioner import CanReachShares

    provisioner, output = provisioning.of_cluster(invocation), invocation.output
    if not isinstance(provisioner, CanReachShares):
        raise InputError("--node: use `docker push`; only clusters on this machine know the login of a registry")
    with transfer.interrupted(f"image {name or archive}: interrupted; the same command continues"):
        pushed = namespace_images.push(provisioner.namespace(node), name, archive, output.note)
    output.show(Result([pushed], lambda _: [f"{pushed}  pushed; jobs name it so: `image: {pushed}`"], [pushed]))


@image.command("list")
@pass_invocation
def list_images(invocation: Invocation) -> None:
    """List the images in the share."""
    index = transfer.access(invocation).ask(ListImages())
    invocation.output.show(Result(builtins(index), lambda width: image_list(index, width), sorted(index)))


@image.command()
@click.argument("name")
@pass_invocation
def remove(invocation: Invocation, name: str) -> None:
    """Remove an image from the share, with layers that no other image needs.

    Nodes keep images that they have loaded.
    """
    with transfer.interrupted(f"image {name}: interrupted; it may be removed; see `grass image list`"):
        removed = transfer.access(invocation).ask(RemoveImage(full_name(name)))
        with suppress(NotFoundError):  # pushed before digests were recorded
            invocation.client().forget_image(full_name(name))
    line = f"{removed.removed}  removed, {show_memory(removed.freed)} freed"
    invocation.output.show(Result(builtins(removed), lambda _: [line], [removed.removed]))


def image_list(index: Index, width: int | None) -> list[str]:
    if not index:
        return ["no images; `grass image push NAME` sends one"]
    return table(_LIST, [_row(name, entry) for name, entry in sorted(index.items())], width)


def _row(name: str, entry: ImageEntry) -> list[str]:
    pushed = datetime.fromtimestamp(entry.pushed, timezone.utc).strftime("%Y-%m-%d %H:%M")
    return [name, entry.config[:12], show_memory(entry.size), pushed]
