"""Checks the bounds of a document before reading its values, so that a hostile document causes no unbounded work.

Used by this package and ``grass.manifest.foreign``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grass.manifest.document import MAX_DEPTH, MAX_VALUES, join
from grass.manifest.fields import Problems

MAX_KEYS = 5_000
"""Most keys of one mapping. The largest real mappings are environments and quotas by user."""


def check_bounds(document: Any, problems: Problems) -> None:
    """Raise ManifestError for a document with too many values or keys, or with too deep nesting.

    The reader of files has similar bounds; a document in the body of a request arrives unchecked.
    """
    count, level = 0, [("", document)]
    for _ in range(MAX_DEPTH + 2):
        inner: list[tuple[str, Any]] = []
        for path, value in level:
            if isinstance(value, (dict, list, tuple)):
                if count + len(value) > MAX_VALUES:
                    _refuse(problems, "", f"has more than {MAX_VALUES:,} values")
                if isinstance(value, dict) and len(value) > MAX_KEYS:
                    _refuse(problems, path, f"has {len(value):,} keys; the most is {MAX_KEYS:,}")
                inner += _containers(path, value)
                count += len(value)
        if not inner:
            return
        level = inner
    _refuse(problems, "", f"is nested more than {MAX_DEPTH} levels deep")


def _containers(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the mappings and lists directly in ``value``, with their paths."""
    if isinstance(value, dict):
        yield from (
            (join(path, str(key)), item) for key, item in value.items() if isinstance(item, (dict, list, tuple))
        )
    else:
        yield from ((f"{path}[{at}]", item) for at, item in enumerate(value) if isinstance(item, (dict, list, tuple)))


def _refuse(problems: Problems, path: str, message: str) -> None:
    problems.add(path, message)
    problems.check()
