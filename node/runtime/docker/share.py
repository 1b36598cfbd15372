"""The mounts by which a container sees the share. It looks up mounts and folders, so it may wait for the share.

Where users are isolated, a container sees of the share what a process does (``isolation.visible_files``): no files of
other users in ``data/`` but those in ``data/shared/``, which it reads, its own job's folder, and those of the jobs
that its job waited for. It reads what is beside them. Each of these is mounted into an empty folder in memory, so what
the kernel detaches is missing, and shows nothing else. No later mount of the host reaches it. Used by ``plan`` and
``starts``, in the threads that start containers.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from grass.errors import InputError
from grass.files.rights import DATA, OF_ALL, SHARED, own_folders
from grass.model.job import Mount
from grass.node_config import NodeHome
from node.mounts import mount_of
from node.runtime.docker.engine_json import Request
from node.runtime.isolation.share_folder import NO_ANSWER, beside, make_of_user, make_writable, names
from node.runtime.isolation.visible_files import COVERED, OF_GRASS, folders_of
from node.runtime.protocol import Launch

_SEALED = ("images", "logs")
"""Folders of the share that tasks read and Grass writes."""
_NO_LINKS = ("cifs", "smb3", "fuse")
"""Kinds of mounts in which no task can make a link: as Grass mounts the share of its master."""
_EMPTY = {"SizeBytes": 1 << 16, "Mode": 0o755}


def bind(source: str, target: str, read_only: bool) -> Request:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}


def mounts(config: NodeHome, launch: Launch, job_id: str) -> list[Request]:
    """Return the mounts of the share itself. ``launch.container.mounts`` are separate."""
    target = launch.container.data or str(config.data_dir)
    if config.node.isolate is not None:
        return _view(config, launch, job_id, target, read_only=launch.read_only_data)
    return [_whole(config, target), *_sealed(config, target)]


def shared(config: NodeHome, launch: Launch, job_id: str, mount: Mount, kind: str) -> list[Request]:
    """Return the mounts for a folder of the share that a job names; make it if it is missing.

    ``kind``: of the mount of the share on this node. Raises InputError; OSError: the share does not answer.
    """
    share = os.path.realpath(config.data_dir)
    folder = os.path.realpath(share + mount.source)
    if not Path(folder).is_relative_to(share):
        raise InputError(f"{mount.source} leads out of the share")
    if config.node.isolate is None:
        _make(folder, mount.source)
        return [bind(folder, mount.target, mount.read_only)]
    parts, own = Path(folder).relative_to(share).parts, ("jobs", job_id)
    read_only = mount.read_only or (launch.read_only_data and parts[:2] != own)
    if not parts:
        return _view(config, launch, job_id, mount.target, read_only=read_only)
    if parts == (DATA,):
        return [_empty(mount.target), *_of_user(config, launch, mount.target, read_only)]
    if _is_of_others(parts, launch.user) and parts[:2] != own:
        raise InputError(f"{mount.source} of the share is not for tasks")
    if parts != own and _may_be_replaced(kind):
        message = (
            f"this node cannot mount {mount.source} of the share, because a task could put a link in its place; "
            "leave out the mount, and use the folder in $GRASS_DATA"
        )
        raise InputError(message)
    if parts == (DATA, SHARED):
        return _of_all(share, launch.user, mount.target, read_only)
    if parts[:2] != own and not _is_written(parts, launch.user):
        if not Path(folder).is_dir():
            raise InputError(f"the share has no folder {mount.source}")
        return [bind(folder, mount.target, True)]
    _make(folder, mount.source)
    return [bind(folder, mount.target, read_only)]


def _make(folder: str, source: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in NO_ANSWER:
            raise
        raise InputError(f"{source} in the share: {error}") from error


def make_folders(config: NodeHome, launch: Launch, job_id: str) -> None:
    """Make the folders of the share that an isolated container sees. May wait for it. Raises OSError."""
    for name in COVERED:
        (config.data_dir / name).mkdir(exist_ok=True)
    make_of_user(str(config.data_dir), folders_of(str(config.data_dir), launch.user))
    if _has_output(launch):
        make_writable(f"{config.data_dir}/jobs/{job_id}")


def _view(config: NodeHome, launch: Launch, job_id: str, target: str, *, read_only: bool) -> list[Request]:
    """Return the mounts of what an isolated container may see. The engine orders them by depth."""
    share, jobs = str(config.data_dir), config.data_dir / "jobs"
    shown = [_empty(target), *(bind(f"{share}/{name}", f"{target}/{name}", True) for name in beside(share))]
    shown += _of_user(config, launch, f"{target}/{DATA}", read_only)
    if _has_output(launch):
        shown.append(bind(str(jobs / job_id), f"{target}/jobs/{job_id}", False))
    awaited = [each for each in launch.awaited if each != job_id and (jobs / each).is_dir()]
    return [*shown, *(bind(str(jobs / each), f"{target}/jobs/{each}", True) for each in awaited)]


def _empty(target: str) -> Request:
    """Return the mount of a folder in memory. The engine makes places in it for what is mounted there; then it is
    read-only."""
    return {"Type": "tmpfs", "Target": target, "ReadOnly": True, "TmpfsOptions": _EMPTY}


def _of_user(config: NodeHome, launch: Launch, target: str, read_only: bool) -> list[Request]:
    """Return the mounts of what the container sees in ``data/``, which is shown as ``target``. A link is left out: the
    engine would follow it as root."""
    share = str(config.data_dir)
    own = [bind(each, f"{target}/{launch.user}", read_only) for each in folders_of(share, launch.user)[:1]]
    shown = [each for each in own if not Path(each["Source"]).is_symlink()]
    return [*shown, *_of_all(share, launch.user, f"{target}/{SHARED}", read_only)]


def _of_all(share: str, user: str, target: str, read_only: bool) -> list[Request]:
    """Return the mounts of what all users read; the user changes their own part. One by one: what is mounted on a
    folder of the share is lost for the rest of the container when the share is away."""
    own = [Path(each).name for each in folders_of(share, user)[1:] if not Path(each).is_symlink()]
    found = {*own}  # made with the container
    with suppress(FileNotFoundError):  # nobody shares anything yet
        found |= {*names(f"{share}/{OF_ALL}")}
    binds = [
        bind(f"{share}/{OF_ALL}/{name}", f"{target}/{name}", read_only or name not in own) for name in sorted(found)
    ]
    return [_empty(target), *binds]


def _is_of_others(parts: tuple[str, ...], user: str) -> bool:
    """Return whether a path of the share belongs to the cluster, to a job, or to another user who does not share it."""
    return parts[0] in OF_GRASS or (parts[0] == DATA and parts[1] not in (user, SHARED))


def _is_written(parts: tuple[str, ...], user: str) -> bool:
    """Return whether tasks of the user may write there."""
    return any(parts[: len(own)] == own for own in (tuple(each.split("/")) for each in own_folders(user)))


def _has_output(launch: Launch) -> bool:
    return "GRASS_OUTPUT" in launch.env


def _may_be_replaced(kind: str) -> bool:
    """Return whether a task can replace a folder by a link, between our look at it and the engine's."""
    return kind.split(".")[0] not in _NO_LINKS


def _whole(config: NodeHome, target: str) -> Request:
    """Return the mount of the share. A FUSE mount may be replaced by one on top of it (``node.share_mount``), which
    must reach the container: ``rslave``. The engine refuses that for a mount that does not propagate."""
    whole = bind(str(config.data_dir), target, False)
    mount = mount_of(config.data_dir)
    if mount.through_fuse and mount.propagates:
        whole["BindOptions"] = {"Propagation": "rslave"}
    return whole


def _sealed(config: NodeHome, target: str) -> list[Request]:
    """Return read-only mounts over what no task may change in the share: images and logs of all users.

    A FUSE mount that was away, or is made again, takes these from running containers, which then write into its cache.
    The server of the share refuses that."""
    folders = {name: config.data_dir / name for name in _SEALED}
    return [bind(str(path), f"{target}/{name}", True) for name, path in folders.items() if path.is_dir()]
