"""What a task in a pod gets for its membership and its framework. It reads Grass's programs for tasks; else pure.

A pod has an address of its own, and sees no folder of a node. So the files of its job are text that its runtime brings
there, and what a framework renders is rendered again whenever an address becomes known. Used by ``service``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import grass.task
from grass.api.task_token import task_token
from grass.errors import InputError
from grass.frameworks import arguments
from grass.frameworks.registry import render
from grass.frameworks.seat import Rendered, Seat, files_folder, library_folder
from grass.model.feasibility import some
from grass.model.framework import FrameworkName
from grass.node_config import NodeHome
from grass.wire.codec import encode
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from node.membership.paths import MEMBERSHIP
from node.membership.rendering import JOINED, PROGRAM_FOLDER, Additions, seat
from node.runtime.kubernetes.job_files import FOLDER, RELAY, size

MOST_BYTES = 200_000
"""Bytes of the files of a pod. Kubernetes takes 262,144 in all annotations."""
ADDRESSES = "addresses"
MODULES = "/usr/local/lib/grass/python"
"""Where the ``ssh`` of Grass finds its modules in a container."""
_SCRATCH = "/grass/scratch"
_LIBRARY = Path(grass.task.__file__).parent / "library"


def variables(component: str) -> dict[str, str]:
    """Return the variables that name files of the job."""
    return {
        "GRASS_ADDRESSES": f"{FOLDER}/{ADDRESSES}",
        "GRASS_MEMBERSHIP": f"{files_folder(FOLDER, component)}/{MEMBERSHIP}",
    }


def files(
    config: NodeHome, template: LaunchTemplate, memberships: Mapping[str, Membership], addresses: str | None
) -> dict[str, str]:
    """Return the files of the job that pods of a component see, by path. Empty: its tasks need not know each other.

    ``addresses`` None: no task of the job has a port. Raises InputError: they are too large."""
    component = template.component
    own = memberships.get(component.name)
    if own is None and (addresses is None or template.alone):
        return {}
    found = {ADDRESSES: addresses or ""}
    folder = files_folder("", component.name).lstrip("/")
    if own is not None:
        found[f"{folder}/{MEMBERSHIP}"] = encode(own)
    made: Rendered | None = None
    if _has_framework(template):
        any_task = AttemptKey(template.job_id, component.name, 0, 1)
        ports = own.members[0].ports if own and own.members else {}
        try:
            made = render(_seat(config, any_task, template, DesiredAttempt(0, dict(ports)), memberships, ""))
        except InputError:  # it cannot start yet, and its start says why
            made = Rendered()
        found |= {f"{folder}/{name}": text for name, text in made.files.items()}
    if made is not None and (made.programs or "PYTHONPATH" in made.env):
        found |= _library()
    elif component.elastic:
        found[RELAY] = _library()[RELAY]
    _check(template, found)
    return found


def additions(
    config: NodeHome,
    key: str,
    template: LaunchTemplate,
    entry: DesiredAttempt,
    memberships: Mapping[str, Membership],
    address: str,
) -> Additions:
    """Return what an attempt gets by what is known now. ``address``: of its pod; empty: it has none yet.

    Raises InputError: its framework cannot render it."""
    awaits = awaited(template, memberships, address)
    env = {"GRASS_TOKEN": task_token(template.secret, key)} if template.secret else {}
    if not _has_framework(template):
        return Additions(env, awaits=awaits)
    component = template.component
    made = render(_seat(config, AttemptKey.parse(key), template, entry, memberships, address))
    late = {name: value for name, value in made.env.items() if name not in component.env}
    for name in JOINED:
        if name in made.env:
            late[name] = ":".join(filter(None, (made.env[name], component.env.get(name, ""))))
    if made.arguments:
        late[arguments.VARIABLE] = arguments.text(made.arguments)
    library = library_folder(FOLDER)
    return Additions({**env, "GRASS_LIBRARY": library}, _programs(made), late, awaits)


def _programs(made: Rendered) -> tuple[tuple[str, str], ...]:
    """Return the files of the volume that a pod sees elsewhere, too: Grass's programs, and their modules."""
    if not made.programs:
        return ()
    root = library_folder("").lstrip("/")
    programs = tuple((f"{root}/{made.program_folder}/{name}", f"{PROGRAM_FOLDER}/{name}") for name in made.programs)
    return (*programs, (f"{root}/python", MODULES))


def awaited(template: LaunchTemplate, memberships: Mapping[str, Membership], address: str) -> str:
    """Return what an attempt must wait for before it begins; empty: nothing.

    Where tasks can do nothing without each other, each waits for the addresses of all that have a place.
    """
    if not address:
        return "its pod has no address yet"
    framework = template.component.framework
    if not template.gang and not (framework is not None and framework.kind.addresses_at_start):
        return ""
    missing = [each.task for known in memberships.values() for each in known.members if not each.address]
    return f"its pod waits for the addresses of {some(missing, 3)}" if missing else ""


def _has_framework(template: LaunchTemplate) -> bool:
    framework = template.component.framework
    return framework is not None and framework.name is not FrameworkName.NONE


def _seat(
    config: NodeHome,
    key: AttemptKey,
    template: LaunchTemplate,
    entry: DesiredAttempt,
    memberships: Mapping[str, Membership],
    address: str,
) -> Seat:
    found = seat(config, key, template, entry, memberships, contained=True)
    return replace(found, address=address, folder=FOLDER, scratch=_SCRATCH, own_network=True)


@cache
def _library() -> Mapping[str, str]:
    """Return Grass's programs for tasks, by path."""
    root = library_folder("").lstrip("/")
    paths = (path for path in sorted(_LIBRARY.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {f"{root}/{path.relative_to(_LIBRARY)}": path.read_text() for path in paths}


def _check(template: LaunchTemplate, found: Mapping[str, str]) -> None:
    if (bytes_ := size(found)) > MOST_BYTES:
        raise InputError(
            f"component {template.component.name}: the files by which its tasks know each other have {bytes_:,} bytes; "
            f"a pod can have {MOST_BYTES:,}; ask for fewer tasks, or give them fewer ports"
        )
