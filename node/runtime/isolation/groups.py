"""Control groups of isolated attempts: limits of memory and of processes, cores by weight. Used by ``tasks``.

Each attempt has a group in the shepherd's own one, which systemd delegates to it. A starter makes the group, enters it
in advance, because entering can take 20 ms, and sets the limits when it gets its request (``starter``). So the name of
a group begins with the pid of its starter, and an attempt's group is known once it was started.

Version 1 has a tree for each controller, version 2 one tree for all, in which a group with processes of its own limits
no groups below it: there the shepherd moves into a group of its own beside them. The cores of a node are shared by
weight: a quota would also slow down a task while cores are idle.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from grass.lines import lines_of
from node.runtime import control_groups, proc
from node.runtime.fork_bombs import ForkBombs
from node.runtime.isolation.privilege import raised

Limit = tuple[str, str, str]
"""Folder that holds the groups, file of a group, and what is written to it."""
MOST_PROCESSES = 8_192
"""Processes and threads of one attempt: half of those of a user, so that a fork bomb leaves some to other tasks."""
LEAST_MEMORY = 6 << 20
"""Bytes. With less, the process that starts the task would be killed."""
RESERVE = 256 << 20
RESERVED = 20
"""What a task without a limit of its own leaves of the machine's memory: these bytes, or this part if that is more."""
CORE = 1000
_LEAF = "grass-shepherd"
"""Version 2: the group of the shepherd itself."""
_PROCESSES = "cgroup.procs"
_ROUNDS = 5
"""Attempts to kill what is left in a group; none of it can start another process then."""

log = logging.getLogger(__name__)


class Groups:
    """Makes and removes the control groups of attempts.

    ``folders``: controller → folder that holds the groups. Empty: there are no limits.

    ``unified``: they are of version 2. ``memory``: bytes of the machine.
    """

    def __init__(self, folders: Mapping[str, str], *, unified: bool, memory: int) -> None:
        self._folders = dict(folders)
        self._unified = unified
        self._most_memory = memory - max(RESERVE, memory // RESERVED)
        self._bombs = ForkBombs()
        self.roots: tuple[str, ...] = tuple(dict.fromkeys(folders.values()))

    def memory(self, asked: int) -> int:
        """Return the limit of memory of an attempt, in bytes; 0: none. ``asked``: by its job; 0: nothing."""
        if "memory" not in self._folders:
            return 0
        return max(LEAST_MEMORY, min(asked or self._most_memory, self._most_memory))

    def describe(self) -> str:
        """Return which limits tasks have, for people."""
        missing = [name for name in control_groups.CONTROLLERS if name not in self._folders]
        lacks = f"no control groups of this machine for {', '.join(missing)}" if missing else ""
        has = ", ".join(name for name in control_groups.CONTROLLERS if name in self._folders)
        return f"{has} ({lacks})" if has and lacks else has or f"none: {lacks}"

    def limits(self, memory: int, cpu: int) -> tuple[Limit, ...]:
        """Return the limits of an attempt. ``memory``: as ``memory`` returns it; 0: leave it. ``cpu``: thousandths of a
        core."""
        files = _files_of_version_2(memory, cpu) if self._unified else _files_of_version_1(memory, cpu)
        return tuple(
            (folder, file, value)
            for controller, folder in self._folders.items()
            if controller != "memory" or memory
            for file, value in files[controller]
        )

    def set(self, group: str, memory: int, cpu: int) -> None:
        """Set the limits of a group again: an end of the shepherd's unit takes those of version 2 away.

        ``memory``: 0 if the shepherd was killed before it noted it; the group has its limit."""
        assert group  # without a name, it would be the group of all
        with raised():
            for folder, file, value in self.limits(memory, cpu):
                _write(f"{folder}/{group}/{file}", value)

    def group_of(self, pid: int) -> str:
        """Return the name of the group of a process; empty: it is in none of these."""
        found = control_groups.of_process(pid)
        for controller, root in self._folders.items():
            folder, _, group = found.get("" if self._unified else controller, "").rpartition("/")
            return group if folder == root and group != _LEAF else ""
        return ""

    def join(self, group: str) -> None:
        """Enter a group with this process. Needs the rights of root. Raises OSError."""
        for root in self.roots:
            with open(f"{root}/{group}/{_PROCESSES}", "wb", buffering=0) as file:  # noqa: PTH123
                file.write(b"0")

    def ran_out_of_memory(self, group: str) -> bool:
        """Return whether the kernel killed a process of the group because of the limit of memory."""
        folder = self._folders.get("memory")
        if folder is None:
            return False
        name = "memory.events" if self._unified else "memory.oom_control"
        lines = lines_of(proc.read(f"{folder}/{group}/{name}").decode())
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)

    def is_fork_bomb(self, group: str) -> bool:
        """Return whether it is to be killed (``ForkBombs.is_one``)."""
        folder = self._folders.get("pids")
        return folder is not None and self._bombs.is_one(f"{folder}/{group}")

    def end(self, group: str) -> frozenset[int]:
        """Kill what is left in a group, and remove it; return the pids. ``sweep`` gets what the kernel holds up."""
        assert group
        killed: frozenset[int] = frozenset()
        with raised():
            if pids := self._folders.get("pids"):
                self._bombs.forget(f"{pids}/{group}")
                _write(f"{pids}/{group}/pids.max", "0")  # so that it has no new processes
            for root in self.roots:
                for _ in range(_ROUNDS):
                    found = _kill_all(f"{root}/{group}/{_PROCESSES}")
                    if not found:
                        break
                    killed |= found
                with suppress(OSError):
                    os.rmdir(f"{root}/{group}")  # noqa: PTH106
        return killed

    def sweep(self, used: Collection[str]) -> None:
        """Remove groups without processes that are not in ``used``: of starters that were killed, of ended attempts."""
        for root in self.roots:
            with raised(), suppress(OSError):
                for group in os.listdir(root):  # noqa: PTH208
                    starter, _, made = group.partition("-")
                    if not (starter.isdigit() and made.isdigit()) or group in used:
                        continue
                    if not _is_there(int(starter), int(made) / 1e9):
                        with suppress(OSError):  # it has processes
                            os.rmdir(f"{root}/{group}")  # noqa: PTH106


