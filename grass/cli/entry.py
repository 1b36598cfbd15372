"""Entry point of `grass`. Handles Ctrl-C while the rest is being imported."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it was told to ignore it (nohup)
    if listens:
        signal.signal(signal.SIGINT, _interrupted)
    from grass.cli import main as grass

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    grass.main()


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """An exception would be the traceback of whichever import it met; nothing has begun that must be ended."""
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)
