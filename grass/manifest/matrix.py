"""Reads ``matrix`` in a native job file: one task per combination of values. Never builds the combinations.

Used by ``elastic`` and ``native``.
"""

from __future__ import annotations

from typing import Any

from grass.manifest import values
from grass.manifest.fields import Fields
from grass.manifest.values import show

MAX_TASKS = 100_000
_COUNTED = 10**15
"""Combinations are counted up to this number, for the message."""


def read_matrix(fields: Fields, env: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return name → values. ``read_replicas`` checks the number of combinations."""
    section = fields.section("matrix")
    if section is None:
        return {}
    matrix = {name: _different_values(section, items) for name, items in read_variables(section, env).items()}
    if not section.problems.found and not matrix:
        section.problems.add(section.path, "must not be empty; use `replicas` instead")
    return matrix


def read_variables(section: Fields | None, env: dict[str, str]) -> dict[str, list[tuple[str, Any]]]:
    """Return variable → its values, each with its path. Neither may be empty, or a variable be in ``env`` as well."""
    found: dict[str, list[tuple[str, Any]]] = {}
    upper: dict[str, str] = {}
    if section is None:
        return found
    for name, content in section.entries():
        path = section.at(name)
        if not section.parsed(path, values.task_variable, name, ""):
            continue
        if name in env:
            section.problems.add(path, "is also under `env`; keep one")
        other = upper.setdefault(name.upper(), name)
        if other != name:
            section.problems.add(path, f"differs from `{other}` only in case")
        if not isinstance(content, (list, tuple)) or not content:
            section.problems.add(path, f"must be a list of values, got {show(content) if content != [] else 'none'}")
            continue
        found[name] = [(f"{path}[{index}]", item) for index, item in enumerate(content)]
    return found


def _different_values(section: Fields, items: list[tuple[str, Any]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for where, item in items:
        text = section.parsed(where, values.scalar_text, item, None)
        if text is None:
            continue
        if text in found:
            section.problems.add(where, f"the value {show(item)} appears twice")
        found[text] = None
    return tuple(found)


def read_replicas(fields: Fields, matrix: dict[str, tuple[str, ...]], rows: int) -> int:
    """Return the number of tasks: that of the combinations of ``matrix``, or of what ``from`` has."""
    said = fields.read("replicas", values.whole(1, MAX_TASKS), None)
    if rows:
        if said not in (None, rows):
            fields.problems.add(fields.at("replicas"), f"must be {rows}, one for each entry, or left out")
        return rows
    made = 1
    for choices in matrix.values():
        made *= len(choices)
        if made > _COUNTED:
            break
    if made > MAX_TASKS:
        count = f"more than {_COUNTED:,}" if made > _COUNTED else f"{made:,}"
        fields.problems.add(fields.at("matrix"), f"must make at most {MAX_TASKS:,} combinations, got {count}")
        return 1
    if said is not None and made and said != made:
        fields.problems.add(
            fields.at("replicas"), f"must be {made}, one for each combination of `matrix`, or left out; got {said}"
        )
    return made or 1
