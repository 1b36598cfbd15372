"""Names of sizes of machines on Azure, in the settings. Used by ``azure``, ``azure_autoscale`` and ``azure_images``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from grass.manifest.fields import Fields
from grass.manifest.values import Wrong, show

_SIZE = re.compile(r"[A-Za-z0-9_-]{2,60}")


def size_name(value: Any) -> str:
    if not isinstance(value, str) or not _SIZE.fullmatch(value):
        raise Wrong(f"must be a size such as Standard_D2s_v3, got {show(value)}")
    return value


def by_size(fields: Fields) -> Iterator[tuple[str, Fields]]:
    """Yield the parts of ``sizes``, each with its size, whose ``Standard_`` may be left out."""
    for path, name, value in fields.named("sizes"):
        if size := fields.parsed(path, size_name, name, ""):
            part = Fields(value, path, fields.problems)
            yield size if size.lower().startswith("standard_") else f"Standard_{size}", part
            part.done()
