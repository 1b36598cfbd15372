"""Starters: processes made in advance. Each starts one isolated task and ends. Run by ``starters``, as root.

``python -m node.runtime.isolation.starter LINE REQUESTS LOCK FILTER [FOLDER…]`` is the source of starters; the first
four words are descriptors. To make a starter, and to free its memory, takes several times as long as to use it, so it
happens before and after a start. A number on LINE says how many to make. They are children of the shepherd, not of
their source, and wait for a request on REQUESTS, which the kernel gives to one of them. It becomes the account, starts
the task by posix_spawn, and ends, whereby the task becomes a child of the shepherd, which is a subreaper. The source
is small, and does nothing else, so that its memory is copied quickly. All end with the shepherd. LOCK is the
shepherd's: the next one starts only when none of them is left on the way to its task (``guard.hold``). FILTER has both
programs of ``system_call_filter``. In each FOLDER a starter has a control group, which becomes that of its task
(``groups``).
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from grass.system import clock
from node.runtime.isolation import system_call_filter
from node.runtime.isolation.system_call_filter import Filter
from node.runtime.keyrings import leave_session_keyring
from node.runtime.spawn import DEFAULTS, NOT_EXECUTABLE, CannotStartError, cannot_start, enter_folder, find_program
from node.runtime.system_calls import checked, number

_CLONE_PARENT = 0x00008000
_CLONE_NEWNS, _CLONE_NEWIPC = 0x00020000, 0x08000000
_DESCRIPTORS = 7
TAKEN, STARTED, FAILED = b"t", b"s", b"f"
"""Said by a starter when it has the request, with its own pid and a line end, and then one of these: with the pid of
the task and the name of its control group, or with exit code and message."""
_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, which a copy of this process has too


class StartRequest(NamedTuple):
    """What to become. ``limits``: of its control group (``groups.Limit``)."""

    uid: int
    gid: int
    umask: int
    cwd: str
    argv: list[str]
    env: dict[str, str]
    limits: tuple[tuple[str, str, str], ...] = ()


def main(passed: Sequence[int], folders: Sequence[str]) -> None:
    line, requests, lock, filters = passed
    for descriptor in (line, requests, lock):
        os.set_inheritable(descriptor, False)
    for each in DEFAULTS:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    refused = Filter(*marshal.loads(_content(filters)))  # noqa: S302 (of the shepherd)
    os.close(filters)
    system_call_filter.apply(refused.early)
    control, source = socket.socket(fileno=line), socket.socket(fileno=requests)
    while wanted := control.recv(64):
        for _ in range(int(wanted)):
            pid = _copy()
            if pid == 0:
                control.close()  # so that the shepherd hears of the end of the source while starters wait
                _start(source, refused.late, folders)
            if pid < 0:  # the shepherd makes another source, or learns why it cannot
                sys.exit(f"no process can be made to start tasks: {os.strerror(ctypes.get_errno()).lower()}")


def _copy() -> int:
    """Fork a child of this process's parent. Return its pid; 0 in the child; negative: the system refused."""
    pid: int = _libc.syscall(number("clone"), ctypes.c_ulong(_CLONE_PARENT), None, None, None, None)
    return pid


def _start(source: socket.socket, refused: bytes, folders: Sequence[str]) -> NoReturn:
    """Wait for a request, start its task, and end. The outcome is written to the first descriptor of the request.
    ``refused``: the late program of the filter."""
    report = -1
    try:
        group = _enter_group(folders)
        leave_session_keyring()
        _rehearse()
        word, descriptors, _, _ = socket.recv_fds(source, 1, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not word:
            os._exit(0)
        report, written, mounts, objects, *streams = descriptors
        os.write(report, TAKEN + b"%d\n" % os.getpid())  # ends this process if the shepherd gave up
        request = StartRequest(*marshal.loads(_content(written)))  # noqa: S302 (of the shepherd)
        for folder, file, value in request.limits:
            _limit(f"{folder}/{group}/{file}", value)
        checked(_libc.setns(mounts, _CLONE_NEWNS), "setns")
        checked(_libc.setns(objects, _CLONE_NEWIPC), "setns")
        system_call_filter.apply(refused)
        pid = _spawn(request, streams)
        os.write(report, STARTED + b"%d %s" % (pid, group.encode()))
    except CannotStartError as error:
        os.write(report, FAILED + marshal.dumps((error.code, str(error))))
    except BaseException as error:  # noqa: BLE001 (nothing may go on as a second source)
        if report >= 0:
            os.write(report, FAILED + marshal.dumps((NOT_EXECUTABLE, f"cannot start: {error}")))
    finally:
        os._exit(NOT_EXECUTABLE)


def _rehearse() -> None:
    """Copy the memory that a request will need, so that this takes no time then."""
    request = StartRequest(0, 0, 0, "/", ["sh"], {"PATH": "/bin"})
    loaded = StartRequest(*marshal.loads(marshal.dumps(tuple(request))))  # noqa: S302
    find_program(loaded.argv[0], loaded.env)
    _limit("/no/such/file", "0")
    checked(0, "nothing")


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0)


def _spawn(request: StartRequest, streams: Sequence[int]) -> int:
    """Take on the rights of an account, in the namespaces of its job, and start the program; return its pid. What the
    account may not enter, the task does not start in. Raises CannotStartError, OSError."""
    for target, descriptor in enumerate(streams):
        os.dup2(descriptor, target)
    os.umask(request.umask)
    os.setgroups([])
    os.setresgid(request.gid, request.gid, request.gid)
    os.setresuid(request.uid, request.uid, request.uid)
    env = {**request.env, "PWD": enter_folder(request.cwd)}
    program = find_program(request.argv[0], env)
    try:
        return os.posix_spawn(program, request.argv, env, setsid=True)
    except (OSError, ValueError, TypeError) as error:
        raise cannot_start(request.argv[0], program, error) from error


def _enter_group(folders: Sequence[str]) -> str:
    """Make a control group for the task, and enter it. Return its name; empty: this system has none."""
    name = f"{os.getpid()}-{int(clock.steady() * 1e9)}" if folders else ""
    for folder in folders:
        os.mkdir(f"{folder}/{name}", 0o755)  # noqa: PTH102
        _write(f"{folder}/{name}/cgroup.procs", b"0")
    return name


def _limit(file: str, value: str) -> None:
    with suppress(FileNotFoundError):  # kernels without limits of swap have no file for it
        _write(file, value.encode())


def _write(file: str, value: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:5]], sys.argv[5:])
