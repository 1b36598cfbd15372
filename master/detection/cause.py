"""Why the members of a component stand still: from the states and stacks of their processes. Pure.

The strongest evidence first: a device that does not answer, a process that waits in the kernel or is stopped, one that
has ended; then the stacks, where members that wait for others are told from those that are waited for. Used by
``standstills``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from grass.wire.finding import Cause
from grass.wire.stacks import ProcessStack, TaskStacks

FEW = 0.1
"""Of this part of the members, at least one, it is said that they are elsewhere than all others."""
_COLLECTIVE_FILES = re.compile(
    r"torch/distributed/|torch/nn/parallel/|/horovod/|/mpi4py/|/deepspeed/(comm|runtime)/|/jax/|/tensorflow/|/c10d|nccl|gloo"
)
_COLLECTIVES = re.compile(
    r"\b(all_?reduce|all_?gather\w*|all_?to_?all\w*|reduce_scatter\w*|broadcast\w*|barrier|allreduce_?|synchronize"
    r"|monitored_barrier|send_recv|batch_isend_irecv)\b",
    re.IGNORECASE,
)
_LOADER = re.compile(r"utils/data/|multiprocessing/(queues|connection|pool)\.py|/queue\.py|/tf/data|\bnext_batch\b")
_WAITS_FOR_LOCK = re.compile(r"threading\.py|concurrent/futures/|\b(acquire|deadlock)\b")
_HELPER = re.compile(
    r"distributed/(elastic|launch|run)|/torchrun|horovod/runner|resource_tracker\.py|forkserver\.py"
    r"|utils/data/_utils/worker\.py|multiprocessing/spawn\.py.*resource"
)
"""Processes beside those that train: launchers, and workers of data loaders."""


class Doing(Enum):
    """What a member does, as seen from outside."""

    RUNS = "runs"
    IN_COLLECTIVE = "waits in a collective operation"
    LOADS = "waits for its data"
    LOCKED = "waits for a lock"
    WAITS = "waits"
    ENDED = "has ended"


class Verdict(NamedTuple):
    """The cause, and why. ``tasks``: whom it accuses. ``busy``: those of them that run, and may only be slow."""

    cause: Cause
    tasks: tuple[str, ...]
    why: str
    sure: float
    busy: tuple[str, ...] = ()


class _Member(NamedTuple):
    task: str
    node: str
    process: ProcessStack | None
    doing: Doing

    @property
    def place(self) -> str:
        """Return the line at which it is, or what the kernel says."""
        if self.process is None:
            return "nowhere"
        return frame(self.process.main) or self.process.waits_in or self.process.state

    @property
    def name(self) -> str:
        return f"{self.task} ({self.node})"


def frame(main: Sequence[str]) -> str:
    """Return the innermost frame that says where a program is: a collective operation, or the first one outside of
    Python's own library."""
    chosen = next((each for each in main if _COLLECTIVES.search(each)), "")
    chosen = chosen or next((each for each in main if "/lib/python3" not in each or "site-packages" in each), "")
    name, _, place = (chosen or next(iter(main), "")).rpartition(" (")
    return f"{name} ({'/'.join(place.split('/')[-2:])}" if name else ""


def judge(stacks: Sequence[TaskStacks], sick: Mapping[str, str]) -> Verdict:
    """Return the cause. ``sick``: node → what is wrong with a device of it."""
    for task in stacks:
        if task.node in sick:
            why = f"{task.task} runs on {task.node}, where {sick[task.node]}"
            return Verdict(Cause.GPU, (task.task,), why, 0.9)
    return _in_kernel(stacks) or _of_stacks([_member(task) for task in stacks])


def _in_kernel(stacks: Sequence[TaskStacks]) -> Verdict | None:
    stuck = {task: each for task in stacks for each in task.processes if each.state == "D"}
    if stuck:
        process = next(iter(stuck.values()))
        where = " of ".join(filter(None, (process.waits_in, frame(process.main)))) or "a function that is not known"
        what = f"process {process.pid} of {_names(stuck)} waits in the kernel for a disk or a share"
        why = f"{what}, in {where}; it cannot be ended"
        return Verdict(Cause.STORAGE, _tasks(stuck), why, 0.9)
    stopped = {task: each for task in stacks for each in task.processes if each.state in "Tt"}
    if stopped:
        process = next(iter(stopped.values()))
        what = f"process {process.pid} of {_names(stopped)} is stopped (SIGSTOP, or a debugger)"
        why = f"{what}; `kill -CONT` lets it go on"
        return Verdict(Cause.STRAGGLER_CODE, _tasks(stopped), why, 0.95)
    return None


