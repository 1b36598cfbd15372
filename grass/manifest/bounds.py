"""Bounds of a document, checked before anything in it is read, so that a hostile one does not cause unbounded work."""

from __future__ import annotations

from typing import Any

from grass.manifest.document import MAX_DEPTH, MAX_VALUES
from grass.manifest.fields import Problems

MAX_KEYS = 5_000
"""Keys of one mapping. The largest real ones are environments and quotas by user."""


def check_bounds(document: Any, problems: Problems) -> None:
    """Raise ManifestError for a document with too many values or keys, or one nested too deep.

    The reader of files has similar bounds; a document in the body of a request comes unchecked."""
    count = 0
    level = [document]
    for _ in range(MAX_DEPTH + 2):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                if len(value) > MAX_KEYS:
                    problems.add("", f"has a mapping with {len(value):,} keys; the most is {MAX_KEYS:,}")
                    problems.check()
                inner.extend(value.values())
            elif isinstance(value, (list, tuple)):
                inner.extend(value)
            if count + len(inner) > MAX_VALUES:
                problems.add("", f"has more than {MAX_VALUES:,} values")
                problems.check()
        if not inner:
            return
        count += len(inner)
        level = inner
    problems.add("", f"is nested more than {MAX_DEPTH} levels deep")
    problems.check()
