"""Tells documents of other systems from Grass's own. Cheap to import, because every submission asks. Pure.

Used by ``grass.api.document_data`` and ``grass.manifest.job``.
"""

from __future__ import annotations

from typing import Any

MARKS = ("apiVersion", "kind")
"""Keys of every foreign document, and of no other."""


def is_foreign(document: Any) -> bool:
    """Return whether the document is one of another system: these have `apiVersion` and `kind`, Grass's never do."""
    return isinstance(document, dict) and any(key in document for key in MARKS)
