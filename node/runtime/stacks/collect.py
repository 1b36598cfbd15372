"""What the processes of attempts on this machine do now: states, Python stacks, and where the kernel lets them wait.

Nothing is stopped or traced: py-spy reads the memory of a process while that goes on. Of a process in state D, such a
read may wait as long as the process does, so that it has a time limit. Used by ``node.api.stacks``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from msgspec import structs

from grass.errors import GrassError
from grass.lines import lines_of
from grass.node_config import NodeHome
from grass.wire.keys import AttemptKey
from grass.wire.node_api import NodeStacks
from grass.wire.stacks import ProcessStack, TaskStacks, ThreadStack
from node.runtime import proc
from node.runtime.adoption import MARK
from node.runtime.attempts import Folders
from node.runtime.registry import first_process
from node.runtime.stacks import fault_handler
from node.runtime.stacks.py_spy import NO_PROGRAM, NotPermittedError, PySpy, PySpyError

MOST_PROCESSES = 64
"""Processes of one attempt that are looked at."""
MOST_THREADS = 256
_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_ADVICE = "`kernel.yama.ptrace_scope = 0` (sysctl), and daemons with the user of the tasks or CAP_SYS_PTRACE, permit it"


class Found(NamedTuple):
    """A process. ``note``: why its stacks are missing, if the machine's settings are the reason."""

    stack: ProcessStack
    note: str = ""


def collect(config: NodeHome, keys: Sequence[str], programs: str | None = None) -> NodeStacks:
    """Return the processes of these attempts. ``programs``: the folders in which py-spy is looked for."""
    spy = PySpy(config, programs)
    firsts, problems = _first_processes(config, keys)
    owned = _owned(firsts, Folders(str(config.node_dir / "attempts")))
    with ThreadPoolExecutor(min(16, 2 + 2 * (os.cpu_count() or 1)), "stacks") as pool:
        looks = {key: [pool.submit(_look, spy, key, pid) for pid in owned[key]] for key in firsts}
        found = {key: [each for look in each_key if (each := look.result())] for key, each_key in looks.items()}
    notes = [each.note for processes in found.values() for each in processes if each.note]
    tasks = [_task(config, key, [each.stack for each in found.get(key, ())], problems.get(key, "")) for key in keys]
    return NodeStacks(tuple(tasks), notes[0] if notes else "")


def _task(config: NodeHome, key: str, processes: list[ProcessStack], problem: str) -> TaskStacks:
    parsed = AttemptKey.parse(key)
    return TaskStacks(str(parsed.task), parsed.attempt, config.node.name, tuple(processes), problem)


def _first_processes(config: NodeHome, keys: Sequence[str]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the first process of each attempt, and why there is none of the others."""
    firsts, problems = {}, {}
    for key in keys:
        try:
            firsts[key] = first_process(config, key)
        except GrassError as error:
            problems[key] = str(error)
    return firsts, problems


def _owned(firsts: Mapping[str, int], folders: Folders) -> dict[str, list[int]]:
    """Return the processes of each attempt: what descends from its first one, has its session, or carries its mark."""
    parents = {pid: found for pid in proc.processes() if (found := proc.stat(pid)) is not None}
    mains = {pid: key for key, pid in firsts.items()}
    owned: dict[str, list[int]] = {key: [] for key in firsts}
    for pid in sorted(parents):
        at, seen = pid, 0
        while at in parents and at not in mains and seen < len(parents):
            at, seen = parents[at].parent, seen + 1
        key = mains.get(at) or mains.get(parents[pid].session)
        if key is None and parents[pid].parent == 1:
            key = folders.key_of(proc.environment(pid, MARK) or "")
        if key in owned and len(owned[key]) < MOST_PROCESSES:
            owned[key].append(pid)
    return owned


def _look(spy: PySpy, key: str, pid: int) -> Found | None:
    stat = proc.stat(pid)
    if stat is None:
        return None
    threads = _threads(pid)
    stuck = [thread for thread, state in threads if state == "D"]
    look = ProcessStack(
        pid=pid,
        command=_text(f"/proc/{pid}/comm"),
        state="D" if stuck else "R" if stat.state == "S" and any(state == "R" for _, state in threads) else stat.state,
        waits_in=_waits_in(pid, stuck[0] if stuck else pid),
        kernel=_kernel_stack(pid, stuck[0]) if stuck else (),
    )
    if stat.state in "ZX" or not _is_python(pid, stuck=bool(stuck)):
        return Found(look)
    try:
        return Found(_with(look, spy.threads(key, pid)))
    except NotPermittedError as error:
        return Found(_with(look, fault_handler.threads(pid), str(error)), _note(str(error)))
    except PySpyError as error:
        return Found(_with(look, fault_handler.threads(pid), str(error)), NO_PROGRAM if spy.missing else "")


def _with(look: ProcessStack, threads: tuple[ThreadStack, ...], problem: str = "") -> ProcessStack:
    return structs.replace(look, threads=threads, problem="" if threads else problem)


def _note(why: str) -> str:
    scope = _text(_SCOPE)
    return f"{why}; {_ADVICE}" + (f" (it is {scope} here)" if scope and scope != "0" else "")


def _threads(pid: int) -> list[tuple[int, str]]:
    """Return the id and state of each thread."""
    try:
        names = os.listdir(f"/proc/{pid}/task")[:MOST_THREADS]  # noqa: PTH208
    except OSError:
        return []
    found = ((int(name), proc.read(f"/proc/{pid}/task/{name}/stat")) for name in names)
    return [(thread, chr(text[text.rindex(b")") + 2])) for thread, text in found if b")" in text]


def _waits_in(pid: int, thread: int) -> str:
    name = _text(f"/proc/{pid}/task/{thread}/wchan").partition(".")[0]  # without what a compiler added
    return "" if name == "0" else name


def _kernel_stack(pid: int, thread: int) -> tuple[str, ...]:
    """Return the kernel's stack of a thread; empty: only root may read it."""
    lines = lines_of(_text(f"/proc/{pid}/task/{thread}/stack"))
    return tuple(line.partition("] ")[2] or line for line in lines)[:32]


def _is_python(pid: int, *, stuck: bool) -> bool:
    try:
        program = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 (pathlib knows no such links)
    except OSError:
        program = _text(f"/proc/{pid}/comm")
    return "python" in program or (not stuck and b"/libpython" in proc.read(f"/proc/{pid}/maps"))


def _text(path: str) -> str:
    return proc.read(path).decode(errors="replace").strip("\n\0")
