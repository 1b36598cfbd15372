"""What the processes of each running attempt use now, from /proc. Called by the usage sampler, in its thread.

The processes of an attempt are its first process and all that descend from it, also in sessions of their own, and those
of commands that a launcher runs in it. An orphan has its session, its mark in the environment, or its control group.
/proc is listed once for all attempts, and processes that belong to none are looked at only now and then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from grass.lines import lines_of
from node.agent.shared_pages import SharedPages
from node.runtime import proc
from node.runtime.adoption import MARK
from node.runtime.attempts import Folders

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NO_COMMANDS: Mapping[int, str] = {}
_STAT = 4096
"""Bytes: more than /proc/PID/stat ever has."""
_LOOK_AGAIN = 15
"""Scans after which other processes are looked at again: one may have been forked before its attempt was known."""
_GROUP = re.compile(rb"/[0-9]+-[0-9]+$", re.MULTILINE)
"""A control group that the starter of an attempt made for it (``node.runtime.isolation.starter``)."""
DETAILS_AT_ONCE = 20
"""Attempts whose open files and input and output are read in one scan; those of further ones are read in turn."""


class Used(msgspec.Struct):
    """One attempt. Counters are since its start; processes that ended count if their parent waited for them."""

    cpu: float = 0.0
    """Core seconds."""
    memory: int = 0
    """Resident bytes of its processes now. What they share counts once, if this node-agent may read that."""
    threads: int = 0
    files: int | None = None
    """Open files. None: its processes belong to a user whose files this node-agent may not list."""
    read: int = 0
    """Bytes from disks."""
    written: int = 0


class Process(msgspec.Struct):
    """The figures of /proc/PID/stat that count."""

    parent: int
    session: int
    cpu: float
    memory: int
    threads: int


class TaskProcesses:
    """Remembers each attempt's counters, which never go back, and which processes belong to no attempt."""

    def __init__(self, attempts: str = "", details_at_once: int = DETAILS_AT_ONCE) -> None:
        """``attempts``: the folder of their files, which the mark names."""
        self._folders = Folders(attempts)
        self._shared_pages = SharedPages()
        self._members: dict[int, Process] = {}
        """What the processes of attempts were in the last scan."""
        self._orphans: dict[str, float] = {}
        """Core seconds of orphans that have ended: nobody of their attempt has waited for them."""
        self._groups: dict[int, bytes] = {}
        """First process → its control group, if that is of its attempt alone."""
        self.owners: dict[int, str] = {}
        """Pid → key of its attempt, as of the last scan."""
        self._roots: dict[int, str] = {}
        """The same, with the commands of an attempt apart: ``KEY PID``."""
        self._used: dict[str, Used] = {}
        """By key, and by command."""
        self._ended: dict[str, Used] = {}
        """Attempt → counters of its commands that have ended."""
        self._foreign: set[int] = set()
        self._scans = 0
        self._details_at_once = details_at_once
        self._next_details = 0

    def scan(self, mains: Mapping[str, int], commands: Mapping[int, str] = _NO_COMMANDS) -> dict[str, Used]:
        """Return what each attempt uses. ``mains``: the first process of each. ``commands``: the first process of each
        command that a launcher runs, and its attempt."""
        before, roots = self._used, {f"{key} {pid}": pid for pid, key in commands.items() if key in mains}
        self._measure({**mains, **roots})
        self.owners = {pid: root.partition(" ")[0] for pid, root in self._roots.items()}
        self._ended = {key: used for key, used in self._ended.items() if key in mains}
        for root, used in before.items():
            key = root.partition(" ")[0]
            if root not in self._used and key in mains:
                counters = Used(cpu=used.cpu, read=used.read, written=used.written)
                self._ended[key] = _sum([self._ended.get(key, Used()), counters])
        parts: dict[str, list[Used]] = {key: [] for key in mains}
        for root, used in (*self._used.items(), *self._ended.items()):
            parts[root.partition(" ")[0]].append(used)
        return {key: found[0] if len(found) == 1 else _sum(found) for key, found in parts.items()}

    def _measure(self, roots: Mapping[str, int]) -> None:
        self._scans += 1
        if self._scans % _LOOK_AGAIN == 0:
            self._foreign.clear()
        found = self._read(set(roots.values()))
        before, mains = self._roots, {pid: root for root, pid in roots.items()}
        self._roots = _owners(found, mains, before)
        self._claim(found, mains)
        self._foreign.update(pid for pid in found if pid not in self._roots)
        self._used = {root: self._used.get(root) or Used() for root in roots}
        members: dict[str, list[int]] = {root: [] for root in roots}
        for pid, root in self._roots.items():
            members[root].append(pid)
        self._count_ended_orphans(before, found, roots)
        memory = self._shared_pages.memory(
            {root: {pid: found[pid].memory for pid in pids} for root, pids in members.items()}
        )
        for root, used in self._used.items():
            _add(used, [found[pid] for pid in members[root]], self._orphans.get(root, 0.0), memory[root])
        for root in self._in_turn(list(roots)):
            _add_details(self._used[root], members[root])

    def _claim(self, found: Mapping[int, Process], mains: Mapping[int, str]) -> None:
        """Find the attempts of orphans that no scan has seen below their parents."""
        self._groups = {pid: self._groups[pid] if pid in self._groups else _own_group(pid) for pid in mains}
        groups = {group: mains[pid] for pid, group in self._groups.items() if group}
        roots = set(mains.values())
        for pid, process in found.items():
            if pid not in self._roots:
                root = mains.get(process.session) or self._marked(pid)
                if root not in roots and groups:
                    root = groups.get(proc.read(f"/proc/{pid}/cgroup"))
                if root in roots:
                    self._roots[pid] = root

    def _marked(self, pid: int) -> str | None:
        """Return the attempt that the environment of the process names."""
        return self._folders.key_of(proc.environment(pid, MARK) or "")

    def _count_ended_orphans(
        self, before: Mapping[int, str], found: Mapping[int, Process], roots: Mapping[str, int]
    ) -> None:
        self._orphans = {root: seconds for root, seconds in self._orphans.items() if root in roots}
        gone = (
            (pid, root) for pid, root in before.items() if pid not in found and root in roots and pid != roots[root]
        )
        for pid, root in gone:
            last = self._members[pid]
            if before.get(last.parent) != root:
                self._orphans[root] = self._orphans.get(root, 0.0) + last.cpu
        self._members = {pid: found[pid] for pid in self._roots}

    def _read(self, mains: set[int]) -> dict[int, Process]:
        """Read all processes that are not known to belong to no attempt."""
        pids = proc.processes()
        self._foreign.intersection_update(pids)
        self._foreign -= mains
        processes = ((pid, _process(pid)) for pid in pids if pid not in self._foreign)
        return {pid: process for pid, process in processes if process is not None}

    def _in_turn(self, keys: list[str]) -> Iterable[str]:
        """Return the attempts whose details are read in this scan."""
        if len(keys) <= self._details_at_once:
            return keys
        start = self._next_details % len(keys)
        self._next_details = start + self._details_at_once
        return (keys + keys)[start : start + self._details_at_once]


