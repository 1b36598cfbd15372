"""What a container uses, from the kernel's control groups (versions 1 and 2), which docker's own figures come from.

Called by the usage sampler. A figure that cannot be read keeps the value of the container's processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from grass.lines import lines_of
from node.agent.task_processes import Used
from node.runtime import control_groups, proc


def groups_of(pid: int) -> dict[str, str] | None:
    """Return controller → folder of the container in which this process is. None: it is in none of this machine's.

    A node-agent that runs in a container itself has tasks in the same one; those are processes.
    """
    text = proc.read(f"/proc/{pid}/cgroup")
    container = proc.container_in(text)
    if container is None or container == proc.container_in(proc.read("/proc/self/cgroup")):
        return None
    return control_groups.folders(text.decode(errors="replace"))


def measure(groups: Mapping[str, str], used: Used) -> Used:
    """Return ``used`` with what the control groups know."""
    unified = "" in groups and "memory" not in groups
    return _of_version_2(groups[""], used) if unified else _of_version_1(groups, used)


def _of_version_2(folder: str, used: Used) -> Used:
    cpu = _fields(f"{folder}/cpu.stat").get("usage_usec")
    memory = _number(f"{folder}/memory.current")
    cache = _fields(f"{folder}/memory.stat").get("inactive_file", 0)
    read = written = None
    for line in lines_of(_text(f"{folder}/io.stat")):
        counts = dict(part.split("=", 1) for part in line.split()[1:] if "=" in part)
        read = (read or 0) + int(counts.get("rbytes", 0))
        written = (written or 0) + int(counts.get("wbytes", 0))
    threads = _number(f"{folder}/pids.current")
    return _combined(used, None if cpu is None else cpu / 1e6, memory, cache, read, written, threads)


def _of_version_1(groups: Mapping[str, str], used: Used) -> Used:
    cpu = _number(f"{groups.get('cpuacct', '')}/cpuacct.usage")
    memory = _number(f"{groups.get('memory', '')}/memory.usage_in_bytes")
    cache = _fields(f"{groups.get('memory', '')}/memory.stat").get("total_inactive_file", 0)
    read = written = None
    for line in lines_of(_text(f"{groups.get('blkio', '')}/blkio.throttle.io_service_bytes")):
        match line.split():
            case [_, "Read", count]:
                read = (read or 0) + int(count)
            case [_, "Write", count]:
                written = (written or 0) + int(count)
    threads = _number(f"{groups.get('pids', '')}/pids.current")
    return _combined(used, None if cpu is None else cpu / 1e9, memory, cache, read, written, threads)


def _combined(
    used: Used,
    cpu: float | None,
    memory: int | None,
    cache: int,
    read: int | None,
    written: int | None,
    threads: int | None,
) -> Used:
    return Used(
        cpu=used.cpu if cpu is None else max(cpu, used.cpu),
        memory=used.memory if memory is None else max(0, memory - cache),
        threads=used.threads if threads is None else threads,
        files=used.files,
        read=used.read if read is None else max(read, used.read),
        written=used.written if written is None else max(written, used.written),
    )


def _text(path: str) -> str:
    return proc.read(os.fspath(path)).decode(errors="replace")


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _fields(path: str) -> dict[str, int]:
    """Return the numbers of a file with lines of ``name number``."""
    pairs = (line.split() for line in lines_of(_text(path)))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}
