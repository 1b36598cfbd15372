"""What a renderer gets (``Seat``) and returns (``Rendered``), and the names by which tasks reach each other. Pure.

Used by this package and ``node.membership``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from grass.model.framework import Framework
from grass.wire.membership import Member, Membership

NO_MEMBERSHIP = Membership(generation=0, epoch=0, desired=1, min=1, max=1, unit=1, members=())


@dataclass(frozen=True, kw_only=True, slots=True)
class Seat:
    """One attempt: who it is, and the memberships of its job as its node has them.

    ``folder``: the job's files on this node. Tasks see it read-only, at the same path in containers. ``cpu`` is in
    thousandths of a core, ``memory`` in bytes; 0: no limit.
    """

    job: str
    job_id: str
    component: str
    index: int
    attempt: int
    address: str
    framework: Framework
    folder: str
    scratch: str
    memberships: Mapping[str, Membership]
    """By component: all of the job that have a membership."""
    ports: Mapping[str, int] = field(default_factory=dict)
    gpus: int = 0
    cpu: int = 0
    memory: int = 0
    contained: bool = False
    """Whether it is a container, which sees no processes but its own."""
    own_network: bool = False
    """Whether it is a container that does not use its node's network."""

    @property
    def task(self) -> str:
        return f"{self.component}.{self.index}"

    @property
    def membership(self) -> Membership:
        """Return the membership of its own component; without members if the node has none yet."""
        return self.memberships.get(self.component, NO_MEMBERSHIP)

    @property
    def member(self) -> Member | None:
        """Return its own entry. None: it is not a member yet, or no longer."""
        found = (each for each in self.membership.members if (each.task, each.attempt) == (self.task, self.attempt))
        return next(found, None)

    @property
    def slots(self) -> int:
        """Return the number of processes that a launcher starts in this task: option ``slots``, or its GPUs, or 1."""
        return integer(self.framework, "slots", max(1, self.gpus))


class Rendered(NamedTuple):
    """What a task gets for its framework.

    ``env`` is fixed when the attempt starts; the job's own variables of the same name win. ``files``: name → text, in
    ``files_folder``; written before the start and again with each new membership. A file that begins with ``#!`` is
    executable. ``arguments`` are appended to the command. ``programs``: those that the task finds before its own, of
    ``program_folder``, which is in ``grass/task/library``.
    """

    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    arguments: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    program_folder: str = "bin"


def files_folder(folder: str, component: str) -> str:
    """Return where a component's rendered files are. ``folder``: of the job, with files of any component's name."""
    return f"{folder}/components/{component}"


def library_folder(folder: str) -> str:
    """Return where the files of ``grass/task/library`` are: Python modules, and the ``ssh`` shim."""
    return f"{folder}/library"


def alias(member: Member) -> str:
    """Return the host name by which launchers know a member. A later attempt has another one: Horovod excludes a host
    forever once it failed. Open MPI cuts names at the first dot, so it contains none."""
    return f"{member.task.replace('.', '-')}-{member.attempt}"


def member_of(memberships: Mapping[str, Membership], name: str) -> tuple[str, Member] | None:
    """Return the component and the member that ``name`` means: an alias, or a task (``worker.3``)."""
    for component, membership in memberships.items():
        for member in membership.members:
            if name in (alias(member), member.task):
                return component, member
    return None


def hosts(seat: Seat) -> Membership:
    """Return the membership whose tasks are the hosts of a launcher.

    Option ``workers`` names the component. Otherwise: ``worker`` or ``workers`` if the job has it, or its own.
    """
    named = seat.framework.options.get("workers")
    for component in (named,) if named else ("worker", "workers", seat.component):
        if isinstance(component, str) and component in seat.memberships:
            return seat.memberships[component]
    return seat.membership if not named else NO_MEMBERSHIP


def host_slots(seat: Seat, member: Member) -> int:
    return integer(seat.framework, "slots", member.slots)


def integer(framework: Framework, name: str, default: int) -> int:
    value = framework.options.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def words(framework: Framework, name: str) -> Sequence[str]:
    """Return a list option; a single value is a list of one."""
    value = framework.options.get(name, ())
    return [str(each) for each in value] if isinstance(value, tuple | list) else [str(value)]
