"""What a task reports of itself: ``grass.report(step=100, loss=0.53)``, ``grass.log_params(lr=0.1)``. May be copied; it
needs nothing else.

A figure is a line on standard output, ``GRASS_METRIC loss=0.53 step=100``, which the node finds in the task's output. A
program without this file may print the line itself. Parameters are a JSON object: ``GRASS_METRIC {"lr": "0.1"}``. Text
and files are a JSON list: ``GRASS_METRIC [{"name": "sample", "step": 3, "text": "once"}]``. A file is first copied into
the folder ``reported/`` of the task's output; the line has its name there.
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
from typing import Protocol, SupportsFloat, cast

FIGURE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,63}")

MOST_PARAMETERS = 50
"""Names that one attempt of a task may have."""
LONGEST_PARAMETER = 200
"""Characters of its value."""

LONGEST_TEXT = 2_000
"""Characters of a text that is reported; a longer one is cut."""
SUFFIXES = {
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "webp"), "picture"),
    **dict.fromkeys(("csv", "tsv"), "table"),
    **dict.fromkeys(("svg", "html", "pdf"), "file"),
}
"""Suffix of a file that may be reported → what it is. Nothing shows a ``file``: it can be downloaded."""
REPORTED = "reported"
"""Folder of the output for files that are reported; in it, one for each task."""
MOST_BYTES = 8 << 20
"""Bytes of one such file."""
MOST_FILES, MOST_OF_TASK = 1_000, 128 << 20
"""Files of one task, and their bytes."""

STACKS_FILE = "grass-stacks"
STACKS_SIGNAL = 41
"""A real-time signal of Linux, by its number: C libraries count these from different ones."""
_MOST_SENT = 8192
"""Bytes that are sent at a time; a longer line is printed."""
_PATIENCE = 1.0
"""Seconds that a report waits for the node, and then ``_AWAY`` seconds in which reports are printed."""
_AWAY = 30.0
_asked_before = False
_away_until = 0.0
_parameters: set[str] = set()
_numbers: dict[str, int] = {}
"""Name of a text or a file → how often it was reported."""


class PathLike(Protocol):
    """A path, such as ``pathlib.Path("plot.png")``."""

    def __fspath__(self) -> str: ...


def report(step: SupportsFloat | None = None, **figures: SupportsFloat | str | PathLike) -> None:
    """Report numbers, texts and files. Numbers are curves over ``step`` (None: the number of the report, from 0).

    A ``str`` is a text: its first 2,000 characters are kept. A ``pathlib.Path`` is a picture (png, jpg, gif, webp), a
    table (csv, tsv), or a file to download (svg, html, pdf). It is copied to ``reported/`` in the task's output: 8 MiB
    of one file, and 128 MiB and 1,000 files of one task. Beyond that, the task's log says so, and the program goes on.

    NaN and infinities are counted and shown, but are no points of curves. Raises ValueError for a figure that is not a
    number, a step that is not finite, a file of another kind, or a name with other characters than letters, digits and
    ``_ . / -``; such names can be passed as ``report(**{"val/loss": 0.5})``. Raises OSError for a file that cannot be
    read. Then nothing is reported.
    """
    media = {name: each for name, each in figures.items() if isinstance(each, str) or hasattr(each, "__fspath__")}
    numbers = {name: cast(SupportsFloat, each) for name, each in figures.items() if name not in media}
    words = [f"{_name(name, 'report')}={_number(name, figure)!r}" for name, figure in numbers.items()]
    if not figures:
        raise ValueError("report: name at least one figure, such as loss=0.5")
    if step is not None:
        number = _number("step", step)
        if not math.isfinite(number):
            raise ValueError(f"report: step must be a finite number, got {step!r}")
        words.append(f"step={number!r}")
    texts = {_name(name, "report"): each for name, each in media.items() if isinstance(each, str)}
    files = {_name(name, "report"): _checked(name, each) for name, each in media.items() if name not in texts}
    _answer_for_stacks()
    if numbers:
        _say(" ".join(words))
    for name in media:
        count = _numbers[name] = _numbers.get(name, -1) + 1
        at = count if step is None else _number("step", step)
        said = {"text": _plain(texts[name])} if name in texts else _kept(name, at, *files[name])
        _say_as_json([{"name": name, "step": at, **said}])


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


def _plain(text: str) -> str:
    """Return as much of a text as is kept, without what is no character."""
    shown = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    return shown.encode(errors="replace").decode()


def _checked(name: str, path: object) -> tuple[str, str]:
    """Return a path and its suffix. Raises ValueError: it is of no kind that can be reported; OSError."""
    import stat

    file = os.fspath(cast("PathLike", path))
    suffix = os.path.splitext(file)[1][1:].lower() if isinstance(file, str) else ""
    if suffix not in SUFFIXES:
        raise ValueError(f"report: {name}: {file!r} has no suffix of {', '.join(SUFFIXES)}; pass text as a str")
    if not stat.S_ISREG(os.stat(file).st_mode):
        raise ValueError(f"report: {name}: {file!r} is not a file")
    with open(file, "rb"):  # an error is raised before anything is reported
        return file, suffix


def _kept(name: str, step: float, path: str, suffix: str) -> dict[str, object]:
    """Copy a file into the output of this task. Return what is said of it: its name there, or why it is not kept."""
    output, component, index = (os.environ.get(each, "") for each in ("GRASS_OUTPUT", "GRASS_COMPONENT", "GRASS_INDEX"))
    if not output or not component:
        return {"refused": f"{path}: there is no output folder (GRASS_OUTPUT) to keep it in"}
    folder = os.path.join(output, REPORTED, f"{component}.{index}")
    kept = f"{name.replace('/', ',')}.{int(step) if step == int(step) else step!r}.{suffix}"
    try:
        size = _copy(path, folder, kept)
    except OSError as error:
        refused = f"{path}: cannot be kept: {error.strerror or error}"
    except _TooMuchError as error:
        refused = f"{path}: {error}"
    else:
        return {"file": kept, "size": size}
    print(f"grass.report: {name}: {refused}; it is left out, and the program goes on", file=sys.__stderr__, flush=True)
    return {"refused": refused}


class _TooMuchError(Exception):
    """A file is larger than what is kept."""


def _copy(path: str, folder: str, name: str) -> int:
    """Copy a file under a new name, which never shows half of it. Return its bytes. Raises _TooMuchError, OSError."""
    os.makedirs(folder, exist_ok=True)
    with os.scandir(folder) as found:
        sizes = {each.name: each.stat(follow_symlinks=False).st_size for each in found}
    sizes.pop(name, None)
    with open(path, "rb") as source:
        size = os.fstat(source.fileno()).st_size
        content = source.read(MOST_BYTES + 1) if size <= MOST_BYTES else b""
    if max(size, len(content)) > MOST_BYTES:
        raise _TooMuchError(f"has {size / (1 << 20):.1f} MiB, and {MOST_BYTES >> 20} MiB of a file are kept")
    if len(sizes) >= MOST_FILES or sum(sizes.values()) + len(content) > MOST_OF_TASK:
        raise _TooMuchError(f"{MOST_FILES:,} files or {MOST_OF_TASK >> 20} MiB of this task are kept already")
    part = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        with open(part, "wb") as copy:
            copy.write(content)
        os.replace(part, os.path.join(folder, name))
    except OSError:
        if os.path.exists(part):
            os.remove(part)
        raise
    return len(content)


def _say_as_json(said: object) -> None:
    import json

    _say(json.dumps(said, ensure_ascii=False))


def _say(words: str) -> None:
    line = f"GRASS_METRIC {words}"
    if not _sent(line):
        print(line, file=sys.__stdout__, flush=True)  # not sys.stdout: a program may have replaced it to capture output


def _sent(line: str) -> bool:
    """Send the line to the node. Return False if it takes none: it does not answer, or there is no socket."""
    global _away_until
    path, names = os.environ.get("GRASS_FIGURES"), ("GRASS_JOB_ID", "GRASS_COMPONENT", "GRASS_INDEX", "GRASS_ATTEMPT")
    job, component, index, attempt = (os.environ.get(name, "") for name in names)
    packet = f"{job}/{component}.{index}/{attempt}\n{line}".encode(errors="replace")
    if not path or not attempt or len(packet) > _MOST_SENT or time.monotonic() < _away_until:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(_PATIENCE)  # waiting keeps the order: a printed line arrives later
            channel.sendto(packet, path)
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
