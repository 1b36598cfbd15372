"""Define the command `grass autoscale`: start and stop nodes in a cloud by themselves. Loaded by ``main``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grass.cli import provisioning
from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.node_power import back, drain
from grass.cli.node_remove import take_out
from grass.errors import GrassError, InputError
from grass.provision.provisioner import AutoscaleRequest, CanAutoscale, need

if TYPE_CHECKING:
    from grass.manifest.cluster_settings import ClusterSettings

_DRAIN_SECONDS = 60.0
"""How long a task may still run on a node that was idle: it came meanwhile, so the node goes on."""


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Look once, do what follows, and end.")
@pass_invocation
def autoscale(invocation: Invocation, file: Path, once: bool) -> None:
    """Start and stop nodes in a cloud (Azure) by themselves, until Ctrl-C, by `autoscale` in the settings FILE.

    Tasks that wait get machines on which they fit, nodes without tasks are stopped, and no more is spent a day than the
    file allows. It uses your login, on this machine: nothing is started or stopped while it does not run.
    """
    from grass.document_file import load_document
    from grass.manifest.settings import parse_settings

    settings = parse_settings(load_document(file), source=str(file))
    if settings.name != invocation.cluster:
        raise InputError(f"{file}: is of the cluster {settings.name}; choose it with --cluster {settings.name}")
    provisioner: CanAutoscale[ClusterSettings] = need(provisioning.of_cluster(invocation), CanAutoscale)
    client = invocation.client()
    provisioner.autoscale(settings, request_of(invocation, once=once), client)


def request_of(invocation: Invocation, *, once: bool) -> AutoscaleRequest:
    """Return what the autoscaler asks of the cluster, on this machine or on the master."""
    return AutoscaleRequest(
        once,
        lambda names: _drain(invocation, names),
        lambda name, drained: back(invocation, name, drained),
        lambda name: take_out(invocation, name, _DRAIN_SECONDS, None, force=False),
    )


def _drain(invocation: Invocation, names: Sequence[str]) -> dict[str, GrassError]:
    failed = drain(invocation, names, None, _DRAIN_SECONDS)
    for name in failed:
        invocation.client().uncordon(name)
    return failed