def find() -> Groups:
    """Return those groups below that of this process which this system has. Called with the rights of root."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    own = control_groups.of_process(os.getpid())
    trees = {name: own[name] for name in control_groups.CONTROLLERS if name in own}
    unified = not trees and "" in own
    with raised():
        usable = of_version_2(own[""], os.getpid()) if unified else {k: v for k, v in trees.items() if _is_usable(v)}
    return Groups(usable, unified=unified, memory=memory)


def of_version_2(own: str, pid: int) -> dict[str, str]:
    """Move this process, which must be alone in its group ``own``, into one below. Return controller → folder that
    holds the groups."""
    root = own.removesuffix(f"/{_LEAF}")
    usable: dict[str, str] = {}
    try:
        offered = set(_read(f"{root}/cgroup.controllers").split())
        if root == own:
            if _read(f"{root}/{_PROCESSES}").split() != [str(pid)]:
                return {}  # a group of others, too, such as that of a terminal
            os.makedirs(f"{root}/{_LEAF}", exist_ok=True)  # noqa: PTH103
            _put(f"{root}/{_LEAF}/{_PROCESSES}", "0")
        for controller in control_groups.CONTROLLERS:
            if controller in offered:
                _put(f"{root}/cgroup.subtree_control", f"+{controller}")
                usable[controller] = root
    except OSError as error:
        log.warning("cannot use control groups in %s: %s", root, error)
    return usable


def _is_usable(folder: str) -> bool:
    trial = f"{folder}/grass-trial-{os.getpid()}"
    try:
        os.mkdir(trial)  # noqa: PTH102
        os.rmdir(trial)  # noqa: PTH106
    except OSError:
        return False
    return True


def _files_of_version_1(memory: int, cpu: int) -> dict[str, Sequence[tuple[str, str]]]:
    with_swap = ("memory.memsw.limit_in_bytes", str(memory))
    return {
        "memory": [("memory.limit_in_bytes", str(memory)), with_swap],
        "cpu": [("cpu.shares", str(max(2, (cpu or CORE) * 1024 // CORE)))],
        "pids": [("pids.max", str(MOST_PROCESSES))],
    }


def _files_of_version_2(memory: int, cpu: int) -> dict[str, Sequence[tuple[str, str]]]:
    return {
        "memory": [("memory.max", str(memory)), ("memory.swap.max", "0")],
        "cpu": [("cpu.weight", str(min(10_000, max(1, (cpu or CORE) * 100 // CORE))))],
        "pids": [("pids.max", str(MOST_PROCESSES))],
    }


def _is_there(starter: int, made: float) -> bool:
    """Return whether the process is there that made a group at this steady time. Another may have its pid now: a
    fork bomb uses up all pids within a second."""
    found = proc.stat(starter)
    return found is not None and found.start <= made


def _kill_all(processes: str) -> frozenset[int]:
    """Kill the processes of a group; return them."""
    pids = frozenset(map(int, proc.read(processes).split()))
    for pid in pids:
        proc.kill(pid)
    return pids


def _read(path: str) -> str:
    with open(path) as file:  # noqa: PTH123
        return file.read()


def _put(path: str, value: str) -> None:
    with open(path, "wb", buffering=0) as file:  # noqa: PTH123
        file.write(value.encode())


def _write(path: str, value: str) -> None:
    """Write a limit, unless its file or group is missing."""
    with suppress(OSError):
        _put(path, value)
