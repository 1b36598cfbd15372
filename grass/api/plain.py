"""Turn what Python programs pass (numpy numbers, paths, tuples) into plain data. Pure.

Used by ``client`` for jobs, and by ``transport`` for the other arguments of calls.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grass.manifest.document import Document  # slow to import, and no call of the CLI needs it

_DEEPEST = 64
"""Deeper levels stay as they are, so that a document that contains itself ends, too."""


def plain_mapping(document: Mapping[str, Any]) -> Document:  # Any: what a user passes
    """Return the document as dicts, lists, text and numbers. Other values stay: the document's readers report them."""
    return {key: _plain(value, _DEEPEST) for key, value in document.items()}


def plain_scalar(value: Any) -> Any:
    """Return a numpy number as a Python number, and a path as text. Other values stay."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    return value


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (str, bool, int, float)) or depth == 0:
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth - 1) for item in value]
    return plain_scalar(value)