def _of_stacks(members: Sequence[_Member]) -> Verdict:
    known = [each for each in members if each.process is not None]
    by: dict[Doing, list[_Member]] = {}
    for member in members:
        by.setdefault(member.doing, []).append(member)
    if Doing.ENDED in by and len(by[Doing.ENDED]) < len(members):
        gone = by[Doing.ENDED]
        why = f"the program of {_listed(gone)} has ended, and {_count(len(members) - len(gone))} wait for it"
        return Verdict(Cause.DEAD_PEER, _of(gone), why, 0.8)
    few = max(1, int(FEW * len(members)))
    if runs := by.get(Doing.RUNS):
        sure = 0.8 if len(runs) <= few < len(members) else 0.4
        rest = [each for each in known if each.doing is not Doing.RUNS]
        return Verdict(Cause.STRAGGLER_CODE, _of(runs), _while(runs, "runs in", rest), sure, _of(runs))
    if loads := by.get(Doing.LOADS):
        rest = [each for each in known if each.doing is not Doing.LOADS]
        return Verdict(Cause.DATA_LOADER, _of(loads), _while(loads, "waits for its data in", rest), 0.8)
    return _all_wait(known, few)


def _all_wait(known: Sequence[_Member], few: int) -> Verdict:
    places: dict[str, list[_Member]] = {}
    for member in known:
        places.setdefault(member.place, []).append(member)
    groups = sorted(places.values(), key=len)
    collective = [each for each in known if each.doing is Doing.IN_COLLECTIVE]
    if len(groups) > 1 and len(collective) == len(known):
        why = f"members wait in different collective operations: {_places(groups)}"
        return Verdict(Cause.DEADLOCK, _of(groups[0]) if len(groups[0]) <= few else (), why, 0.9)
    if len(groups) > 1:
        odd = [each for each in known if each.doing is not Doing.IN_COLLECTIVE] if collective else groups[0]
        if len(odd) <= few or collective:
            rest = [each for each in known if each not in odd]
            return Verdict(Cause.STRAGGLER_CODE, _of(odd), _while(odd, "waits in", rest), 0.7)
    if known and all(each.doing is Doing.LOCKED for each in known):
        return Verdict(Cause.DEADLOCK, (), f"all {len(known)} members wait for locks: {_places(groups)}", 0.7)
    if collective and len(collective) == len(known) > 1:
        why = (
            f"all {len(known)} members wait in {groups[0][0].place}: what one sends does not arrive at another; "
            "check the network between their nodes"
        )
        return Verdict(Cause.NETWORK, (), why, 0.5)
    where = f"; members are at {_places(groups)}" if groups else ""
    return Verdict(Cause.UNKNOWN, (), f"the cause is not known{where}", 0.2)


def _member(task: TaskStacks) -> _Member:
    programs = [each for each in task.processes if any(each.main)]
    trains = [each for each in programs if not _HELPER.search("\n".join(each.main))]
    if task.problem:
        return _Member(task.task, task.node, None, Doing.WAITS)
    if not trains:
        alive = [each for each in task.processes if each.state not in "ZX"]
        python = [each for each in alive if each.threads or each.problem or each.command.startswith("python")]
        if not alive or (not python and any(each.state in "ZX" for each in task.processes)):
            return _Member(task.task, task.node, None, Doing.ENDED)
        chosen = next((each for each in alive if each.state == "R"), alive[-1])
        return _Member(task.task, task.node, chosen, Doing.RUNS if chosen.state == "R" else Doing.WAITS)
    found = [(each, _doing(each)) for each in trains]
    order = (Doing.RUNS, Doing.LOADS, Doing.LOCKED, Doing.WAITS, Doing.IN_COLLECTIVE)
    process, doing = min(found, key=lambda pair: order.index(pair[1]))
    return _Member(task.task, task.node, process, doing)


def _doing(process: ProcessStack) -> Doing:
    text = "\n".join(process.main)
    if _COLLECTIVE_FILES.search(text) or _COLLECTIVES.search(text):
        return Doing.IN_COLLECTIVE
    if process.state == "R":
        return Doing.RUNS
    if _LOADER.search(text):
        return Doing.LOADS
    return Doing.LOCKED if _WAITS_FOR_LOCK.search(text) else Doing.WAITS


def _while(odd: Sequence[_Member], does: str, rest: Sequence[_Member]) -> str:
    said = f"{_listed(odd)} {does} {odd[0].place}"
    if not rest:
        return said
    return f"{said}, while {_count(len(rest))} wait in {rest[0].place}"


def _places(groups: Sequence[Sequence[_Member]]) -> str:
    said = [f"{_listed(group)} in {group[0].place}" for group in groups[:3]]
    return ", ".join(said) + (" and elsewhere" if len(groups) > 3 else "")


def _listed(members: Sequence[_Member]) -> str:
    if len(members) > 3:
        return f"{members[0].name} and {len(members) - 1} more"
    return ", ".join(each.name for each in members)


def _count(number: int) -> str:
    return f"{number} other{'s' if number > 1 else ''}"


def _names(tasks: Mapping[TaskStacks, ProcessStack]) -> str:
    return ", ".join(f"{each.task} ({each.node})" for each in list(tasks)[:3])


def _tasks(tasks: Mapping[TaskStacks, ProcessStack]) -> tuple[str, ...]:
    return tuple(each.task for each in tasks)


def _of(members: Sequence[_Member]) -> tuple[str, ...]:
    return tuple(each.task for each in members)
