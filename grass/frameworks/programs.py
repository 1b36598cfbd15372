"""The programs that a component of a framework must find on its PATH before it starts. Pure: nothing is looked up.

Nodes and pushed images report which programs of ``KNOWN`` they have. The planner and the API compare them with
``needed``. Used by ``grass.files``, ``master.agent``, ``master.api`` and ``node.agent``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from grass.model.job import Component
from grass.model.program import first_program
from grass.model.runtime import RuntimeName

LAUNCHERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "torchrun": ("torchrun",),
        "horovod": ("horovodrun",),
        "openmpi": ("mpirun", "mpiexec", "prterun"),
        "mpich": ("mpirun", "mpiexec", "mpiexec.hydra"),
        "deepspeed": ("deepspeed",),
        "mars": ("mars-supervisor", "mars-worker", "mars-scheduler", "mars-web"),
    }
)
"""Framework → its own programs with which a command may start."""
PYTHON = "python3"
OVER_SSH = ("horovod", "openmpi", "mpich", "deepspeed")
"""Frameworks whose launchers run the ``ssh`` of Grass, which is a Python program."""
KNOWN = tuple(sorted({PYTHON, *(program for programs in LAUNCHERS.values() for program in programs)}))


def needed(component: Component) -> tuple[str, ...]:
    """Return the programs that a task looks for on its PATH. Empty: its command starts with no launcher of its
    framework, or its own PATH is part of the job, so that nobody else knows what it will find."""
    if component.framework is None or "PATH" in component.env:
        return ()
    name, program = component.framework.name.value, first_program(component.command)
    if program not in LAUNCHERS.get(name, ()):
        return ()
    return (program, PYTHON) if name in OVER_SSH else (program,)


def needed_of_node(component: Component) -> tuple[str, ...]:
    """Return the programs that the node must have: those of a process that gets the node's PATH."""
    in_container = component.image is not None and component.runtime != RuntimeName.PROCESS
    return () if in_container or "PATH" in dict(component.shell) else needed(component)