def _process(pid: int) -> Process | None:
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, _STAT)  # it comes whole with one read, which halves the cost of a scan
    except OSError:
        return None
    finally:
        os.close(descriptor)
    fields = text[text.rindex(b")") + 2 :].split()
    ticks = int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])  # its own, and of waited-for children
    return Process(int(fields[1]), int(fields[3]), ticks / _TICKS, int(fields[21]) * _PAGE, int(fields[17]))


def _owners(found: Mapping[int, Process], mains: Mapping[int, str], before: Mapping[int, str]) -> dict[int, str]:
    """Return the attempt of each process. An orphan belongs to the attempt that it belonged to before."""
    owners: dict[int, str] = {}
    keys = set(mains.values())
    for pid in found:
        path: list[int] = []
        at = pid
        owner: str | None = None
        while owner is None and at in found and len(path) <= len(found):
            owner = mains.get(at) or owners.get(at)
            path.append(at)
            at = found[at].parent
        if owner is None and before.get(pid) in keys:
            owner = before[pid]
        if owner is not None:
            owners.update(dict.fromkeys([pid] if owner == before.get(pid) else path, owner))
    return owners


def _own_group(pid: int) -> bytes:
    """Return the control groups of a first process; empty: they are not of its attempt alone."""
    text = proc.read(f"/proc/{pid}/cgroup")
    return text if _GROUP.search(text) else b""


def _add(used: Used, processes: list[Process], orphans: float, memory: int) -> None:
    used.cpu = max(used.cpu, orphans + sum(each.cpu for each in processes))
    used.memory = memory
    used.threads = sum(each.threads for each in processes)


def _sum(parts: Sequence[Used]) -> Used:
    files = [each.files for each in parts if each.files is not None]
    return Used(
        cpu=sum(each.cpu for each in parts),
        memory=sum(each.memory for each in parts),
        threads=sum(each.threads for each in parts),
        files=sum(files) if files else None,
        read=sum(each.read for each in parts),
        written=sum(each.written for each in parts),
    )


def _add_details(used: Used, pids: list[int]) -> None:
    counts = [_open_files(pid) for pid in pids]
    known = [count for count in counts if count is not None]
    used.files = sum(known) if known else None
    read, written = disk_bytes(pids)
    used.read, used.written = max(used.read, read), max(used.written, written)


def disk_bytes(pids: Iterable[int]) -> tuple[int, int]:
    """Return the bytes that processes, and children that they waited for, read from disks and wrote. A process that
    has ended counts until its parent has waited for it."""
    read = written = 0
    for pid in pids:
        for line in lines_of(proc.read(f"/proc/{pid}/io")):
            name, _, number = line.partition(b": ")
            if name == b"read_bytes":
                read += int(number)
            elif name == b"write_bytes":
                written += int(number)
    return read, written


def _open_files(pid: int) -> int | None:
    try:
        # the size of this folder is their number since Linux 6.2
        return os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH116, PTH208
    except OSError:
        return None
