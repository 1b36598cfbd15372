"""Keeps the command line of a process as it was started: ``grass.supervision.processes`` knows daemons by it.

Used by the entry points of the API servers.
"""

from __future__ import annotations

import sys


def keep_command_line() -> None:
    """Let no library import the package ``setproctitle``, which overwrites the command line as soon as it is imported.

    gunicorn imports it wherever it is installed, for example as a dependency of the user's own programs.
    """
    sys.modules["setproctitle"] = None  # type: ignore[assignment]
