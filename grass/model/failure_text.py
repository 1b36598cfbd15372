"""How a task ended, in words, and such texts without what the task itself said of why. Pure.

Used by ``master.agent.failures`` and ``grass.dashboard.app``.
"""

from __future__ import annotations

import re
from typing import Any

_SHELL_SIGNAL = 128
_WORDS = {
    1: ("SIGHUP", "its terminal was closed"),
    2: ("SIGINT", "interrupted"),
    3: ("SIGQUIT", "quit"),
    4: ("SIGILL", "illegal instruction"),
    6: ("SIGABRT", "aborted by itself"),
    7: ("SIGBUS", "bus error: memory that is not there"),
    8: ("SIGFPE", "arithmetic error"),
    9: ("SIGKILL", "killed"),
    10: ("SIGUSR1", "not handled by the program"),
    11: ("SIGSEGV", "segmentation fault"),
    12: ("SIGUSR2", "not handled by the program"),
    13: ("SIGPIPE", "wrote to a pipe that nobody reads"),
    14: ("SIGALRM", "its alarm went off"),
    15: ("SIGTERM", "terminated"),
    24: ("SIGXCPU", "used more CPU time than its limit"),
    25: ("SIGXFSZ", "wrote a larger file than its limit"),
    31: ("SIGSYS", "forbidden system call"),
}
"""Number of a signal of Linux → its name, and what it means to a task that it ended."""
_BEFORE_CAUSE = re.compile(
    r"(?:ended (?:with exit code \d+|by signal \w+)(?: \([^()]*\))?|killed by the kernel|killed, but not by Grass)(.*)",
    re.DOTALL,
)


def by_code(code: int) -> str:
    """Return how a task ended with this exit code. A shell adds 128 to the signal that ended its last program."""
    name, words = _WORDS.get(code - _SHELL_SIGNAL, ("", ""))
    return f"ended with exit code {code}" + (f" ({name}: {words})" if name else "")


def by_signal(number: int, *further: str) -> str:
    name, words = _WORDS.get(number, (str(number), ""))
    notes = "; ".join(each for each in (words, *further) if each)
    return f"ended by signal {name}" + (f" ({notes})" if notes else "")


def without_causes(view: Any) -> Any:  # Any: JSON
    """Return a view for readers who may not see what tasks print: without causes, and without values in common."""
    match view:
        case str():
            found = _BEFORE_CAUSE.search(view)
            return view if found is None else view[: found.start(1)]
        case dict():
            return {name: without_causes(each) for name, each in view.items() if name not in ("error", "common")}
        case list() | tuple():
            return [without_causes(each) for each in view]
        case _:
            return view
