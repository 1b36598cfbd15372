"""Entry point of the `grass` program: what has to be done before the other modules are imported.

The folders of ``PYTHONPATH`` are for the user's programs. A ``click.py`` or ``redis.py`` there must not be imported in
place of the package that Grass needs. Ctrl-C and TERM must not print a traceback of an interrupted import.

Called by the installed program (``pyproject.toml``).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> NoReturn:
    installed_first()
    import signal

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


def installed_first() -> None:
    """Search the standard library and installed packages before the folders that Python puts in front of them.

    These are the folder of the program, or the current one, and those of ``PYTHONPATH``. A folder with Grass itself
    keeps its place. The others come last: a package that is only there is found.
    """
    grass = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 pathlib imports much
    standard = os.path.dirname(os.__file__)  # noqa: PTH120
    if standard in sys.path:
        before = sys.path[: sys.path.index(standard)]
        kept = [folder for folder in before if folder == grass]
        later = [folder for folder in before if folder != grass]
        sys.path[:] = kept + sys.path[len(before) :] + later


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Exit at once. An exception would print a traceback of the interrupted import; nothing needs cleaning up yet."""
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)


if __name__ == "__main__":  # as `at_boot` starts it
    main()
