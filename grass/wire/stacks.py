"""What the processes of tasks do now: states, and stacks of threads. Collected by node-api-servers on demand.

Sent by the API server, and read by the monitor, which finds out why a job stands still. A frame is ``function
(file:line)``; the first is the innermost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from grass.wire.codec import Form


class ThreadStack(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thread of a Python process."""

    frames: tuple[str, ...]
    name: str = ""
    main: bool = False
    """Whether it is the first thread of its process."""


class ProcessStack(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process."""

    pid: int
    command: str
    """The name of its program, of at most 15 characters."""
    state: str
    """As in /proc: R runs, S waits, D waits in the kernel and cannot be ended, T is stopped, Z has ended."""
    waits_in: str = ""
    """The kernel's function in which its first thread waits; empty: it runs, or this is not known."""
    kernel: tuple[str, ...] = ()
    """The kernel's stack of a thread in state D, if the node may read that."""
    threads: tuple[ThreadStack, ...] = ()
    """Of a Python process, its first thread first. Empty: it is none, or its stacks could not be read."""
    problem: str = ""
    """Why its stacks could not be read."""

    @property
    def main(self) -> tuple[str, ...]:
        """Return the frames of the first thread."""
        return next((thread.frames for thread in self.threads if thread.main), ())


class TaskStacks(msgspec.Struct, frozen=True, omit_defaults=True):
    """The processes of one running attempt."""

    task: str
    attempt: int
    node: str
    processes: tuple[ProcessStack, ...] = ()
    problem: str = ""
    """Why nothing is known of it."""


class JobStacks(msgspec.Struct, frozen=True):
    """The processes of the running tasks of a job."""

    job: str
    """Name of the job."""
    tasks: tuple[TaskStacks, ...]
    notes: tuple[str, ...] = ()
    """What is missing, and the setting that would change this: once for each node."""


class Member(NamedTuple):
    """One process of one task."""

    task: TaskStacks
    process: ProcessStack

    @property
    def name(self) -> str:
        """Return the task, with the process if it has several."""
        one = len(self.task.processes) == 1
        return self.task.task if one else f"{self.task.task} (pid {self.process.pid})"


class StackGroup(NamedTuple):
    """Processes that do the same."""

    stacks: tuple[tuple[str, ...], ...]
    """The frames of their first thread, or of all threads. Empty: not known."""
    where: str
    """What tells processes without stacks apart: state, program, and the function of the kernel."""
    members: tuple[Member, ...]


def grouped(tasks: Iterable[TaskStacks], all_threads: bool = False) -> list[StackGroup]:
    """Group the processes that stand at the same lines; the rarest first. Those without stacks are grouped by program
    and state. Shells and launchers that only wait for others are left out, if anything else is there."""
    groups: dict[tuple[tuple[tuple[str, ...], ...], str], list[Member]] = {}
    for task in tasks:
        for process in task.processes:
            stacks = tuple(sorted(each.frames for each in process.threads)) if all_threads else (process.main,)
            known = any(stacks)
            odd = "" if process.state in "RS" else process.state
            where = odd if known else " ".join(filter(None, (process.state, process.command, process.waits_in)))
            groups.setdefault((stacks if known else (), where), []).append(Member(task, process))
    found = [StackGroup(stacks, where, tuple(members)) for (stacks, where), members in groups.items()]
    busy = [group for group in found if not _only_waits(group)]
    return sorted(busy or found, key=lambda group: len(group.members))


def _only_waits(group: StackGroup) -> bool:
    return not group.stacks and all(
        process.waits_in in ("do_wait", "do_sigtimedwait", "sigsuspend") for _, process in group.members
    )


JOB_STACKS: Form[JobStacks] = Form(JobStacks)
