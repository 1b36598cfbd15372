"""The programs that a component of a framework must find on its PATH before it starts. Pure: nothing is looked up.

Nodes and pushed images report which programs of ``KNOWN`` they have. The planner and the API compare them with
``needed``. Used by ``grass.files``, ``master.agent``, ``master.api`` and ``node.agent``.
"""

from __future__ import annotations

from grass.model.framework import KINDS
from grass.model.job import Component, runtime_of
from grass.model.program import first_program

PYTHON = "python3"
KNOWN = tuple(sorted({PYTHON, *(program for kind in KINDS.values() for program in kind.launchers)}))


def needed(component: Component) -> tuple[str, ...]:
    """Return the programs that a task looks for on its PATH. Empty: its command starts with no launcher of its
    framework, or its own PATH is part of the job, so that nobody else knows what it will find."""
    if component.framework is None or "PATH" in component.env:
        return ()
    kind, program = component.framework.kind, first_program(component.command)
    if program not in kind.launchers:
        return ()
    return (program, PYTHON) if kind.over_ssh else (program,)


def needed_of_node(component: Component) -> tuple[str, ...]:
    """Return the programs that the node must have: those of a process that gets the node's PATH."""
    return () if runtime_of(component).contained or "PATH" in dict(component.shell) else needed(component)
