"""Entry point of the `grass` program. Handles Ctrl-C and TERM while the other modules are still being imported.

Called by the installed program (``pyproject.toml``).
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # False: SIGINT is ignored (nohup)
    ends = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if listens:
        signal.signal(signal.SIGINT, _interrupted)
    if ends:
        signal.signal(signal.SIGTERM, _interrupted)
    from grass.cli import main as grass

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if ends:
        signal.signal(signal.SIGTERM, grass.on_term)
    grass.main()


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Exit at once. An exception would print a traceback of the interrupted import; nothing needs cleaning up yet."""
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)
