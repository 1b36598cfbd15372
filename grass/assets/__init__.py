"""Data files of an installed Grass: ``templates/``, and copies of ``deploy/`` and ``examples/``.

In a checkout, the last two are at its top level. The build of a wheel (``setup.py``) copies them here.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def asset(relative: str) -> Path:
    """Return the path of a data file or folder, such as ``deploy/redis/redis.conf``, installed or in a checkout."""
    installed = _PACKAGE / relative
    return installed if installed.exists() else _PACKAGE.parents[1] / relative
