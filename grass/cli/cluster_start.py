"""Define the commands `grass stop` and `grass start`. Loaded by ``main``."""

from __future__ import annotations

import click

from grass.cli import provisioning
from grass.cli.cluster import YES, select_cluster, unchanged
from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import CLUSTER
from grass.errors import NotFoundError, UnreachableError
from grass.provision.provisioner import CanStart, CanStartAtBoot, CanStop, RunsAlreadyError, need


@click.command(cls=Command)
@click.argument("name", type=CLUSTER, required=False)
@YES
@pass_invocation
def stop(invocation: Invocation, name: str | None, yes: bool) -> Exit:
    """Stop a cluster on this machine, and keep its jobs, logs and schedules; on AKS, also its machines.

    Tasks that run are ended; they start anew when `grass start` starts the cluster again. That does not count as a
    restart. On a terminal, asks for confirmation if tasks run.
    """
    name = _cluster(invocation, name, "stop")
    provisioner = need(provisioning.of_cluster(invocation, name), CanStop)
    running = 0 if yes or not invocation.output.can_ask else _tasks(name)
    tasks = "1 task runs" if running == 1 else f"{running} tasks run"
    if running and not invocation.output.ask(f"{tasks} on {name}, and would start anew later. Stop the cluster?"):
        return unchanged(invocation)
    ran = provisioner.stop()
    line = f"cluster {name} stopped; `grass start {name}` starts it again" if ran else f"cluster {name} did not run"
    invocation.output.show(Result({"name": name, "stopped": ran}, lambda _: [line], [name]))
    return Exit.OK


@click.command(cls=Command)
@click.argument("name", type=CLUSTER, required=False)
@click.option("--at-boot/--not-at-boot", default=None, help="Also start it at each boot of this machine, or no more.")
@pass_invocation
def start(invocation: Invocation, name: str | None, at_boot: bool | None) -> None:
    """Start a stopped cluster on this machine with its jobs, logs and schedules, and make it the current cluster.

    On AKS, its machines are started first.
    """
    name = _cluster(invocation, name, "start")
    provisioner = provisioning.of_cluster(invocation, name)
    starter = need(provisioner, CanStart)
    try:
        url = starter.start().url
        lines = [f"cluster {name} is ready ({url})"]
    except RunsAlreadyError:
        lines = [f"cluster {name} runs"]
    select_cluster(name)
    if at_boot is not None:
        booting = need(provisioner, CanStartAtBoot)
        if at_boot:
            lines.append(f"this machine starts it at each boot: {booting.start_at_boot()}")
        else:
            had = booting.forget_at_boot()
            lines.append("this machine starts it at boot no more" if had else "this machine did not start it at boot")
    invocation.output.show(Result({"name": name, "at_boot": at_boot}, lambda _: lines, [name]))


def _cluster(invocation: Invocation, name: str | None, verb: str) -> str:
    try:
        return invocation.existing_cluster(name)
    except NotFoundError as error:
        if name is None:
            raise
        raise NotFoundError(f"{error}; `grass job {verb} {name}` is for jobs") from error


def _tasks(name: str) -> int:
    """Return the number of tasks that run; 0 if the cluster does not answer."""
    from grass.api.client import Client

    try:
        with Client(name) as client:
            return sum(node.tasks for node in client.nodes())
    except UnreachableError:
        return 0
