"""What a task reports of itself: ``grass.report(step=100, loss=0.53)``, ``grass.log_params(lr=0.1)``. May be copied; it
needs nothing else.

A figure is a line on standard output, ``GRASS_METRIC loss=0.53 step=100``, which the node finds in the task's output. A
program without this file may print the line itself. Parameters are a JSON object: ``GRASS_METRIC {"lr": "0.1"}``.
Outside of Grass it is just a line. Where the node has a socket for figures (``GRASS_FIGURES``), the line goes there
instead, and not into the log. Used by programs of users, and by the node-agent, which reads the lines.

The first report also lets the node ask for the stacks of the program's threads (`grass job stacks`), where py-spy may
not look into it: ``faulthandler`` writes them at a signal that programs do not use, into a file in memory.
"""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import sys
import time
from typing import SupportsFloat

FIGURE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}")

MOST_PARAMETERS = 50
"""Names that one attempt of a task may have."""
LONGEST_PARAMETER = 200
"""Characters of its value."""

STACKS_FILE = "grass-stacks"
STACKS_SIGNAL = 41
"""A real-time signal of Linux, by its number: C libraries count these from different ones."""
_MOST_SENT = 4096
"""Characters of a line that is sent; a longer one is printed."""
_PATIENCE = 1.0
"""Seconds that a report waits for the node, and then ``_AWAY`` seconds in which reports are printed."""
_AWAY = 30.0
_asked_before = False
_away_until = 0.0
_parameters: set[str] = set()


def report(step: SupportsFloat | None = None, **figures: SupportsFloat) -> None:
    """Report numbers, which are shown as curves over ``step`` (None: the number of the report, from 0).

    NaN and infinities are counted and shown, but are no points of curves. Raises ValueError for a figure that is not a
    number, a step that is not finite, or a name with other characters than letters, digits and ``_ . / -``. Such names
    can be passed as ``report(**{"val/loss": 0.5})``.
    """
    words = [f"{_name(name, 'report')}={_number(name, figure)!r}" for name, figure in figures.items()]
    if not words:
        raise ValueError("report: name at least one figure, such as loss=0.5")
    if step is not None:
        number = _number("step", step)
        if not math.isfinite(number):
            raise ValueError(f"report: step must be a finite number, got {step!r}")
        words.append(f"step={number!r}")
    _answer_for_stacks()
    _say(" ".join(words))


def log_params(**parameters: object) -> None:
    """Say parameters of this task, which are columns of `grass job results`. Of a name, the newest value counts.

    A value is kept as text, up to 200 characters; a longer one is cut. Raises ValueError for more than 50 names of this
    process, and for a name that ``report`` does not take, either; then nothing is said.
    """
    import json

    names = _parameters | {_name(name, "log_params") for name in parameters}
    if len(names) > MOST_PARAMETERS:
        raise ValueError(f"log_params: at most {MOST_PARAMETERS} names, got {len(names)}")
    _parameters.update(names)
    for name, value in parameters.items():
        text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
        _say(json.dumps({name: text if len(text) <= LONGEST_PARAMETER else f"{text[: LONGEST_PARAMETER - 1]}…"}))


def _say(words: str) -> None:
    line = f"GRASS_METRIC {words}"
    if not _sent(line):
        print(line, file=sys.__stdout__, flush=True)  # not sys.stdout: a program may have replaced it to capture output


def _sent(line: str) -> bool:
    """Send the line to the node. Return False if it takes none: it does not answer, or there is no socket."""
    global _away_until
    path, names = os.environ.get("GRASS_FIGURES"), ("GRASS_JOB_ID", "GRASS_COMPONENT", "GRASS_INDEX", "GRASS_ATTEMPT")
    job, component, index, attempt = (os.environ.get(name, "") for name in names)
    if not path or not attempt or len(line) > _MOST_SENT or time.monotonic() < _away_until:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(_PATIENCE)  # waiting keeps the order: a printed line arrives later
            channel.sendto(f"{job}/{component}.{index}/{attempt}\n{line}".encode(), path)
    except (AttributeError, OSError):  # another system has no such sockets
        _away_until = time.monotonic() + _AWAY
        return False
    return True


def _name(name: str, of: str) -> str:
    if not FIGURE_NAME.fullmatch(name):
        raise ValueError(f"{of}: {name!r} is not a name; use up to 64 letters, digits and _ . / -")
    return name


def _number(name: str, figure: SupportsFloat) -> float:
    try:
        return float(figure)
    except OverflowError:  # a larger int
        return math.inf
    except (TypeError, ValueError):
        raise ValueError(f"report: {name} must be a number, got {figure!r}") from None


def _answer_for_stacks() -> None:
    """Answer the node's signal from now on. Where that is not possible, or the program uses it, nothing happens."""
    global _asked_before
    if _asked_before:
        return
    _asked_before = True
    import faulthandler
    import fcntl

    try:
        if signal.getsignal(STACKS_SIGNAL) is signal.SIG_DFL:
            file = os.memfd_create(STACKS_FILE)
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
            faulthandler.register(STACKS_SIGNAL, file)
    except (AttributeError, OSError, ValueError):  # another system, or no descriptor is left
        return
