"""Processes of a cluster, found in /proc: the source of truth when supervisord is gone.

Only processes of this user count, and only with proof that they belong to the cluster. Proof is: the path of its
``cluster.json`` as a whole argument of a Grass module, its ``supervisord.conf``, or a redis whose working folder is the
cluster's. Used by this package and ``grass.provision``.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from grass.config import ClusterConfig
from grass.model.daemons import DAEMONS, OPERATOR, REDIS, SUPERVISOR
from grass.system import clock

_PROC = Path("/proc")
_BEGINNING = 1.0
"""Longest time in seconds that a process without a command line counts as one that begins its program."""
_KERNEL_OR_ENDING = 0x00200000 | 0x4
"""Flags in /proc/PID/stat of processes that have no command line at all (Linux: PF_KTHREAD, PF_EXITING)."""
_NAME_OF = {daemon.module: daemon.name for daemon in (*DAEMONS, OPERATOR)}


@dataclass(frozen=True)
class Process:
    """A process. ``start`` in clock ticks since boot; pid and ``start`` together identify one process forever."""

    name: str
    pid: int
    parent: int
    start: int

    def started_at(self) -> float:
        return _wall(self.start)


def of_cluster(config: ClusterConfig) -> list[Process]:
    """Return daemons and supervisord, oldest first. A server's workers are included, under their parent's name."""
    found = []
    for pid in _own_pids():
        name = _daemon_name(pid, config)
        stat = _stat(pid) if name else None
        if name and stat:
            found.append(Process(name, pid, *stat))
    return sorted(found, key=lambda process: process.start)


def strays() -> dict[Path, list[Process]]:
    """Return daemons of this user whose ``cluster.json`` was removed while they ran, by its path."""
    found: dict[Path, list[Process]] = {}
    for pid in _own_pids():
        words = _words(pid, "cmdline")
        for flag, module, argument in zip(words, words[1:], words[2:], strict=False):
            name, path = _NAME_OF.get(os.fsdecode(module)), Path(os.fsdecode(argument))
            stat = _stat(pid) if flag == b"-m" and name and path.name == "cluster.json" and not path.exists() else None
            if name and stat:
                found.setdefault(path, []).append(Process(name, pid, *stat))
    return found


def start_of(pid: int) -> float | None:
    """Return the start of a process in wall seconds, for display."""
    stat = _stat(pid)
    return _wall(stat[1]) if stat else None


def tasks_of(config: ClusterConfig) -> list[int]:
    """Return the pids of tasks: their scratch folder, which the shepherd gave them, lies in the cluster's folder."""
    mark = f"GRASS_SCRATCH={config.node_dir / 'attempts'}/".encode()
    return [pid for pid in _own_pids() if any(word.startswith(mark) for word in _words(pid, "environ"))]


def shepherd_pid(config: ClusterConfig) -> int | None:
    """Return the pid of the tasks' parent process. It is a child of the process that supervisord knows."""
    try:
        return int((config.node_dir / "shepherd.lock").read_text())
    except (OSError, ValueError):
        return None


def end(pids: Iterable[int], number: signal.Signals, seconds: float) -> list[int]:
    """Signal all processes and wait. Return the pids that are still running after ``seconds``."""
    with _watched(pids) as watched:
        for descriptor in watched:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
        return _wait(watched, seconds)


def wait_gone(pids: Iterable[int], seconds: float) -> list[int]:
    """Wait for the end of processes. Return the pids that are still running after ``seconds``."""
    with _watched(pids) as watched:
        return _wait(watched, seconds)


@contextmanager
def _watched(pids: Iterable[int]) -> Iterator[dict[int, int]]:
    """Yield descriptor → pid for each running process. A descriptor becomes readable when its process ends."""
    watched: dict[int, int] = {}
    try:
        for pid in pids:
            with suppress(ProcessLookupError):
                watched[os.pidfd_open(pid)] = pid
        yield watched
    finally:
        for descriptor in watched:
            os.close(descriptor)


def _wait(watched: dict[int, int], seconds: float) -> list[int]:
    poll = select.poll()
    left = dict(watched)
    for descriptor in left:
        poll.register(descriptor, select.POLLIN)
    until = clock.steady() + seconds
    while left and (patience := until - clock.steady()) > 0:
        for descriptor, _ in poll.poll(patience * 1000):
            poll.unregister(descriptor)
            del left[descriptor]
    return list(left.values())


def is_supervisor(pid: int, config: ClusterConfig) -> bool:
    """Return whether the process is the supervisord of the cluster."""
    return _daemon_name(pid, config) == SUPERVISOR


def _daemon_name(pid: int, config: ClusterConfig) -> str | None:
    words = _command(pid)
    path, nodes = os.fsencode(config.path), os.fsencode(Path(config.home) / "nodes") + b"/"
    for flag, module, argument in zip(words, words[1:], words[2:], strict=False):
        name = _NAME_OF.get(os.fsdecode(module))
        if flag == b"-m" and argument == path:
            return name
        if flag == b"-m" and name and argument.startswith(nodes) and argument.endswith(b"/cluster.json"):
            return f"{name}@{os.fsdecode(argument).split('/')[-2]}"
    if b"supervisor.supervisord" in words and os.fsencode(Path(config.home) / "supervisord.conf") in words:
        return SUPERVISOR
    return REDIS if _is_redis(pid, words, Path(config.home) / "redis") else None


def _is_redis(pid: int, words: list[bytes], folder: Path) -> bool:
    """Return whether the process is the cluster's redis.

    Redis rewrites its command line, but keeps its working folder. A child that rewrites the log counts, too. At first,
    until redis has read its configuration, it works in another folder, and its command line names that file.
    """
    if not words or not (b"redis" in words[0] or b"valkey" in words[0]):
        return False
    if words[0].endswith(b"-server") and any(Path(os.fsdecode(word)).parent == folder for word in words[1:]):
        return True
    try:
        where = os.fspath((_PROC / str(pid) / "cwd").readlink())
        return where in (os.fspath(folder), f"{folder} (deleted)")  # proc(5): the folder was removed while redis ran
    except OSError:
        return False


def _own_pids() -> list[int]:
    uid, me = os.getuid(), os.getpid()
    found = []
    for entry in os.scandir(_PROC):
        if entry.name.isdigit() and int(entry.name) != me:
            try:
                if entry.stat().st_uid == uid:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _command(pid: int) -> list[bytes]:
    """Return the words of the command line.

    Linux empties it at exec and fills it after the program is loaded. A process must not be missed in between.
    """
    until = clock.steady() + _BEGINNING
    while (words := _words(pid, "cmdline")) == [b""] and _begins(pid) and clock.steady() < until:
        clock.sleep(0.001)
    return words


def _begins(pid: int) -> bool:
    """Return whether a process without a command line will have one."""
    fields = _fields(pid)
    return bool(fields) and fields[0] not in "ZX" and not int(fields[6]) & _KERNEL_OR_ENDING


def _words(pid: int, file: str) -> list[bytes]:
    try:
        return (_PROC / str(pid) / file).read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return []


def _stat(pid: int) -> tuple[int, int] | None:
    """Return parent and start; None for a zombie or a missing process."""
    fields = _fields(pid)
    return (int(fields[1]), int(fields[19])) if fields and fields[0] not in "ZX" else None


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; an empty list for a missing process."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _wall(ticks: int) -> float:
    return round(clock.wall() - clock.steady() + ticks / os.sysconf("SC_CLK_TCK"), 1)
