"""``python -m node.share_rebinding FOLDER``: show the share to who has folders of an ended mount of it.

An isolated container has mounts of folders of the share, each in a folder in memory, which no later mount of the host
reaches. ``share_mount`` runs this as root after each new mount: in every mount namespace, where the newest mount at a
place is one of an earlier mount of the share, the same folder of the present one is put on top. It ends when all is
done, or with its parent. It is a process of its own because the share may hang, and because only a process with one
thread can enter a mount namespace.

Tasks may rename what is above such a place, so no link is followed, and only ended mounts of the share are detached:
the kernel refuses to mount on one that it takes for deleted.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from grass.system import clock
from node.mounts import detach, device, lines_at, newest, number, read_only, root
from node.runtime.isolation.processes import enter_mounts, is_of_this_system
from node.runtime.isolation.share_folder import NO_ANSWER
from node.runtime.system_calls import MOUNT_SETATTR, MOVE_MOUNT, OPEN_TREE, OPENAT2, checked

AGAIN = 1.0
"""Seconds until the next try for what the share did not answer."""
_CLONE_TREE, _EMPTY_PATH, _FROM_IS_EMPTY, _TO_IS_EMPTY = 1, 0x1000, 4, 0x40
_RESOLVE_NO_SYMLINKS = 4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_MS_PRIVATE = 1 << 18
_OWN = "/proc/self/ns/mnt"
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
log = logging.getLogger("node.share_rebinding")


class _How(ctypes.Structure):
    """``struct open_how`` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Attributes(ctypes.Structure):
    """``struct mount_attr`` of mount_setattr(2)."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns"))


class Place(NamedTuple):
    """Where a folder of the share is mounted. ``folder``: its path in the share. ``target``: in the namespace."""

    folder: str
    target: str
    read_only: bool
    mount: int
    """Number of the ended mount there."""


def lost_places(table: str, devices: Collection[str]) -> list[Place]:
    """Return the places whose newest mount is one of these devices, which have ended; those above first."""
    found = [(target, line) for target, line in newest(table).items() if device(line) in devices]
    return [Place(root(line), target, read_only(line), number(line)) for target, line in sorted(found)]


def earlier_devices(folder: str) -> set[str]:
    """Return the devices of what was mounted at a folder before the present mount, and is still below it."""
    devices = [device(line) for line in lines_at(folder)]
    return {*devices[:-1]} - {*devices[-1:]}


def rebind(share: str, devices: Collection[str]) -> bool:
    """Put the share's folders on top of those of these devices, in every mount namespace. Return whether all were
    there: the share may be away."""
    whole = True
    for namespace, table in _namespaces():
        if places := lost_places(table, devices):
            try:
                whole = _rebind_in(namespace, share, places) and whole
            except OSError as error:
                log.warning("%s of the share is not put at %s: %s", places[0].folder, places[0].target, error)
    return whole


def _namespaces() -> Iterator[tuple[int, str]]:
    """Yield a descriptor and the table of each mount namespace of this system's users. In one that a task made with a
    user namespace of its own, root would do what the task may not."""
    seen = {Path(_OWN).stat().st_ino}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError), (process / "ns" / "mnt").open() as file:  # it has ended
            namespace = file.fileno()
            found = os.fstat(namespace).st_ino
            if found not in seen and is_of_this_system(namespace):
                yield namespace, os.fsdecode((process / "mountinfo").read_bytes())
            seen.add(found)


def _rebind_in(namespace: int, share: str, places: list[Place]) -> bool:
    """Raises OSError: the namespace cannot be entered."""
    trees: list[tuple[int, Place]] = []
    missing: list[OSError] = []
    with Path(_OWN).open() as own, _Descriptors() as descriptors:
        try:
            for place in places:
                with _noted(missing, place):
                    trees.append((_tree(share, place), place))
            enter_mounts(namespace)
            try:
                for tree, place in trees:
                    with _noted(missing, place):
                        _put(tree, place, descriptors)
            finally:
                enter_mounts(own.fileno())
        finally:
            for tree, _ in trees:
                os.close(tree)
    return not any(error.errno in NO_ANSWER for error in missing)


@contextmanager
def _noted(missing: list[OSError], place: Place) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        pass  # its job was deleted
    except OSError as error:
        missing.append(error)
        if error.errno not in NO_ANSWER:
            log.warning("%s of the share is not put at %s: %s", place.folder, place.target, error)


def _tree(share: str, place: Place) -> int:
    """Return a descriptor of a mount of a folder of the share that is nowhere yet. Raises OSError."""
    with _at(share + place.folder) as folder:
        tree: int = _libc.syscall(OPEN_TREE, folder, b"", ctypes.c_uint(_CLONE_TREE | _EMPTY_PATH | os.O_CLOEXEC))
        checked(min(tree, 0), f"open {place.folder}")
    options = _ATTR_NOSUID | _ATTR_NODEV | (_ATTR_RDONLY if place.read_only else 0)
    wanted = _Attributes(set=options, propagation=_MS_PRIVATE)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    try:
        checked(_libc.syscall(MOUNT_SETATTR, tree, b"", _EMPTY_PATH, ctypes.byref(wanted), size), place.folder)
    except OSError:
        os.close(tree)
        raise
    return tree


class _Descriptors:
    """The descriptors of this process, also where another /proc is in place of the machine's."""

    def __enter__(self) -> _Descriptors:
        self._files, self._facts = (os.open(f"/proc/self/{name}", _FOLDER) for name in ("fd", "fdinfo"))
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._files)
        os.close(self._facts)

    def mount(self, descriptor: int) -> int:
        """Return the number of the mount in which it is."""
        with os.fdopen(os.open(str(descriptor), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._facts)) as facts:
            return int(re.findall(r"^mnt_id:\t(\d+)$", facts.read(), re.MULTILINE)[0])

    def detach(self, descriptor: int) -> None:
        """Detach the mount whose root it is."""
        os.fchdir(self._files)
        detach(str(descriptor))


def _put(tree: int, place: Place, descriptors: _Descriptors) -> None:
    with _at(place.target) as there:
        if _is_put(tree, there):
            return
        if descriptors.mount(there) == place.mount:
            descriptors.detach(there)
    with _at(place.target) as below:
        checked(0 if _is_put(tree, below) else -1, f"mount {place.target}")


def _is_put(tree: int, there: int) -> bool:
    result: int = _libc.syscall(MOVE_MOUNT, tree, b"", there, b"", _FROM_IS_EMPTY | _TO_IS_EMPTY)
    return result == 0


@contextmanager
def _at(path: str) -> Iterator[int]:
    """Give a descriptor of a place, not of its content. Raises OSError, also for a link."""
    how = _How(flags=os.O_PATH | os.O_CLOEXEC, resolve=_RESOLVE_NO_SYMLINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    found: int = _libc.syscall(OPENAT2, -100, os.fsencode(path), ctypes.byref(how), size)
    if found < 0 and ctypes.get_errno() == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, "no such folder", path)
    checked(min(found, 0), f"open {path}")
    try:
        yield found
    finally:
        os.close(found)


def main(share: str) -> int:
    logging.basicConfig(format="%(message)s")
    parent = os.getppid()
    while os.getppid() == parent:
        devices = earlier_devices(share)
        if not devices or rebind(share, devices):
            return 0
        clock.sleep(AGAIN)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
