"""Plain data out of what Python programs pass: numpy numbers, paths, tuples. Pure.

Used by ``client`` for jobs, and by ``transport`` for the other arguments of calls.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grass.manifest.document import Document  # its package reads every key of a job: no call of the CLI needs that

_DEEPEST = 64


def plain_mapping(document: Mapping[str, Any]) -> Document:
    """Return the document as dicts, lists, text, numbers. What is none of these stays, for the readers to report."""
    return {key: _plain(value, _DEEPEST) for key, value in document.items()}


def plain_scalar(value: Any) -> Any:
    """Return a number of numpy as one of Python, and a path as text. Other values stay."""
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
