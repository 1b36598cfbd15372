"""The mounts by which a pod sees the claim that is the share of its namespace. Pure; used by ``pods``.

The claim has the folders of a share, and a pod sees of it what an isolated task sees of a share on a machine
(``isolation.visible_files``): its user's folder in ``data/``; ``data/shared/``, which it reads, and its user's own
folder there; its job's folder, and those of the jobs that its job waited for. Each is a ``subPath`` of the claim, which
the kubelet makes if it is missing. All pods have one user id, so these mounts are all that keeps users apart: nothing
of the claim is ever covered, and nothing is mounted that a task could have replaced by a link, because the kubelet
would follow it to the folder of another user.

What lies beside ``data/`` cannot be listed without the claim, so a pod sees of it only what its ``mounts`` and its
``cwd`` name. It only reads that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from grass.errors import InputError
from grass.files.paths import JOBS
from grass.files.rights import DATA, OF_ALL, SHARED, own_folders
from grass.model.job import Mount
from grass.model.names import is_user_name
from grass.model.pod_security import Part
from node.runtime.isolation.visible_files import COVERED, OF_GRASS
from node.runtime.protocol import Launch

TARGET = "/grass/share"
"""Where a pod sees its share, unless the job says otherwise."""
VOLUME = "share"
"""Name of the volume in the pod."""


class Seen(NamedTuple):
    """A folder of the claim, and where a pod sees it."""

    folder: str
    target: str
    read_only: bool = False

    def mount(self) -> Part:
        found: Part = {"name": VOLUME, "mountPath": self.target, "subPath": self.folder}
        return {**found, "readOnly": True} if self.read_only else found


def volume(claim: str) -> Part:
    return {"name": VOLUME, "persistentVolumeClaim": {"claimName": claim}}


def target(launch: Launch) -> str:
    """Return where a task sees the share."""
    return launch.container.data or TARGET


def mounts(launch: Launch, job_id: str) -> list[Part]:
    """Return what a task sees of the share. Raises InputError: its job names a folder that it may not have."""
    seen = [*_view(launch, job_id, target(launch), launch.read_only_data), *_of_cwd(launch)]
    for mount in launch.container.mounts:
        seen += _named(launch, job_id, mount)
    return [each.mount() for each in seen]


def _view(launch: Launch, job_id: str, at: str, read_only: bool) -> Iterator[Seen]:
    yield from _of_user(launch.user, f"{at}/{DATA}", read_only)
    yield Seen(f"{JOBS}/{job_id}", f"{at}/{JOBS}/{job_id}")
    for each in dict.fromkeys(launch.awaited):
        if each != job_id:
            yield Seen(f"{JOBS}/{each}", f"{at}/{JOBS}/{each}", True)


def _of_user(user: str, at: str, read_only: bool) -> Iterator[Seen]:
    if _has_folders(user):
        yield Seen(f"{DATA}/{user}", f"{at}/{user}", read_only)
    yield from _of_all(user, f"{at}/{SHARED}", read_only)


def _of_all(user: str, at: str, read_only: bool) -> Iterator[Seen]:
    yield Seen(OF_ALL, at, True)
    if _has_folders(user) and not read_only:
        yield Seen(f"{OF_ALL}/{user}", f"{at}/{user}")


def _of_cwd(launch: Launch) -> Iterator[Seen]:
    """Show the folder beside ``data/`` in which a task starts."""
    at = target(launch)
    if launch.cwd is not None and PurePosixPath(launch.cwd).is_relative_to(at):
        parts = PurePosixPath(launch.cwd).relative_to(at).parts
        if ".." in parts:
            raise InputError(f"{launch.cwd} leads out of the share")
        if parts and parts[0] not in COVERED:
            yield Seen(parts[0], f"{at}/{parts[0]}", True)


def _named(launch: Launch, job_id: str, mount: Mount) -> Iterator[Seen]:
    """Yield the mounts for a folder of the share that a job names."""
    parts = tuple(part for part in mount.source.split("/") if part not in ("", "."))
    if not mount.shared or ".." in parts:
        raise InputError(f"{mount.source} leads out of the share")
    folder, own = "/".join(parts), (JOBS, job_id)
    read_only = mount.read_only or launch.read_only_data
    if not parts:
        yield from _view(launch, job_id, mount.target, read_only)
    elif parts == (DATA,):
        yield from _of_user(launch.user, mount.target, read_only)
    elif folder == OF_ALL:
        yield from _of_all(launch.user, mount.target, read_only)
    elif parts[0] not in COVERED:
        yield Seen(folder, mount.target, True)
    elif parts == own:
        yield Seen(folder, mount.target, mount.read_only)
    elif _has_folders(launch.user) and folder in own_folders(launch.user):
        yield Seen(folder, mount.target, read_only)
    elif parts[:2] == own or (parts[0] == DATA and parts[1] in (launch.user, SHARED)):
        raise InputError(
            f"a pod cannot mount {mount.source} of the share, because a task could put a link in its place; "
            "leave out the mount, and use the folder in $GRASS_DATA"
        )
    else:
        assert parts[0] in (*OF_GRASS, DATA)
        raise InputError(f"{mount.source} of the share is not for tasks")


def _has_folders(user: str) -> bool:
    """Return whether a user has folders in ``data/``. An administrator with the name of the folder of all has none."""
    return is_user_name(user) and user != SHARED
