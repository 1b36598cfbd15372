"""Start a program from the shepherd in a child process that changes itself first: rights, namespace, folder.

posix_spawn can do none of this. The shepherd has one thread, so fork is safe. A failure before or at the exec is
reported, and then no process is left. Tasks are started by ``starters``, which does not copy the shepherd.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from node.mounts import Changes, detach, lines_at
from node.runtime.isolation.visible_files import Shown
from node.runtime.spawn import DEFAULTS, NOT_EXECUTABLE, CannotStartError, cannot_start
from node.runtime.system_calls import MOVE_MOUNT, OPEN_TREE, checked

_CLONE_NEWNS, _CLONE_NEWIPC = 0x00020000, 0x08000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 16384, 1 << 18
_MS_RDONLY, _MS_REMOUNT, _MS_BIND = 1, 32, 4096
_HERE, _CLONE_TREE, _TREE_ITSELF, _NO_LINK = -100, 1, 4, 0x100
_PR_SET_NO_NEW_PRIVS = 38
_NS_GET_USERNS = 0xB701
_libc = ctypes.CDLL(None, use_errno=True)


class Namespaces(NamedTuple):
    """What the tasks of a job share with nobody, by descriptor: their view of files, and objects of System V and POSIX
    in memory."""

    mounts: int
    objects: int

    def close(self) -> None:
        for descriptor in self:
            os.close(descriptor)


class Program(NamedTuple):
    path: str
    argv: list[str]
    env: dict[str, str]


def forbid_new_rights() -> None:
    """Make programs unable to get rights by their files (setuid, capabilities), for this process and its children."""
    checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def fork(prepare: Callable[[], Program]) -> int:
    """Start the program that ``prepare`` returns; it is called in the child, a session of its own. Return the pid.

    Raises CannotStartError.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    signal.pthread_sigmask(signal.SIG_BLOCK, DEFAULTS)  # until the child has no handlers of the shepherd any more
    try:
        pid = os.fork()
        if pid == 0:
            _child(prepare, writer)
    except OSError as error:
        os.close(reader)
        raise CannotStartError(NOT_EXECUTABLE, f"cannot start: {os.strerror(error.errno or 0).lower()}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        failure = pipe.read()
    if failure:
        os.waitpid(pid, 0)
        code, message = json.loads(failure)
        raise CannotStartError(code, message)
    return pid


def _child(prepare: Callable[[], Program], writer: int) -> None:
    try:
        os.setsid()
        for number in DEFAULTS:
            if signal.getsignal(number) is not signal.SIG_DFL:  # setting them all takes longer than the rest
                signal.signal(number, signal.SIG_DFL)
        program = prepare()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            os.execve(program.path, program.argv, program.env)
        except (OSError, ValueError, TypeError) as error:
            raise cannot_start(program.argv[0], program.path, error) from error
    except CannotStartError as error:
        _tell(writer, error.code, str(error))
    except BaseException as error:  # noqa: BLE001 (nothing may go on as a second shepherd)
        _tell(writer, NOT_EXECUTABLE, f"cannot start: {error}")
    finally:
        os._exit(NOT_EXECUTABLE)


def _tell(writer: int, code: int, message: str) -> None:
    os.write(writer, json.dumps([code, message]).encode())


def aside(work: Callable[[], None], close: Sequence[int]) -> int:
    """Do work in a child process, which may wait for long; return its pid. Its exit code is 0 if it succeeded.

    ``close``: descriptors that the child must not hold, besides sockets: whoever is connected to this process has to
    hear of its end. Raises OSError.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        for descriptor in {*close, *filter(_is_socket, map(int, os.listdir("/proc/self/fd")))}:  # noqa: PTH208
            os.close(descriptor)
        work()
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 (nothing may go on as a second shepherd)
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(1)


def _is_socket(descriptor: int) -> bool:
    try:
        return descriptor > 2 and stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:  # that of the listing itself
        return False


def private_mounts(without: str) -> None:
    """Enter a mount namespace of one's own that hears of no later mount of the host, so that none can cover a hidden
    folder. Its /proc shows each user only their own processes, an option that bubblewrap lacks. Nothing is mounted at
    ``without`` there: a share that does not answer must not hold up who covers it."""
    checked(_libc.unshare(_CLONE_NEWNS), "unshare")
    checked(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount /")
    for _ in lines_at(without):
        detach(without)
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    checked(_libc.mount(b"proc", b"/proc", b"proc", flags, b"hidepid=2"), "mount /proc")


def namespaces_of(process: str) -> Namespaces:
    """Return those of a process, from its folder in /proc. Raises OSError."""
    mounts = os.open(f"{process}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return Namespaces(mounts, os.open(f"{process}/ns/ipc", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        os.close(mounts)
        raise


def show(namespace: int, folders: Sequence[Shown], cover: str, *, again: bool = False) -> tuple[list[Shown], Changes]:
    """Show folders and files of this process's mount namespace in another one; return what is shown there, and its
    table. Needs the rights of root.

    ``cover``: a folder in memory, read-only, in which tasks cannot make anything; places for what is shown below it are
    made. ``again``: what is shown at these places already is replaced. What does not exist here, or is a link, is left
    out: root must not follow links of users. Raises OSError.
    """
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    trees: list[tuple[int, Shown]] = []
    try:
        for each in folders:
            if (tree := _tree(each.source)) is not None:
                trees.append((tree, each))
        enter_mounts(namespace)
        try:
            _set_options(cover, 0)
            try:
                shown = [each for tree, each in trees if _put(tree, each, again=again)]
            finally:
                _set_options(cover, _MS_RDONLY)
            return shown, Changes()
        finally:
            enter_mounts(own)
    finally:
        for descriptor in (own, *(tree for tree, _ in trees)):
            os.close(descriptor)


def _tree(source: str) -> int | None:
    """Return a descriptor of a mount of ``source`` that is nowhere yet. None: there is no such file."""
    flags = ctypes.c_uint(_CLONE_TREE | os.O_CLOEXEC | _NO_LINK)
    tree: int = _libc.syscall(OPEN_TREE, _HERE, source.encode(), flags)
    if tree >= 0:
        return tree
    if ctypes.get_errno() != errno.ENOENT:
        checked(tree, f"open {source}")
    return None


def _put(tree: int, each: Shown, *, again: bool) -> bool:
    """Put a mount into its place in this namespace. Return False for what is neither a folder nor a file."""
    mode = os.fstat(tree).st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        return False
    for _ in lines_at(each.target) if again else ():
        detach(each.target)
    if stat.S_ISREG(mode):
        os.close(os.open(each.target, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
    elif not os.path.isdir(each.target):  # noqa: PTH112 (making one asks the share again)
        os.makedirs(each.target, 0o755)  # noqa: PTH103
    target = each.target.encode()
    checked(_libc.syscall(MOVE_MOUNT, tree, b"", _HERE, target, _TREE_ITSELF), f"mount {each.target}")
    _set_options(each.target, _MS_RDONLY if each.read_only else 0)
    checked(_libc.mount(None, target, None, _MS_PRIVATE, None), f"mount {each.target}")
    return True


def _set_options(target: str, options: int) -> None:
    flags = _MS_REMOUNT | _MS_BIND | _MS_NOSUID | _MS_NODEV | options
    checked(_libc.mount(None, target.encode(), None, flags, None), f"mount {target}")


def enter(namespaces: Namespaces) -> None:
    enter_mounts(namespaces.mounts)
    checked(_libc.setns(namespaces.objects, _CLONE_NEWIPC), "setns")


@contextmanager
def inside(namespaces: Namespaces) -> Iterator[None]:
    """Enter them for the block. Needs the rights of root."""
    own = namespaces_of("/proc/self")
    try:
        enter(namespaces)
        try:
            yield
        finally:
            enter(own)
    finally:
        own.close()


def limit_files(folder: str, most: int) -> None:
    """Limit the bytes of a file system in memory, which is mounted at ``folder``."""
    options = b"size=%d" % max(most, 1)  # 0 would be no limit
    checked(_libc.mount(None, folder.encode(), None, _MS_REMOUNT | _MS_NOSUID | _MS_NODEV, options), f"limit {folder}")


def enter_mounts(namespace: int) -> None:
    """Enter a mount namespace with this process, which must have one thread, and the rights of root. Raises OSError."""
    checked(_libc.setns(namespace, _CLONE_NEWNS), "setns")


def is_of_this_system(namespace: int) -> bool:
    """Return whether a namespace belongs to the user namespace of this process. A task of an earlier version of Grass
    could make others, and what they show is the task's choice. Raises OSError."""
    owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    try:
        return os.path.samestat(os.fstat(owner), os.stat("/proc/self/ns/user"))  # noqa: PTH116
    finally:
        os.close(owner)


def shares_objects(namespaces: Namespaces) -> bool:
    """Return whether these objects in memory are those of the machine, as for tasks of an earlier version of Grass.
    Raises OSError."""
    return os.path.samestat(os.fstat(namespaces.objects), os.stat("/proc/self/ns/ipc"))  # noqa: PTH116


def become(uid: int, gid: int) -> None:
    """Be this user for good, without a way to other rights."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    forbid_new_rights()
