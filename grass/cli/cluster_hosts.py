"""`grass create`, `delete` and `status` of a cluster on several hosts. Called by ``cluster``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from grass import environment
from grass.cli.invocation import Invocation
from grass.cli.output import Result
from grass.errors import InputError

if TYPE_CHECKING:
    from grass.manifest.settings import Settings
    from grass.provision.on_premises.machines import Ask


def has_hosts(name: str) -> bool:
    """Without importing what speaks SSH: every call of `grass` may come by here."""
    return (environment.cluster_home(name) / "client" / "machines.json").exists()


def is_usable(name: str) -> bool:
    """Its API can be called, even if not every node joined."""
    return (environment.cluster_home(name) / "client" / "profile.json").exists()


def create(invocation: Invocation, settings: Settings, *, plan: bool, ask_become_pass: bool) -> None:
    from grass.provision.on_premises import create as making

    note, ask = invocation.output.note, asker(ask_become_pass)
    for warning in settings.warnings:
        invocation.output.warn(warning)
    if plan:
        lines = making.plan(settings, progress=note, ask=ask)
        invocation.output.show(Result({"name": settings.name, "plan": lines}, lambda _: lines, [settings.name]))
        return
    made = making.create(settings, progress=note, ask=ask)
    home = str(environment.cluster_home(made.name))
    done = {"done": made.outcome.done, "unchanged": made.outcome.unchanged}
    wire = {"name": made.name, "mode": settings.mode, "home": home, "url": made.url, "steps": done}
    line = f"the cluster {made.name} is ready ({made.url})"
    invocation.output.show(Result(wire, lambda _: [line], [made.name]))


def delete(invocation: Invocation, name: str, *, force: bool, packages: bool, ask_become_pass: bool) -> None:
    from grass.provision.on_premises import delete as removing

    note, ask = invocation.output.note, asker(ask_become_pass)
    gone = removing.delete(name, progress=note, ask=ask, force=force, packages=packages)
    for host, why in gone.left.items():
        invocation.output.warn(f"{host} keeps what was made there: {why}")
    wire = {"name": name, "left": gone.left}
    invocation.output.show(Result(wire, lambda _: [f"the cluster {name} is deleted"], [name]))


def daemons(invocation: Invocation, name: str) -> tuple[list[dict[str, Any]], str]:
    """Those of the master, as SSH finds them; none if it does not get there. And the URL of the API."""
    from grass.api.keyring import load_profile
    from grass.provision.on_premises.status import master_daemons

    url = load_profile(environment.cluster_home(name) / "client").url
    found, problem = master_daemons(name)
    if problem:
        invocation.output.note(problem)
    return found, url


def asker(first: bool) -> Ask | None:
    """What asks for the password of sudo: at once if told to, when a host wants one on a terminal, or never."""
    from grass.hosts.port import prompt

    if not first:
        return prompt if sys.stdin is not None and sys.stdin.isatty() else None
    answer = prompt("sudo password: ")
    if answer is None:
        raise InputError("there is no terminal to ask for the password of sudo; GRASS_BECOME_PASSWORD may hold it")
    return lambda _: answer
