"""What distinguishes the tasks of an array, and what those have in common that failed alike. Pure.

Used by ``master.agent``, ``master.api``, ``node.agent.environment`` and ``grass.manifest.export.pod_variables``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from grass.model import matrix
from grass.model.job import Component
from grass.model.matrix import all_combinations, combination, combinations
from grass.model.reasons import Reason, ReasonCode

_MOST_SHOWN = 4
_MOST_VALUE = 40
"""Characters of a value in a sentence."""
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def values_of(component: Component, index: int) -> dict[str, str]:
    """Return the task's combination of `matrix`, or its row of `from`, or its entry as `entry`."""
    found = named_values(component, index)
    if not found and index < len(component.entries):
        return {"entry": component.entries[index]}
    return found


def values_of_all(component: Component, indexes: Sequence[int]) -> Iterator[dict[str, str]]:
    """Yield ``values_of`` each of these indexes, which are in order."""
    if indexes != range(combinations(component.matrix)):  # of tasks that were added or removed, or without a matrix
        yield from (values_of(component, index) for index in indexes)
    else:
        yield from all_combinations(component.matrix)


def named_values(component: Component, index: int) -> dict[str, str]:
    """Return the variables of the job file that differ from task to task, as the task with that index has them."""
    if component.matrix:
        return combination(component.matrix, index) if index < combinations(component.matrix) else {}
    return {name: values[index] for name, values in component.columns.items() if index < len(values)}


def environment(component: Component, index: int) -> dict[str, str]:
    """Return the variables with which the task finds what is its own."""
    found = matrix.environment(named_values(component, index))
    return {**found, "GRASS_ENTRY": component.entries[index]} if component.entries else found


def in_common(component: Component, indexes: Collection[int]) -> str:
    """Return which values that differ within the component are the same in all of these tasks: ``lr=0.3, seed=1``."""
    shared: dict[str, str] | None = None
    for index in indexes:
        values = values_of(component, index)
        shared = values if shared is None else {name: text for name, text in shared.items() if values.get(name) == text}
        if not shared:
            return ""
    varied = {**component.matrix, **component.columns}
    found = {name: text for name, text in (shared or {}).items() if len(set(varied.get(name, (0, 1)))) > 1}
    return ", ".join(f"{name}={text[:_MOST_VALUE]}" for name, text in [*found.items()][:_MOST_SHOWN])


def alike(reason: Reason | None) -> tuple[ReasonCode, str] | None:
    """Return the same for reasons that differ only in numbers, such as a step or an address."""
    return None if reason is None else (reason.code, _NUMBER.sub("#", reason.message))
