"""Variables of tasks whose names or values follow from the job alone, wherever its tasks run. Pure.

Used by ``grass.model.matrix``, ``grass.manifest.export.pod_variables`` and ``node.agent.environment``.
"""

from __future__ import annotations

import re

from grass.model.job import Component


def word(name: str) -> str:
    """Return a name as a part of the name of a variable: ``DATA_IN`` of ``data-in``."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def port(name: str) -> str:
    """Return the variable with the number of the port ``name``."""
    return f"GRASS_PORT_{word(name)}"


def threads(component: Component) -> dict[str, str]:
    """Return how many threads OpenMP, MKL and OpenBLAS start unless the user says so: one for each core of the task.

    Without it, they start one for each core of the machine. What starts several processes in a task decides by itself.
    """
    several = component.framework is not None and component.framework.kind.several
    cores = -(-component.resources.cpu // 1000)
    return {"OMP_NUM_THREADS": str(cores)} if cores and not several else {}
