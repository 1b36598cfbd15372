"""Namespaces of Kubernetes move with the master: the folders of their agents, which stop and start with its daemons.

Pods run on. The new agents have the ids and the records of the old ones, and take the Lease over once these gave it
back. Used by ``moving``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from grass.errors import ConflictError
from grass.hosts import Host
from grass.kubernetes.credentials import CREDENTIALS
from grass.provision.namespaces import DAEMONS
from grass.provision.on_premises import install, namespace_steps, node_paths
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.install import AS_GRASS
from grass.provision.on_premises.namespace_nodes import look_from
from grass.provision.on_premises.namespace_steps import OwnNamespace
from grass.provision.on_premises.steps import Progress, run_steps
from grass.wire.codec import builtins

_PATIENCE = 3600.0
_SEND = 'cd "$1" && exec tar -cf - --exclude=./node.started .'
_RECEIVE = """
new=$1/.moving
rm -rf -- "$new" && mkdir -m 700 -- "$new" && tar -xpf - -C "$new" || exit 1
find "$1" -mindepth 1 -maxdepth 1 ! -name .moving -exec rm -rf -- {} + || exit 1
find "$new" -mindepth 1 -maxdepth 1 -exec mv -t "$1" -- {} + && rmdir -- "$new" && sync
"""


def units(names: Mapping[str, OwnNamespace], cluster: str) -> tuple[str, ...]:
    return tuple(node_paths.of_namespace(cluster, name).unit(each.name) for name in names for each in DAEMONS)


def prepare(old: Host, new: Host, there: Facts, cluster: str, names: Mapping[str, OwnNamespace], say: Progress) -> None:
    """Note and make the folders on the new machine, and look whether it reaches the API servers.

    Raises ConflictError: a port is taken; UnreachableError and NotAllowedError, as when a namespace is added."""
    for name, own in names.items():
        if (listener := there.listens("", own.api_port)) is not None:
            raise ConflictError(
                f"{new.name}: port {own.api_port}, of the API of node {name}, is taken by "
                f"{listener.program or 'another program'}; end that, or take another machine"
            )
        paths = node_paths.of_namespace(cluster, name)
        credentials = CREDENTIALS.decode(old.get(paths.kubernetes, sudo=True))
        look_from(new, credentials)
        made = replace(namespace_steps.made(there, paths), details=builtins(own))
        folders = [(paths.home.rpartition("/")[0], 0o755, "root:root"), (paths.home, 0o700, paths.owner)]
        steps = [install.record_step(made, namespace_steps.record_path(paths)), install.folder_step(folders)]
        run_steps(new, steps, say, name)


def copy(old: Host, new: Host, cluster: str, names: Mapping[str, OwnNamespace]) -> None:
    """Bring the folders of the agents, which are stopped."""
    for name in names:
        home = node_paths.of_namespace(cluster, name).home
        reading, writing = os.pipe()
        with ThreadPoolExecutor(1) as pool, os.fdopen(reading, "rb") as source:
            receive = (*AS_GRASS, "sh", "-c", _RECEIVE, "receive", home)
            received = pool.submit(new.run, receive, stdin=source, sudo=True, timeout=_PATIENCE)
            with os.fdopen(writing, "wb") as output:
                send = (*AS_GRASS, "sh", "-c", _SEND, "send", home)
                sent = old.run(send, sudo=True, timeout=_PATIENCE, output=output)
            received.result().check()
            sent.check()
