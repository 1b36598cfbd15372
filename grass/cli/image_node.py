"""Define the commands `grass image-node`: images from which nodes in a cloud start. Loaded by ``main``."""

from __future__ import annotations

import click

from grass.cli import provisioning
from grass.cli.command import Command, Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import Column, table
from grass.provision.provisioner import CanBuildImages, NodeImage, need

_COLUMNS = (Column("IMAGE"), Column("MADE ON"), Column("MADE FROM", drop=1))


@click.group("image-node", cls=Group)
def image_node() -> None:
    """Images in a cloud (Azure) in which all is installed that a node needs, so that nodes join sooner."""


@image_node.command(cls=Command)
@click.option("--size", metavar="SIZE", help="Size of the machine that becomes the image. [default: the master's]")
@pass_invocation
def build(invocation: Invocation, size: str | None) -> None:
    """Build an image for nodes: make a machine, install what a node needs, capture it, and remove the machine.

    It takes about 10 minutes. The machine is removed whatever happens; after a kill, by the next call. The image is
    paid by its size on the disk until it is removed.
    """
    provisioner = need(provisioning.of_cluster(invocation), CanBuildImages)
    made = provisioner.build_image(size, invocation.client())
    use = (
        f"`sizes: {{{made.size}: {{image: {made.name}}}}}` in the file, and `grass create FILE`, make new nodes from it"
    )
    invocation.output.show(Result(made, lambda _: [f"image {made.name} is ready; {use}"], [made.name]))


@image_node.command("list", cls=Command)
@pass_invocation
def list_images(invocation: Invocation) -> None:
    """List the images of the cluster, the oldest first."""
    found = need(provisioning.of_cluster(invocation), CanBuildImages).node_images()
    names = [each.name for each in found]
    invocation.output.show(Result(found, lambda width: table(_COLUMNS, [_row(each) for each in found], width), names))


@image_node.command(cls=Command)
@click.argument("name", metavar="NAME")
@pass_invocation
def remove(invocation: Invocation, name: str) -> None:
    """Remove an image. Nodes that were made from it stay."""
    need(provisioning.of_cluster(invocation), CanBuildImages).remove_image(name)
    invocation.output.show(Result({"removed": name}, lambda _: [f"image {name} is removed"], [name]))


def _row(each: NodeImage) -> tuple[str, str, str]:
    return each.name, each.size, each.made_from
