"""Figures that a task reports of itself: ``grass.report(step=100, loss=0.53)``. May be copied; it needs nothing else.

A figure is a line on standard output, ``GRASS_METRIC loss=0.53 step=100``, which the node finds in the task's output. A
program without this file may print the line itself. Outside of Grass it is just a line. Used by programs of users, and
by the node-agent, which reads the lines.

The first report also lets the node ask for the stacks of the program's threads (`grass job stacks`), where py-spy may
not look into it: ``faulthandler`` writes them at a signal that programs do not use, into a file in memory.
"""

from __future__ import annotations

import math
import re
import signal
import sys
from typing import SupportsFloat

FIGURE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}")

STACKS_FILE = "grass-stacks"
STACKS_SIGNAL = 41
"""A real-time signal of Linux, by its number: C libraries count these from different ones."""
_asked_before = False


def report(step: SupportsFloat | None = None, **figures: SupportsFloat) -> None:
    """Report numbers, which are shown as curves over ``step`` (None: the number of the report, from 0).

    Raises ValueError for a figure that is not a finite number, or a name with other characters than letters, digits and
    ``_ . / -``. Such names can be passed as ``report(**{"val/loss": 0.5})``.
    """
    words = [_word(name, figure) for name, figure in figures.items()]
    if not words:
        raise ValueError("report: name at least one figure, such as loss=0.5")
    if step is not None:
        words.append(_word("step", step))
    _answer_for_stacks()
    # not sys.stdout: a program may have replaced it to capture output
    print("GRASS_METRIC", *words, file=sys.__stdout__, flush=True)


def _word(name: str, figure: SupportsFloat) -> str:
    if not FIGURE_NAME.fullmatch(name):
        raise ValueError(f"report: {name!r} is not a name; use up to 64 letters, digits and _ . / -")
    try:
        value = float(figure)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"report: {name} must be a finite number, got {figure!r}")
    return f"{name}={value!r}"


def _answer_for_stacks() -> None:
    """Answer the node's signal from now on. Where that is not possible, or the program uses it, nothing happens."""
    global _asked_before
    if _asked_before:
        return
    _asked_before = True
    import faulthandler
    import fcntl
    import os

    try:
        if signal.getsignal(STACKS_SIGNAL) is signal.SIG_DFL:
            file = os.memfd_create(STACKS_FILE)
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
            faulthandler.register(STACKS_SIGNAL, file)
    except (AttributeError, OSError, ValueError):  # another system, or no descriptor is left
        return
