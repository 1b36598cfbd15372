"""Data files that an installed Grass carries: ``templates/``, and copies of ``deploy/`` and ``examples/``.

In a checkout the last two lie at its top, where people look for them; the build of a wheel (``setup.py``) puts
them in here.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shared(relative: str) -> Path:
    """The path of a data file or folder, such as ``deploy/redis/redis.conf``, installed or in a checkout."""
    installed = _PACKAGE / relative
    return installed if installed.exists() else _PACKAGE.parents[1] / relative
