"""The combinations of a component's ``matrix``, computed by index and never all in memory. Pure.

Used by the manifest (their number), by the node (the environment of a task) and by `grass job plan`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from grass.model.task_variables import word

Matrix = Mapping[str, Sequence[str]]
"""Name → values, in the order of the file."""


def combinations(matrix: Matrix) -> int:
    """Return the number of combinations, which is the number of tasks."""
    return math.prod(len(choices) for choices in matrix.values())


def combination(matrix: Matrix, index: int) -> dict[str, str]:
    """Return the ``index``-th combination (from 0), name → value; the last name varies fastest."""
    chosen: dict[str, str] = {}
    for name in reversed(list(matrix)):
        choices = matrix[name]
        index, choice = divmod(index, len(choices))
        chosen[name] = choices[choice]
    return {name: chosen[name] for name in matrix}


def all_combinations(matrix: Matrix) -> Iterator[dict[str, str]]:
    """Yield each combination, in the order of their indexes: faster than one after another by its index."""
    for chosen in product(*matrix.values()):
        yield dict(zip(matrix, chosen, strict=True))


def variable(name: str) -> str:
    """Return the variable's name with the prefix of Grass: ``GRASS_MATRIX_LR``."""
    return "GRASS_MATRIX_" + word(name)


def environment(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a task with these values: each by its own name and by ``variable``."""
    return {**chosen, **{variable(name): value for name, value in chosen.items()}}
