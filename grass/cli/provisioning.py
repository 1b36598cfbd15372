"""The provisioner of the command's cluster, which asks and reports on the user's terminal. Called by commands."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from grass.cli.invocation import Invocation
from grass.errors import InputError
from grass.provision import registry
from grass.provision.provisioner import CanCreate, Provisioner, Session
from grass.system import environment

if TYPE_CHECKING:
    from grass.hosts import Ask
    from grass.manifest.cluster_settings import ClusterSettings

S = TypeVar("S", bound="ClusterSettings")


def of_settings(invocation: Invocation, settings: S, *, ask_become_pass: bool = False) -> CanCreate[S]:
    return registry.for_settings(settings, session_of(invocation, settings.name, ask_become_pass))


def of_cluster(invocation: Invocation, name: str | None = None, *, ask_become_pass: bool = False) -> Provisioner:
    """Return the provisioner of a cluster. Raise NotFoundError if the cluster does not exist."""
    return registry.for_cluster(session_of(invocation, invocation.existing_cluster(name), ask_become_pass))


def session_of(invocation: Invocation, name: str, ask_become_pass: bool = False) -> Session:
    lock, output = threading.Lock(), invocation.output

    def progress(line: str) -> None:
        with lock:  # several threads set up machines at once
            output.note(line)

    return Session(name, environment.grass_home(), progress, _asker(ask_become_pass))


def _asker(first: bool) -> Ask | None:
    """Return how to get the sudo password: ask now (``first``), or when a host needs it; None without a terminal."""
    if not first:
        return _one_at_a_time if sys.stdin is not None and sys.stdin.isatty() else None
    answer = _one_at_a_time("sudo password: ")
    if answer is None:
        raise InputError("no terminal to ask for the sudo password; set GRASS_BECOME_PASSWORD instead")
    return lambda question: answer if question.startswith("sudo password") else _one_at_a_time(question)


def ask_password(question: str) -> str | None:
    """Ask for a password; None without a terminal."""
    return _one_at_a_time(question) if sys.stdin is not None and sys.stdin.isatty() else None


_asking = threading.Lock()


def _one_at_a_time(question: str) -> str | None:
    """Ask one question at a time: several machines may need a password at once."""
    from grass.hosts.host import prompt

    with _asking:
        return prompt(question)
