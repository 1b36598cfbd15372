"""Finds the exception that ended a Python program, and the place in the user's file. Pure. Used by ``cause``.

Knows chained exceptions, groups of exceptions, tracebacks inside of messages (``multiprocessing``), syntax errors, and
what ``faulthandler`` prints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)(?:,? in .*)?$')
_ERROR = re.compile(r"((?:\w+\.)*[A-Za-z_]\w*)(?:: ?(.*))?$")
_GROUP_EDGE = re.compile(r"\s*(?:\|\s?|\+ (?=Exception Group))")
_GROUP_PART = re.compile(r"\s*\+[-+]*-{8,} (?:\d+|\.\.\.) -{8,}$|\s*\+-{20,}$")
_GROUPS = ("ExceptionGroup", "BaseExceptionGroup")
_NOT_OF_THE_USER = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen ", "/grass/task/library/")
_SAYS_MORE = re.compile(r"$|.*:$|\d+ validation errors? for ")
"""A message whose meaning is in the following lines."""
_CAUSED = "The above exception was the direct cause of the following exception:"
_ASIDE = re.compile(
    r"Exception ignored (?:in|on)|--- Logging error ---|Error in atexit|Task exception was never|Exception in callback"
)
"""Before tracebacks of what did not end the program."""
_WRAPPERS = frozenset(
    {
        *("ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError", "SystemExit"),
        *("RemoteTraceback", "_RemoteTraceback", "SignalException"),
    }
)
"""Exceptions that say that another process failed."""
_FOLLOW_UP = re.compile(
    r"(?:Dist\w*Error|BrokenPipeError|ConnectionResetError|ConnectionRefusedError|EOFError)\b"
    r"|.*(?:Connection (?:reset|closed)|NCCL)"
)
"""What the other processes of a job say once one of them has failed."""
_FATAL = re.compile(r"Fatal Python error: (.+)")
_MOST_FRAMES = 200


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: str

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


class Found(NamedTuple):
    """What was found. ``at``: index of its line. ``more``: what comes after the place."""

    what: str
    place: Place | None
    at: int
    more: str = ""


@dataclass
class _Traceback:
    frames: list[Place] = field(default_factory=list)
    source: str = ""
    """The last line of source text."""
    name: str = ""
    message: str = ""
    at: int = 0
    aside: bool = False
    cause: _Traceback | None = None
    leaf: _Traceback | None = None
    """Of a group: the first exception in it."""

    @property
    def what(self) -> str:
        message = self.message or (self.source if self.name == "AssertionError" else "")
        return f"{self.name}: {message}" if message else self.name


def exception(streams: Sequence[Sequence[str]]) -> Found | None:
    """Return the exception that ended the program. ``streams``: the lines of each of its processes."""
    last = [traceback for lines in streams if (traceback := _last(_Reader(lines).found)) is not None]
    if not last:
        return None
    first = [each for each in last if each.name not in _WRAPPERS and not _FOLLOW_UP.match(each.what)]
    chosen = (first or [each for each in last if each.name not in _WRAPPERS] or last)[0]
    return _shown(chosen)


def fatal_error(lines: Sequence[str]) -> Found | None:
    """Return what the interpreter or ``faulthandler`` said last, with the place where the Python code was."""
    for at in range(len(lines) - 1, -1, -1):
        if found := _FATAL.match(lines[at]):
            rest = lines[at + 1 : at + 1 + _MOST_FRAMES]
            begin = next((number for number, line in enumerate(rest) if line.startswith("Current thread")), 0)
            stack = takewhile(lambda line: _FRAME.match(line), rest[begin + 1 :])
            frames = [Place(frame[1], frame[2]) for line in stack if (frame := _FRAME.match(line))]
            return Found(f"Fatal Python error: {found[1]}", _place(frames[::-1]), at)
    return None


def _last(found: list[_Traceback]) -> _Traceback | None:
    """Return the traceback that ended one process: the last one that is no wrapper of another and no aside."""
    ended = [each for each in found if not each.aside] or found
    own = [each for each in ended if each.name not in _WRAPPERS]
    plain = [each for each in own if not _FOLLOW_UP.match(each.what)]
    chosen = plain or own or ended
    return chosen[-1] if chosen else None


def _shown(found: _Traceback) -> Found:
    leaf, cause = found.leaf, found.cause
    if leaf is not None:
        return Found(f"{found.what}, first {leaf.what}", _place(leaf.frames) or _place(found.frames), found.at)
    if cause is not None and cause.what == found.what:  # another process raised it
        return Found(found.what, _place(cause.frames) or _place(found.frames), found.at)
    known = cause is not None and cause.name not in _WRAPPERS
    return Found(found.what, _place(found.frames), found.at, f", from {cause.what}" if known and cause else "")


def _place(frames: Sequence[Place]) -> Place | None:
    """Return the innermost line of the user's files, or of any file."""
    own = [each for each in frames if not any(mark in each.file for mark in _NOT_OF_THE_USER)]
    found = (own or frames)[-1:]
    return found[0] if found and not found[0].file.startswith("<") else None


class _Reader:
    """Takes the lines of one process. ``found``: its tracebacks; the parts of a group are not there by themselves."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.found: list[_Traceback] = []
        self._now: _Traceback | None = None
        self._group: _Traceback | None = None
        self._part = False
        """Whether a part of a group begins, maybe without a traceback."""
        self._caused = False
        self._aside = False
        for at, line in enumerate(lines):
            self._take(line, at, lines[at + 1 : at + 6])

    def _take(self, line: str, at: int, following: Sequence[str]) -> None:
        if _GROUP_PART.match(line):
            self._now, self._part = None, True
            return
        text = self._without_edge(line)
        if text.endswith(_HEADER):
            self._now, self._part = _Traceback(aside=self._aside), False
            self._aside = False
        elif frame := _FRAME.match(text):
            self._now = self._now or _Traceback()
            if len(self._now.frames) < _MOST_FRAMES:
                self._now.frames.append(Place(frame[1], frame[2]))
        elif self._now is None and not self._part:
            self._caused = self._caused or text == _CAUSED
            self._aside = _ASIDE.match(text) is not None or (self._aside and bool(text.strip()))
        elif text[:1].isspace():
            if self._now is not None and text.strip(" ~^"):
                self._now.source = text.strip()
        elif error := _ERROR.match(text):
            self._end(error[1].rpartition(".")[2], _message(error[2] or "", following), at)

    def _without_edge(self, line: str) -> str:
        """Return the line without the edge that is drawn around a group."""
        edge = _GROUP_EDGE.match(line)
        if edge is None:
            self._group = self._group if line.startswith(" ") else None
            return line
        inside = self._group is not None or self._now is not None or "Exception Group" in line
        return line[edge.end() :] if inside else line

    def _end(self, name: str, message: str, at: int) -> None:
        now = self._now or _Traceback()
        now.name, now.message, now.at = name, message, at
        now.cause, self._caused = (self.found[-1] if self._caused and self.found else None), False
        self._now, self._part = None, False
        if self._group is not None:
            self._group.leaf = self._group.leaf or (None if name in _GROUPS else now)
            return
        self.found.append(now)
        self._group = now if name in _GROUPS else None


def _message(said: str, following: Sequence[str]) -> str:
    """Return the message of an exception. Some have their meaning in the following lines."""
    if not _SAYS_MORE.match(said):
        return said
    more = []
    for line in following:
        if line.endswith(_HEADER) or line == '"""' or _FRAME.match(line):
            break
        if line.strip(" |-="):
            more.append(line.strip(" |"))
    return " ".join([*([said] if said else []), *more[:2]])
