"""The files of memberships on a node: each membership, what frameworks render from it, Grass's programs for tasks, and
the secrets of jobs.

Called by the node-agent, in the thread that applies the desired state. The node-api-server reads secrets here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import grass.task
from grass.errors import InputError
from grass.frameworks.registry import render
from grass.frameworks.seat import files_folder, library_folder
from grass.lines import lines_of
from grass.node_config import NodeHome
from grass.system.atomic_file import replace_file
from grass.wire.codec import indented
from grass.wire.desired import DesiredAttempt
from grass.wire.keys import AttemptKey
from grass.wire.launch import LaunchTemplate
from grass.wire.membership import Membership
from node.membership.paths import job_folder, membership_file, secret_file, secrets_folder
from node.membership.rendering import seat

LIBRARY = Path(grass.task.__file__).parent / "library"
"""The programs of Grass for tasks."""
LISTED = "listed"
"""Beside a membership: the attempts that were members once, one ``task attempt`` a line."""


def write_membership(config: NodeHome, job_id: str, component: str, membership: Membership) -> None:
    """Write the file that ``GRASS_MEMBERSHIP`` names. Raises OSError."""
    path = Path(membership_file(config, job_id, component))
    open_folder(path.parent, config)
    replace_file(path, indented(membership), mode=0o644)


def write_rendered(config: NodeHome, template: LaunchTemplate, memberships: Mapping[str, Membership]) -> None:
    """Write the files of a component's framework. They are the same for all its tasks on this node."""
    if template.component.framework is None:
        return
    any_task = AttemptKey(template.job_id, template.component.name, 0, 1)
    own = memberships.get(template.component.name)
    ports = own.members[0].ports if own and own.members else {}
    try:
        made = render(seat(config, any_task, template, DesiredAttempt(0, dict(ports)), memberships))
    except InputError:
        return  # it cannot start yet, and its start says why
    folder = Path(files_folder(str(job_folder(config, template.job_id)), template.component.name))
    for name, text in made.files.items():
        open_folder(folder, config)
        replace_file(folder / name, text, mode=0o755 if text.startswith("#!") else 0o644)


def write_library(config: NodeHome, job_id: str) -> None:
    """Copy Grass's programs for tasks into the job's folder, once."""
    target = Path(library_folder(str(job_folder(config, job_id))))
    if target.exists():
        return
    open_folder(target.parent, config)
    draft = target.with_name(target.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(LIBRARY, draft, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (draft, *draft.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
    draft.rename(target)


def open_secrets(config: NodeHome) -> None:
    """Make the folder of secrets. Call it before the first one is written."""
    secrets_folder(config).mkdir(mode=0o700, parents=True, exist_ok=True)


def write_secret(config: NodeHome, job_id: str, secret: str) -> None:
    """Write the secret of a job. A new one needs no draft and no rename, because nobody reads it yet; an agent that was
    killed while it wrote one replaces it."""
    path = secret_file(config, job_id)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        replace_file(Path(path), secret)
        return
    try:
        os.write(descriptor, secret.encode())
    finally:
        os.close(descriptor)


def read_secret(config: NodeHome, job_id: str) -> str | None:
    """Return the secret of a job that this node runs a part of."""
    try:
        return Path(secret_file(config, job_id)).read_text()
    except OSError:
        return None


def remove_secret(config: NodeHome, job_id: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(secret_file(config, job_id))  # noqa: PTH108 (once for each job, in the thread that starts tasks)


def secrets_on_disk(config: NodeHome) -> list[str]:
    """Return the ids of the jobs whose secret is here."""
    return [path.name for path in secrets_folder(config).glob("*")]


def read_listed(config: NodeHome, job_id: str, component: str) -> set[tuple[str, int]]:
    """Return the attempts that were members of a component, as this node saw it."""
    try:
        lines = lines_of(_listed(config, job_id, component).read_text())
    except OSError:
        return set()
    return {(task, int(attempt)) for task, _, attempt in (line.partition(" ") for line in lines) if attempt.isdecimal()}


def write_listed(config: NodeHome, job_id: str, component: str, listed: set[tuple[str, int]]) -> None:
    text = "".join(f"{task} {attempt}\n" for task, attempt in sorted(listed))
    replace_file(_listed(config, job_id, component), text, mode=0o644)


def _listed(config: NodeHome, job_id: str, component: str) -> Path:
    return Path(membership_file(config, job_id, component)).with_name(LISTED)


def open_folder(folder: Path, config: NodeHome) -> None:
    """Make a folder below the jobs' that the user of any container can read, whatever the umask of this process."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in (folder, *folder.parents):
        if each.parent == config.node_dir:
            return
        each.chmod(0o755)
