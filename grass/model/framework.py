"""The framework of a component: which stock software its tasks run, and the options of its renderer. Pure.

``grass.manifest`` reads it. The node renders a component's membership for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

Scalar = str | int | float | bool
Option = Scalar | tuple[Scalar, ...]


class FrameworkName(str, Enum):
    NONE = "none"
    TORCH = "torch"
    TORCHRUN = "torchrun"
    HOROVOD = "horovod"
    OPENMPI = "openmpi"
    MPICH = "mpich"
    DEEPSPEED = "deepspeed"
    TF = "tf"
    MARS = "mars"
    DLROVER = "dlrover"


class FrameworkKind(NamedTuple):
    """What Grass has to know of a framework, besides its options in job files and its renderer."""

    launchers: tuple[str, ...] = ()
    """Its own programs with which a command may start."""
    over_ssh: bool = False
    """Whether its launchers run the ``ssh`` of Grass, which is a Python program."""
    several: bool = False
    """Whether it starts several processes in a task."""
    arguments: bool = False
    """Whether it adds arguments to the command, which differ per task."""
    size_at_start: bool = False
    """Whether it says the size of the component in the environment, which cannot change while a task runs."""
    addresses_at_start: bool = False
    """Whether its tasks must know the addresses of the others when they start."""
    drains: bool = True
    """Whether a member that leaves should get time to leave by itself."""


KINDS: Mapping[FrameworkName, FrameworkKind] = MappingProxyType(
    {
        FrameworkName.NONE: FrameworkKind(drains=False),
        FrameworkName.TORCH: FrameworkKind(size_at_start=True, addresses_at_start=True),
        FrameworkName.TORCHRUN: FrameworkKind(("torchrun",), several=True),
        FrameworkName.HOROVOD: FrameworkKind(("horovodrun",), over_ssh=True, several=True),
        FrameworkName.OPENMPI: FrameworkKind(("mpirun", "mpiexec", "prterun"), over_ssh=True, several=True),
        FrameworkName.MPICH: FrameworkKind(("mpirun", "mpiexec", "mpiexec.hydra"), over_ssh=True, several=True),
        FrameworkName.DEEPSPEED: FrameworkKind(("deepspeed",), over_ssh=True, several=True),
        FrameworkName.TF: FrameworkKind(size_at_start=True, addresses_at_start=True),
        FrameworkName.MARS: FrameworkKind(
            ("mars-supervisor", "mars-worker", "mars-scheduler", "mars-web"), arguments=True, addresses_at_start=True
        ),
        FrameworkName.DLROVER: FrameworkKind(("dlrover-run",), several=True),
    }
)

TF_PORT = "tf"
"""Name of the port that ``TF_CONFIG`` names, unless an option says another."""
MARS_PORT, MARS_WEB = "mars", "web"
"""Names of the ports of Mars: the one of its members, and that of its page."""
MARS_ROLES: Mapping[str, str] = MappingProxyType(
    {
        "supervisor": "supervisor",
        "worker": "worker",
        "scheduler": "scheduler",
        "web": "web",
        "webservice": "web",
    }
)
"""What a component of Mars may be called, or its option ``role``, in lower case → its role."""
DLROVER_MASTER = "dlrover-master"
"""Name of the component, and of its option ``role``, that is the master of DLRover's clients in a job."""
DLROVER_PORT = "dlrover"
"""Name of its port."""
DLROVER_FAULT = "node_check_fault"
"""The figure of the master (``grass_dlrover.state``) that names a node at fault: rank as step, attempt as value."""
DLROVER_WORKER = "worker"
DLROVER_KINDS = (DLROVER_WORKER, "ps", "chief", "evaluator")
"""Kinds of nodes that DLRover's client knows: what a component may be called, or its option ``role``."""

_OLD_MARS = re.compile(r"0\.[0-6](\..*)?")


def is_old_mars(version: str) -> bool:
    """Return whether a version of Mars is before 0.7, which has other roles and programs."""
    return _OLD_MARS.fullmatch(version) is not None


@dataclass(frozen=True, slots=True)
class Framework:
    """The framework of a component, with its options.

    ``options``: the keys beside ``name`` in the job file. The renderer of the framework knows their meaning.
    """

    name: FrameworkName
    options: Mapping[str, Option] = field(default_factory=dict)

    @property
    def kind(self) -> FrameworkKind:
        return KINDS[self.name]


def dlrover_role(framework: Framework, component: str) -> str:
    """Return the kind of node that a component is for DLRover, or ``DLROVER_MASTER``."""
    known = (*DLROVER_KINDS, DLROVER_MASTER)
    return str(framework.options.get("role", component if component in known else DLROVER_WORKER))


def is_dlrover_master(framework: Framework | None, component: str) -> bool:
    """Return whether a component is the master of DLRover's clients in its job."""
    if framework is None or framework.name is not FrameworkName.DLROVER:
        return False
    return dlrover_role(framework, component) == DLROVER_MASTER
