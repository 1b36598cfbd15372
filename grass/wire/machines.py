"""The machines behind a node that is a namespace of Kubernetes, if its agent may see them.

Part of the report of what a node offers, kept in the node's record, shown by the API.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

MOST_TASKS = 100
"""Tasks of one machine that are named."""


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One machine. Amounts are allocatable: what Kubernetes offers to pods of everybody, not what is free."""

    name: str
    kind: int = 0
    """Index of its labels in ``Machines.labels``."""
    cpu: int = 0
    """Thousandths of a core."""
    memory: int = 0
    """Bytes."""
    gpu: int = 0
    """Thousandths of a device."""
    gpu_model: str = ""
    gpu_memory: int = 0
    """Bytes of each device; 0: not known."""
    closed: str = ""
    """Why pods of Grass do not go there; empty: they may."""
    tasks: tuple[str, ...] = ()
    """Keys of the attempts of this node that run there, a limited number of them."""
    running: int = 0
    """How many attempts of this node run there."""


class Machines(msgspec.Struct, frozen=True, omit_defaults=True):
    """All machines that the agent sees, in the order of their names."""

    machines: tuple[Machine, ...] = ()
    labels: tuple[dict[str, str], ...] = ()
    """Labels that machines have, without that of the name. Most machines share one of few sets."""
    left_out: int = 0
    """How many further machines there are."""

    def labelled(self) -> Iterator[tuple[Machine, dict[str, str]]]:
        """Yield each machine with its labels."""
        for machine in self.machines:
            yield machine, self.labels[machine.kind] if machine.kind < len(self.labels) else {}
