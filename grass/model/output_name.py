"""The names of the files that `output: {file: …}` gives to the output of tasks. Pure.

``train-{index}.log`` is a pattern; what is in braces is replaced for each task. Used by
``grass.manifest.output_names``, which refuses what cannot be a path, and by ``grass.api.output_files``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from grass.model.job import Component

WORDS = ("job", "component", "index", "attempt", "entry")
_BRACES = re.compile(r"\{([a-z]+)\}")


def words_of(pattern: str) -> list[str]:
    """Return what is to be replaced in a pattern, in its order."""
    return _BRACES.findall(pattern)


def rest_of(pattern: str) -> str:
    """Return a pattern without what is to be replaced."""
    return _BRACES.sub("", pattern)


def namer(pattern: str, job: str, part: Component) -> Callable[[int, int | str], str]:
    """Return what makes the path of a file from index and attempt of a task."""
    pieces = _BRACES.split(pattern)  # text, word, text, …

    def name(index: int, attempt: int | str) -> str:
        entry = part.entries[index] if index < len(part.entries) else ""
        known = {"job": job, "component": part.name, "index": index, "attempt": attempt, "entry": entry}
        return "".join(str(known[piece]) if place % 2 else piece for place, piece in enumerate(pieces))

    return name
