"""The combinations of a component's ``matrix``, by index: never built as a whole, so their number costs nothing. Pure.

Used by the manifest (how many), by the node (the environment of one task) and by `grass job plan`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

Matrix = Mapping[str, Sequence[str]]
"""Name → values, in the order of the file."""


def combinations(matrix: Matrix) -> int:
    """How many tasks a matrix makes: the product of the numbers of values."""
    return math.prod(len(choices) for choices in matrix.values())


def combination(matrix: Matrix, index: int) -> dict[str, str]:
    """The ``index``-th combination (from 0), name → value; the last name varies fastest."""
    chosen: dict[str, str] = {}
    for name in reversed(list(matrix)):
        choices = matrix[name]
        index, place = divmod(index, len(choices))
        chosen[name] = choices[place]
    return {name: chosen[name] for name in matrix}


def variable(name: str) -> str:
    """What a value is called beside its own name: ``GRASS_MATRIX_LR``."""
    return "GRASS_MATRIX_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def environment(matrix: Matrix, index: int) -> dict[str, str]:
    """What the task of that index sees: each value by its name as given, and by ``variable``."""
    chosen = combination(matrix, index)
    return {**chosen, **{variable(name): value for name, value in chosen.items()}}
