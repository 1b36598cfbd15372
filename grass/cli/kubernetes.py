"""Define the commands `grass kubernetes …`: what an administrator of Kubernetes installs. Loaded by ``main``."""

from __future__ import annotations

import click

from grass.cli.command import Command, Group
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Format, Result


@click.group(cls=Group)
def kubernetes() -> None:
    """What a cluster of Kubernetes needs, to serve resources as jobs."""


@kubernetes.command("crds", cls=Command)
@pass_invocation
def crds(invocation: Invocation) -> None:
    """Print the CustomResourceDefinitions of TrainingJob, MarsJob, ElasticJob, ScaleIn and ScaleOut.

    For clusters that have none from et-operator, KubeDL or DLRover. An administrator installs them once:

    \b
    grass kubernetes crds | kubectl apply --server-side -f -
    """
    from grass.kubernetes import crds as definitions
    from grass.manifest import yaml_text

    found = definitions.crds()
    if invocation.output.format is Format.JSON:
        invocation.output.show(Result(found, lambda _: []))
    else:
        invocation.output.raw("---\n".join(map(yaml_text.write, found)))
