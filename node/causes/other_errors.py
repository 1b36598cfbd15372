"""What programs that are not Python, and shells, say when they fail: one line of a table for each kind. Pure.

Used by ``cause``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from node.causes.python_errors import Found, Place

_AHEAD = 15
"""Lines behind a message in which its place, or more of it, is looked for."""


class _Kind(NamedTuple):
    """One kind of message. ``said``: its line, with the groups ``what`` and maybe ``file`` and ``line``. ``more``: the
    rest of the message, on a following line. ``place``: on a following line, too."""

    said: re.Pattern[str]
    more: re.Pattern[str] | None = None
    place: re.Pattern[str] | None = None


class Kinds(NamedTuple):
    """Kinds of messages. ``hint``: is in each of their lines, so that most lines cost one search."""

    hint: re.Pattern[str]
    kinds: tuple[_Kind, ...]


def _kind(said: str, more: str = "", place: str = "") -> _Kind:
    return _Kind(re.compile(said), re.compile(more) if more else None, re.compile(place) if place else None)


_WHERE = r"(?P<file>[^\s:()]+):(?P<line>\d+)"
_SHELL = r"(?:-?|/[\w/]*)(?:ba|da|k|z|a)?sh"
_MISSING = r"(?P<what>[^:]+: (?:(?:command )?not found|No such file or directory|Permission denied|unbound variable))$"
SHELL = Kinds(
    re.compile("not found|No such file|no such file|ermission denied|unbound variable|python|shared libraries|exec "),
    (
        _kind(rf"(?!{_SHELL}:)(?P<file>[^\s:]+): line (?P<line>\d+): (?:exec: )?{_MISSING}"),
        _kind(rf"(?:{_SHELL}|[\w./-]+): (?:line )?\d+: (?:exec: )?{_MISSING}"),
        _kind(rf"{_SHELL}: (?:exec: )?{_MISSING}"),
        _kind(r"zsh:\d*:? ?(?P<what>(?:command not found|no such file or directory|permission denied): .+)$"),
        _kind(r"(?:/usr/bin/)?env: (?P<what>.*(?:No such file or directory|Permission denied).*)$"),
        _kind(r"(?:\S*/)?(?P<what>python[\d.]*: (?:can't open file .*|No module named .*|can't find .*))$"),
        _kind(r".*?(?P<what>error while loading shared libraries: [^:]+: .*)$"),
        _kind(r"(?:tini|\[FATAL tini).*?(?P<what>exec .* failed: .*)$"),
    ),
)
"""A program, or a part of it, that is not there."""
NATIVE = Kinds(
    re.compile(
        r"terminat|runtime error|Sanitizer|Assertion|stack smashing|\(\): |corrupt|panic|fatal error"
        r"|Exception in thread"
        r"|Caused by|[Ee]rror|ERROR|forrtl|At line|Segmentation|Aborted|Killed|Bus error|Illegal|Floating"
    ),
    (
        _kind(r"terminate called after throwing an instance of '(?P<what>[^']+)'", r"\s*what\(\):\s+(.*)"),
        _kind(r"libc\+\+abi: (?:terminating.* type )?(?P<what>.+)"),
        _kind(r"terminate called (?P<what>without an active exception|recursively)"),
        _kind(r"==\d+==\s?ERROR: (?P<what>\w+Sanitizer: [\w-]+)", place=rf".*SUMMARY: \w+: [\w-]+ {_WHERE}"),
        _kind(rf"{_WHERE}:\d+: runtime error: (?P<what>.+)"),
        _kind(rf"(?:[^\s:]+: )?{_WHERE}: .*(?P<what>Assertion [`'].+ failed)\.?$"),
        _kind(r"(?P<what>\*\*\* stack smashing detected \*\*\*)"),
        _kind(r"(?P<what>(?:free|realloc|munmap_chunk|malloc\w*)\(\): .+|double free or corruption.*|corrupted .+)$"),
        _kind(rf"thread '[^']*'(?: \(\d+\))? panicked at {_WHERE}:\d+:$", r"(.+)"),
        _kind(rf"thread '[^']*' panicked at '(?P<what>.+)', {_WHERE}"),
        _kind(
            r"(?P<what>panic: .+|fatal error: (?:all goroutines|runtime|concurrent|stack|unexpected).+)",
            place=rf"\s+{_WHERE} \+0x",
        ),
        _kind(r'Exception in thread "[^"]*" (?P<what>.+)', place=rf"\s+at [\w.$<>/]+\({_WHERE}\)"),
        _kind(r"Caused by: (?P<what>[\w.$]+(?:: .+)?)", place=rf"\s+at [\w.$<>/]+\({_WHERE}\)"),
        _kind(r"(?P<what>ERROR: (?:LoadError: )?\w+: .+)", place=rf".*in expression starting at {_WHERE}"),
        _kind(r"(?P<what>Error in .+ : .+|Error: .+)", place=rf"\s+at .*?\(?{_WHERE}:\d+\)?$"),
        _kind(r"At line (?P<line>\d+) of file (?P<file>[^\s()]+)", r"(Fortran runtime error: .+|Error termination.*)"),
        _kind(r"(?P<what>forrtl: .+)"),
        _kind(
            r"(?P<what>(?:\w+Error|TypeError|ReferenceError|SyntaxError): .+)", place=rf"\s+at .*?\(?{_WHERE}:\d+\)?$"
        ),
        _kind(
            r"(?:(?P<file>[^\s:]+): line (?P<line>\d+):)? +\d+ "
            r"(?P<what>(?:Segmentation fault|Aborted|Killed|Bus error|Illegal instruction|Floating point)\b.*)"
        ),
    ),
)
"""A program that failed by itself."""
LAUNCHERS = Kinds(
    re.compile("MPI_ABORT|EXIT CODE|make|exited on signal"),
    (
        _kind(r"(?P<what>MPI_ABORT was invoked on rank \d+)", r"with errorcode (-?\d+)"),
        _kind(r"=\s+(?P<what>EXIT CODE: \d+)"),
        _kind(r"(?P<what>make(?:\[\d+\])?: \*\*\* .+)"),
        _kind(r".*(?P<what>exited on signal \d+ \([^)]+\))"),
    ),
)
"""What a launcher says of the program that it ran, if that said nothing."""


def last_error(lines: Sequence[str], of: Kinds) -> Found | None:
    """Return the last line of one of these kinds, with its place."""
    for at in range(len(lines) - 1, -1, -1):
        if of.hint.search(lines[at]) is None:
            continue
        for kind in of.kinds:
            if found := kind.said.match(lines[at]):
                return _complete(kind, found, at, lines[at + 1 : at + 1 + _AHEAD])
    return None


def _complete(kind: _Kind, found: re.Match[str], at: int, following: Sequence[str]) -> Found:
    groups = found.groupdict()
    what = (groups.get("what") or "").strip()
    if kind.more is not None:
        rest = next((more[1] for line in following if (more := kind.more.match(line))), "")
        what = ": ".join(each for each in (what, rest) if each)
    place = Place(groups["file"], groups["line"]) if groups.get("file") and groups.get("line") else None
    if kind.place is not None:
        place = next(
            (Place(there["file"], there["line"]) for line in following if (there := kind.place.match(line))), place
        )
    return Found(what or found[0].strip(), place, at)
