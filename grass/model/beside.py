"""Programs of a task that only holds resources for a command beside it. Pure.

Used by ``grass.cli.run``, ``grass.api.check_session`` and ``master.api.node_checks``.
"""

from __future__ import annotations

_FIFO = '"${GRASS_SCRATCH:-/tmp}/.interactive"'
_MADE = f"for i in 1 2 3 4 5 6 7 8 9 10; do [ -p {_FIFO} ] && break; sleep 0.5; done"
"""The task may have begun only now."""
INSIDE = ("/bin/sh", "-c", f'{_MADE}; exec 9> {_FIFO} && trap : INT QUIT && "$@" 9>&-', "sh")
"""What goes before the command. The shell survives a Ctrl-C that the command survives."""


def holder(stays: int = 0) -> tuple[str, ...]:
    """Return what the task runs. It ends once nothing has the FIFO open: with the command that runs beside it, also if
    that is killed because its client or the connection is gone; or after 30 s if no command came.

    ``stays``: seconds until it ends after that."""
    last = f"cat {_FIFO}; sleep {stays}" if stays else f"exec cat {_FIFO}"
    return ("/bin/sh", "-c", f"mkfifo {_FIFO} && {{ (sleep 30; : > {_FIFO}) & {last}; }}")
