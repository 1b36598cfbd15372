"""Removal of a folder with all that is in it, while other processes still make or remove files there.

Used by ``grass.files.share``, ``grass.provision`` and ``grass.provision.on_premises``.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from grass.system import clock

_PATIENCE = 10.0
"""Seconds for which another process may go on to make files."""

_Problem = tuple[type[BaseException], BaseException, TracebackType]


def remove_tree(folder: Path) -> None:
    """Remove a folder. Nothing happens if there is none.

    What another process removed first is no error. What it makes meanwhile is removed, too. Raises OSError.
    """
    until = clock.steady() + _PATIENCE
    while os.path.lexists(folder):
        shutil.rmtree(folder, onerror=_unless_filled if clock.steady() < until else _unless_gone)


def _unless_gone(_: Callable[..., object], path: str, problem: _Problem) -> None:
    if not isinstance(problem[1], FileNotFoundError):
        raise problem[1]


def _unless_filled(function: Callable[..., object], path: str, problem: _Problem) -> None:
    if not (isinstance(problem[1], OSError) and problem[1].errno == errno.ENOTEMPTY):
        _unless_gone(function, path, problem)
