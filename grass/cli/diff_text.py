"""Write the differences between two runs in words, grouped: equal ones of many tasks are one line. Pure.

Used by ``job_diff``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grass.cli.job_diff import Difference

_TITLES = {"specification": "job file", "result": "result", "seconds": "result", "nodes": "nodes", "tasks": "tasks"}
_MOST_TASKS = 3
"""Tasks of a group that are shown with their values."""
_MOST_NAMES = 6
_MOST_TEXT = 160
"""Characters of one value."""
_DIGEST = "sha256:"


def in_words(first: str, second: str, found: Sequence[Difference]) -> list[str]:
    """Return lines for people. ``first``, ``second``: what the runs are called."""
    sections: dict[str, list[Difference]] = {}
    for path, one, other in found:
        head, _, rest = path.partition(".")
        sections.setdefault(_TITLES.get(head, head), []).append((rest or head, one, other))
    said = [f"{first} → {second}"]
    for title, differences in sections.items():
        said.append(f"{title}:")
        if title == "tasks":
            said += [f"  {line}" for line in _tasks(first, second, differences)]
        else:
            named = [(path.removeprefix("components."), one, other) for path, one, other in differences]
            width = max(len(name) for name, _, _ in named)
            said += [f"  {name:{width}}  {_change(first, second, one, other)}" for name, one, other in named]
    return said


def _change(first: str, second: str, one: object, other: object) -> str:
    if one is None or other is None:
        return f"only in {first if other is None else second}: {_text(one if other is None else other)}"
    if str(one).startswith(_DIGEST) and str(other).startswith(_DIGEST):
        return "the content differs"
    names = _changed_variables(one, other)
    return f"differs in {', '.join(names)}" if names else f"{_text(one)} → {_text(other)}"


def _changed_variables(one: object, other: object) -> list[str]:
    """Return the names whose values differ, of two lists of (name, value); empty: they are something else."""
    sides = []
    for side in (one, other):
        if not isinstance(side, Sequence) or isinstance(side, str):
            return []
        if not all(isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in side):
            return []
        sides.append({str(name): value for name, value in side})
    before, after = sides
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {_text(each)}" for name, each in value.items() if each is not None)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        text = ", ".join(map(_text, value))
    else:
        text = str(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _tasks(first: str, second: str, found: Sequence[Difference]) -> list[str]:
    """Return one line for each field that differs, with how many tasks that are, and those that only one run has."""
    alone: dict[str, list[str]] = {}
    fields: dict[str, list[tuple[str, object, object]]] = {}
    for path, one, other in found:
        component, index, *rest = path.split(".", 2)
        task = f"{component}.{index}"
        if rest:
            fields.setdefault(rest[0], []).append((task, one, other))
        else:
            alone.setdefault(first if other is None else second, []).append(task)
    said = []
    for name, differences in fields.items():
        some = [f"{task} {_text(one)} → {_text(other)}" for task, one, other in differences[:_MOST_TASKS]]
        more = ", …" if len(differences) > len(some) else ""
        said.append(f"{name} differs in {_count(differences)}: {', '.join(some)}{more}")
    for side, tasks in alone.items():
        more = ", …" if len(tasks) > _MOST_NAMES else ""
        said.append(f"{_count(tasks)} only in {side}: {', '.join(tasks[:_MOST_NAMES])}{more}")
    return said


def _count(tasks: Sequence[object]) -> str:
    return "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
