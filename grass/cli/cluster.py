"""Define the commands `grass create`, `delete`, `status`, `use` and `clean`. Loaded by ``main``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grass.cli import cluster_text, provisioning
from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import CLUSTER
from grass.errors import ConflictError, InputError, NotFoundError, UnreachableError
from grass.provision.provisioner import CanCreate, CanKeepVolume, CanPlan, CanRepair, CanStart, need
from grass.system import clock, environment
from grass.wire.codec import builtins

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.manifest.cluster_settings import ClusterSettings

_ASK_BECOME = click.option("--ask-become-pass", is_flag=True, help="Several hosts: ask for the sudo password first.")
YES = click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation. (Without a terminal, nothing is asked.)"
)


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--repair", is_flag=True, help="Local clusters: cut off the damaged end of the redis log; keeps a copy.")
@click.option("--plan", is_flag=True, help="Print what would be done, and change nothing.")
@_ASK_BECOME
@pass_invocation
def create(invocation: Invocation, file: Path | None, repair: bool, plan: bool, ask_become_pass: bool) -> None:
    """Create a cluster, start it, and make it the current cluster.

    Without FILE, the cluster is on this machine and is called `local`. `grass template settings` prints an example
    FILE; `grass template on-premises` prints one for several hosts, `grass template kubernetes` one for namespaces of
    Kubernetes, and `grass template azure` and `aks` ones on Azure. After a failure, run the same command again.
    """
    settings = _settings(file)
    for warning in settings.warnings:
        invocation.output.warn(warning)
    provisioner = provisioning.of_settings(invocation, settings, ask_become_pass=ask_become_pass)
    if plan:
        planner: CanPlan[ClusterSettings] = need(provisioner, CanPlan)
        lines = planner.plan(settings)
        invocation.output.show(Result({"name": settings.name, "plan": lines}, lambda _: lines, [settings.name]))
        return
    if repair:
        need(provisioner, CanRepair).repair_at_start()
    with _used_if_usable(settings.name):
        made = provisioner.create(settings) if file else need(provisioner, CanStart).start()
    steps = {"done": made.done, "unchanged": made.unchanged}
    wire = {"name": made.name, "mode": made.mode, "home": made.home, "url": made.url, "steps": steps}
    line = f"cluster {made.name} is ready ({made.url})"
    invocation.output.show(Result(wire, lambda _: [line], [made.name]))


def _settings(file: Path | None) -> ClusterSettings:
    from grass.document_file import load_document
    from grass.manifest.local_settings import LocalSettings
    from grass.manifest.settings import parse_settings

    return LocalSettings() if file is None else parse_settings(load_document(file), source=str(file))


@contextmanager
def _used_if_usable(name: str) -> Iterator[None]:
    """Select this cluster for later commands, even if `create` fails half-way: the cluster's API may answer already."""
    try:
        yield
    except ConflictError:
        raise
    except BaseException:
        with suppress(OSError):  # the user must see the first error, not this one
            if (environment.cluster_home(name) / "client" / "profile.json").exists():
                select_cluster(name)
        raise
    select_cluster(name)


@click.command(cls=Command)
@click.argument("name", type=CLUSTER, required=False)
@YES
@click.option("--force", is_flag=True, help="Several hosts: skip hosts that cannot be reached.")
@click.option("--packages", is_flag=True, help="Several hosts: also remove system packages that were installed for it.")
@click.option("--volume", is_flag=True, help="Master inside Kubernetes: also delete its volume.")
@_ASK_BECOME
@pass_invocation
def delete(
    invocation: Invocation,
    name: str | None,
    yes: bool,
    force: bool,
    packages: bool,
    volume: bool,
    ask_become_pass: bool,
) -> Exit:
    """Delete a cluster with its jobs, logs and processes. Also removes what was installed for it on its hosts.

    On a terminal, asks for confirmation if neither NAME nor --yes is given.
    """
    sure = yes or name is not None
    name = invocation.existing_cluster(name)
    if not sure and not invocation.output.ask(f"Delete the cluster {name}, its jobs and their logs?"):
        return unchanged(invocation)
    provisioner = provisioning.of_cluster(invocation, name, ask_become_pass=ask_become_pass)
    if isinstance(provisioner, CanKeepVolume):
        asks, question = invocation.output.can_ask and not yes, "Delete also its volume, with jobs, logs and results?"
        provisioner.keep_volume(keep=not (volume or (asks and invocation.output.ask(question))))
    elif volume:
        raise InputError("--volume: is for a cluster whose master is inside Kubernetes")
    deleted = need(provisioner, CanCreate).delete(force=force, packages=packages)
    deselect_cluster(name)
    for host, why in deleted.left.items():
        invocation.output.warn(f"{host}: not cleaned: {why}")
    wire = {"name": name, "left": deleted.left}
    invocation.output.show(Result(wire, lambda _: [f"cluster {name} deleted"], [name]))
    return Exit.OK


