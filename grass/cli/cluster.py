"""`grass create`, `delete`, `status`, `use`, `clean`"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grass import clock, config, environment
from grass.cli import cluster_hosts, cluster_views
from grass.cli.command import Command
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.values import CLUSTER
from grass.errors import InputError, NotFoundError, UnreachableError
from grass.model.lifecycle import JobState

if TYPE_CHECKING:
    from grass.api.client import Client

_ASK_BECOME = click.option("--ask-become-pass", is_flag=True, help="Several hosts: ask for the password of sudo first.")
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask. (Without a terminal, nothing is asked.)")


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--repair", is_flag=True, help="This machine: cut off what redis cannot read of its log; keeps a copy.")
@click.option("--plan", is_flag=True, help="Several hosts: print what would be done there, step by step, and stop.")
@_ASK_BECOME
@pass_invocation
def create(invocation: Invocation, file: Path | None, repair: bool, plan: bool, ask_become_pass: bool) -> None:
    """Make a cluster, start it, and use it from now on.

    Without FILE, one on this machine that is called `local`. `grass template settings` prints a FILE to start from;
    `grass template on-premises` one for a cluster on several hosts. Repeated after a failure, it goes on from there.
    """
    from grass.provision import local

    settings = _settings(file)
    if settings is not None and settings.on_premises is not None:
        if repair:
            raise InputError("--repair is for a cluster on this machine; for a host see docs/guide/faults.md")
        try:
            cluster_hosts.create(invocation, settings, plan=plan, ask_become_pass=ask_become_pass)
        finally:
            if not plan and cluster_hosts.is_usable(settings.name):
                _use(settings.name)
        return
    if plan:
        raise InputError("--plan is for clusters on several hosts (`mode: grass/on-premises`)")
    cluster = local.create(settings, repair=repair, progress=invocation.output.note)
    _use(cluster.name)
    url = _url(cluster)
    wire = {"name": cluster.name, "mode": cluster.mode, "home": cluster.home, "url": url}
    line = f"the cluster {cluster.name} is ready ({url})"
    invocation.output.show(Result(wire, lambda _: [line], [cluster.name]))


def _settings(file: Path | None) -> Any:
    if file is None:
        return None
    from grass.manifest import load_document, parse_settings

    return parse_settings(load_document(file), source=str(file))


@click.command(cls=Command)
@click.argument("name", type=CLUSTER, required=False)
@_YES
@click.option("--force", is_flag=True, help="Several hosts: go on without those that cannot be reached.")
@click.option("--packages", is_flag=True, help="Several hosts: also remove the packages that were installed for it.")
@_ASK_BECOME
@pass_invocation
def delete(
    invocation: Invocation, name: str | None, yes: bool, force: bool, packages: bool, ask_become_pass: bool
) -> Exit:
    """End a cluster and remove all of it: its jobs, their logs, its processes, on every host what was made for it.

    Asks first, on a terminal, if neither NAME nor --yes is given.
    """
    from grass.provision import local

    sure = yes or name is not None
    name = invocation.existing_cluster(name)
    if not sure and not invocation.output.ask(f"Delete the cluster {name}, its jobs and their logs?"):
        return _unchanged(invocation)
    if cluster_hosts.has_hosts(name):
        cluster_hosts.delete(invocation, name, force=force, packages=packages, ask_become_pass=ask_become_pass)
        _stop_using(name)
        return Exit.OK
    local.delete(name, progress=invocation.output.note)
    _stop_using(name)
    invocation.output.show(Result({"name": name}, lambda _: [f"the cluster {name} is deleted"], [name]))
    return Exit.OK


@click.command(cls=Command)
@pass_invocation
def status(invocation: Invocation) -> Exit:
    """The daemons, nodes and jobs of the cluster.

    Exit code 3 if its API does not answer or its store refuses writes, 74 if the store's disk is full.
    """
    from grass.api.transport import error_of
    from grass.provision import local, trouble

    name = invocation.existing_cluster()
    if cluster_hosts.has_hosts(name):
        daemons, url = cluster_hosts.daemons(invocation, name)
        troubles = []
    else:
        daemons = local.status(name)
        cluster = config.ClusterConfig.load(environment.cluster_home(name) / "cluster.json")
        troubles, url = trouble.look(cluster, daemons), _url(cluster)
    view: dict[str, Any] = {"cluster": name, "url": url, "daemons": daemons, "nodes": None, "jobs": None, "store": None}
    view["error"] = None
    code = Exit.OK
    try:
        client = invocation.client()
        overview = client.status()
        view |= {"jobs": overview["jobs"], "store": overview["store"], "nodes": client.nodes()}
    except UnreachableError as error:
        view["error"], code = str(error), Exit(error.exit_code)
    if view["store"] is not None:
        code = Exit(error_of(view["store"]).exit_code)
    invocation.output.show(Result(view, partial(cluster_views.status_page, view, clock.wall()), [name]))
    for message in troubles:
        invocation.output.warn(message)
    return code


@click.command(cls=Command)
@click.argument("name", type=CLUSTER)
@pass_invocation
def use(invocation: Invocation, name: str) -> None:
    """Choose the cluster that commands mean when they name none."""
    name = invocation.existing_cluster(name)
    _use(name)
    invocation.output.show(Result({"name": name}, lambda _: [f"using the cluster {name}"], [name]))


@click.command(cls=Command)
@_YES
@pass_invocation
def clean(invocation: Invocation, yes: bool) -> Exit:
    """Delete every job that has ended, with its logs and files."""
    client = invocation.client()
    ended = [job["id"] for job in client.jobs(all=True) if JobState(job["state"]).ended]
    if ended and not yes and not invocation.output.ask(f"Delete {len(ended)} ended jobs with their logs?"):
        return _unchanged(invocation)
    deleted = [job_id for job_id in ended if _delete(client, job_id)]
    invocation.output.show(Result({"deleted": deleted}, lambda _: [f"deleted {len(deleted)} jobs"], deleted))
    return Exit.OK


def _delete(client: Client, job_id: str) -> bool:
    """False when it is gone already: another `clean`, or the cluster, which keeps so many, deleted it meanwhile."""
    try:
        client.delete(job_id)
    except NotFoundError:
        return False
    return True


def _unchanged(invocation: Invocation) -> Exit:
    invocation.output.note("nothing was changed")
    return Exit.INTERRUPTED


def _url(cluster: config.ClusterConfig) -> str:
    return f"http://{cluster.master.api_host}:{cluster.master.api_port}"


def _use(name: str) -> None:
    """Written beside and renamed, so that a reader finds the old name or the new one."""
    home = environment.grass_home()
    beside = home / f"current.{os.getpid()}"
    beside.write_text(name + "\n")
    beside.replace(home / "current")


def _stop_using(name: str) -> None:
    current = environment.grass_home() / "current"
    if current.is_file() and current.read_text().strip() == name:
        current.unlink()
