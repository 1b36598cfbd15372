"""Define the command `grass job stacks`: what the processes of a job do now, alike ones together. Loaded by ``job``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.output import Result
from grass.cli.table import paragraph
from grass.cli.values import JOB, PART, Part

if TYPE_CHECKING:
    from grass.wire.stacks import JobStacks, StackGroup

_NAMED = 6
"""Members that a group names; of more, the first ones."""


@click.command("stacks", cls=Command)
@click.argument("name", type=JOB)
@click.argument("parts", type=PART, nargs=-1, metavar="[COMPONENT[.INDEX]…]")
@click.option("--all-threads", is_flag=True, help="Compare and show all threads, not only the first of each process.")
@pass_invocation
def show_stacks(invocation: Invocation, name: str, parts: Sequence[Part], all_threads: bool) -> None:
    """Show at which lines the processes of running tasks are now. Processes at the same lines are one group.

    The rarest group comes first: of 40 workers that wait for one, that one is at the top. Nothing is stopped for it.
    Stacks of Python programs are read by py-spy; of other programs, the state and what the kernel waits for.
    """
    found = invocation.client().stacks(name, [part.text for part in parts])
    for note in found.notes:
        invocation.output.warn(note)
    invocation.output.show(
        Result(found, partial(page, found, all_threads), [task.task for task in found.tasks], items="tasks")
    )


def page(found: JobStacks, all_threads: bool, width: int | None) -> list[str]:
    """Return the groups, and the tasks without any."""
    from grass.wire.stacks import grouped

    groups = grouped(found.tasks, all_threads)
    members = sum(len(group.members) for group in groups)
    tasks = len({member.task.task for group in groups for member in group.members})
    head = f"{found.job}: {_count(members, 'process')} of {_count(tasks, 'task')}"
    lines = paragraph(f"{head}, {_alike([len(group.members) for group in groups])}", width)
    for group in groups:
        lines += ["", *paragraph(f"{_count(len(group.members), 'process')}{_state(group)}: {_names(group)}", width)]
        lines += [f"  {line}" for line in _frames(group)]
    problems = Counter(task.problem for task in found.tasks if task.problem)
    for problem, count in problems.items():
        lines += ["", *paragraph(f"{_count(count, 'task')}: {problem}", width)]
    return lines


def _alike(sizes: Sequence[int]) -> str:
    if len(sizes) < 2:
        return "all alike" if sizes else "none known"
    return f"{sizes[-1]} alike, {sum(sizes[:-1])} otherwise"


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _state(group: StackGroup) -> str:
    words = {"R": "running", "S": "waiting", "D": "waiting in the kernel (D)", "T": "stopped (T)", "Z": "ended (Z)"}
    states = {words.get(process.state, process.state) for _, process in group.members}
    return f" {' or '.join(sorted(states))}"


def _names(group: StackGroup) -> str:
    names = [member.name for member in group.members]
    named = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    nodes = {member.task.node for member in group.members}
    return f"{named} on {nodes.pop()}" if len(nodes) == 1 else f"{named} on {len(nodes)} nodes"


def _frames(group: StackGroup) -> Iterator[str]:
    for position, frames in enumerate(group.stacks):
        if position:
            yield "--"
        yield from map(_short, frames or ("(no Python frame)",))
    first = group.members[0].process
    if not group.stacks:
        yield group.where
        if first.problem:
            yield first.problem
    for line in first.kernel:
        yield f"kernel: {line}"


def _short(frame: str) -> str:
    """Return a frame with the last two parts of its file's path, which say enough for most readers."""
    name, _, place = frame.rpartition(" (")
    return f"{name} ({'/'.join(place.split('/')[-2:])}"