@click.command(cls=Command)
@pass_invocation
def status(invocation: Invocation) -> Exit:
    """Show the daemons, nodes and jobs of the cluster.

    Exit code 3 if its API does not answer or its store refuses writes, 74 if the store's disk is full.
    """
    from grass.api.error_reply import error_of

    name = invocation.existing_cluster()
    found = provisioning.of_cluster(invocation, name).status()
    view = cluster_text.Overview(name, found.url, found.daemons)
    code = Exit.OK
    try:
        client = invocation.client()
        overview = client.status()
        view = replace(
            view, nodes=client.nodes(), jobs=overview.jobs, store=overview.store, isolation=overview.isolation
        )
        view = replace(view, standby=overview.standby, cloud=overview.cloud)
    except UnreachableError as error:
        view, code = replace(view, error=str(error)), Exit(error.exit_code)
    if view.store is not None:
        code = Exit(error_of(builtins(view.store)).exit_code)
    invocation.output.show(Result(view, partial(cluster_text.status_page, view, clock.wall()), [name], items="daemons"))
    for message in found.problems:
        invocation.output.warn(message)
    return code


@click.command(cls=Command)
@click.argument("name", type=CLUSTER, required=False)
@pass_invocation
def use(invocation: Invocation, name: str | None) -> None:
    """Make NAME the current cluster: commands use it unless they name another. Without NAME, list the clusters."""
    if name is None:
        names, current = environment.clusters(environment.grass_home()), ""
        with suppress(NotFoundError):  # there are several, and none was chosen
            current = invocation.cluster
        found = [{"name": each, "current": each == current} for each in names]
        lines = [f"{each}  (current)" if each == current else each for each in names]
        invocation.output.show(Result(found, lambda _: lines or ["no cluster; `grass create` creates one"], names))
        return
    name = invocation.existing_cluster(name)
    select_cluster(name)
    invocation.output.show(Result({"name": name}, lambda _: [f"using cluster {name}"], [name]))


@click.command(cls=Command)
@YES
@click.option("--outputs", is_flag=True, help="Also delete the files of these jobs in GRASS_OUTPUT.")
@pass_invocation
def clean(invocation: Invocation, yes: bool, outputs: bool) -> Exit:
    """Delete all finished jobs and their logs. Files in GRASS_OUTPUT stay, unless --outputs is given."""
    client = invocation.client()
    ended = [job.id for job in client.jobs(all=True) if job.state.ended]
    question = f"Delete {len(ended)} finished jobs with their logs{' and outputs' if outputs else ''}?"
    if ended and not yes and not invocation.output.ask(question):
        return unchanged(invocation)
    deleted = [job_id for job_id in ended if _delete(client, job_id)]
    if outputs:
        _remove_outputs(invocation, deleted)
    invocation.output.show(Result({"deleted": deleted}, lambda _: [f"deleted {len(deleted)} jobs"], deleted))
    return Exit.OK


def _delete(client: Client, job_id: str) -> bool:
    """Delete a job. Return False if another `clean` or retention deleted the job meanwhile."""
    try:
        client.delete(job_id)
    except NotFoundError:
        return False
    return True


def _remove_outputs(invocation: Invocation, job_ids: Sequence[str]) -> None:
    from grass.cli import transfer
    from grass.files.operations import RemoveFiles

    share = transfer.access(invocation)
    for job_id in job_ids:
        with suppress(NotFoundError):
            share.ask(RemoveFiles(f"jobs/{job_id}", recursive=True))


def unchanged(invocation: Invocation) -> Exit:
    invocation.output.note("nothing was changed")
    return Exit.INTERRUPTED


def select_cluster(name: str) -> None:
    """Select a cluster. Write a new file and rename it, so that a reader finds the old name or the new one."""
    home = environment.grass_home()
    beside = home / f"current.{os.getpid()}"
    beside.write_text(name + "\n")
    beside.replace(home / "current")


def deselect_cluster(name: str) -> None:
    """Select no cluster, if this one was selected."""
    current = environment.grass_home() / "current"
    with suppress(FileNotFoundError):  # no cluster was selected, or another command has just deselected it
        if current.is_file() and current.read_text().strip() == name:
            current.unlink()
