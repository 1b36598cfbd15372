"""Facts about processes from /proc and pidfds; they need not be children of this process. Linux only.

Used by this package and ``node.agent``.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
from contextlib import suppress
from typing import NamedTuple

from grass.lines import lines_of
from node.runtime.isolation.privilege import raised

_TICKS = os.sysconf("SC_CLK_TCK")

# struct pidfd_info (linux/pidfd.h, 64 bytes in its first version): u64 mask, u64 cgroupid, 11 × u32, s32 exit_code
_INFO_SIZE = 64
_GET_INFO = (3 << 30) | (_INFO_SIZE << 16) | (0xFF << 8) | 11
_INFO_EXIT = 1 << 3
_EXIT_CODE_AT = 60

_CONTAINER = re.compile(rb"[0-9a-f]{64}")


class Stat(NamedTuple):
    """Fields of ``/proc/PID/stat``.

    ``start``: steady seconds, in steps of 10 ms. ``status``: as from wait(), meaningful only in state Z.
    """

    state: str
    parent: int
    group: int
    session: int
    start: float
    status: int


def stat(pid: int) -> Stat | None:
    """Read a process's state. None: there is no such process."""
    text = read(f"/proc/{pid}/stat")
    if not text:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start=int(fields[19]) / _TICKS,
        status=int(fields[49]),
    )


def owner(pid: int) -> int | None:
    """Return the effective user id of a process, which may be a zombie. None: there is no such process."""
    for line in lines_of(read(f"/proc/{pid}/status")):
        if line.startswith(b"Uid:"):
            return int(line.split()[2])
    return None


def blocks(pid: int, number: int) -> bool:
    """Return whether the process blocks a signal. False as well if the process is gone."""
    for line in lines_of(read(f"/proc/{pid}/status")):
        if line.startswith(b"SigBlk:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def read(path: str) -> bytes:
    """Read a file in /proc; empty when the process is gone or belongs to another user."""
    with raised():
        return _read(path)


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def container_in(groups: bytes) -> bytes | None:
    """Return the id of the container that the content of ``/proc/PID/cgroup`` names. None: it names none."""
    found = _CONTAINER.search(groups)
    return found.group() if found else None


def children(pid: int) -> list[int]:
    """Return the children, zombies included, of a process with one thread."""
    return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]


def environment(pid: int, name: str) -> str | None:
    """Return a variable's value at the start of the process."""
    prefix = name + "="
    for entry in environ(pid):
        if entry.startswith(prefix):
            return entry[len(prefix) :]
    return None


def environ(pid: int) -> list[str]:
    """Return the variables, ``NAME=VALUE``, at the start of the process."""
    return [os.fsdecode(entry) for entry in read(f"/proc/{pid}/environ").split(b"\0") if entry]


def between_programs(pid: int) -> bool:
    """Return whether its environment is not visible: it is inside `execve`, has none, or belongs to another user."""
    return not read(f"/proc/{pid}/environ")


def processes() -> list[int]:
    with raised(), os.scandir("/proc") as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def group_exists(group: int) -> bool:
    """Return whether any process, zombies included, is in this process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def signal_group(group: int, number: int) -> None:
    """Signal every process of the group; no error when none is left or may be signalled."""
    with raised():
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            return


def kill(pid: int) -> None:
    """Kill a process; no error when it is gone or may not be killed."""
    with raised(), suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def kill_session(leader: int) -> None:
    """Kill all processes of a session, whatever their process group."""
    for pid in [pid for pid in processes() if (found := stat(pid)) and found.session == leader]:
        kill(pid)


def exit_status(pidfd: int) -> int | None:
    """Return the status, as from wait(), of a process that was reaped while ``pidfd`` was open. None before Linux
    6.15."""
    info = bytearray(_INFO_SIZE)
    struct.pack_into("<Q", info, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, _GET_INFO, info, True)
    except OSError:
        return None
    (mask,) = struct.unpack_from("<Q", info, 0)
    (status,) = struct.unpack_from("<i", info, _EXIT_CODE_AT)
    return int(status) if mask & _INFO_EXIT else None


def split_status(status: int) -> tuple[int | None, int | None]:
    """Split a status into (exit code, signal); exactly one is set."""
    code = os.waitstatus_to_exitcode(status & 0xFF7F)
    return (None, -code) if code < 0 else (code, None)
