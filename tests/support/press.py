"""A terminal with somebody in front of it: ``python press.py TEXT KEYS COMMAND…``.

Runs the command, waits until it has printed TEXT, presses KEYS, and ends with its exit code.
"""

from __future__ import annotations

import os
import pty
import signal
import sys
from contextlib import suppress

KEYS = {"ctrl-c": "\x03"}


def press(text: str, keys: str, command: list[str]) -> int:
    child, ours = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as at a terminal, also where the tests run in the background
        os.execvp(command[0], command)
    shown, pressed = "", False
    with suppress(OSError):  # how the end of a terminal shows on Linux
        while piece := os.read(ours, 65536).decode(errors="replace"):
            print(piece, end="", flush=True)
            shown += piece
            if text in shown and not pressed:
                os.write(ours, KEYS.get(keys, keys).encode())
                pressed = True
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(press(sys.argv[1], sys.argv[2], sys.argv[3:]))
