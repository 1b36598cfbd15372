"""Decides which line of a failed task's output says why it failed. Pure. Used by ``node.agent.attempts``."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from grass.model.secrets import hide_secrets
from node.causes import other_errors, python_errors
from node.causes.output_text import by_process, clean_lines
from node.causes.python_errors import Found

MOST = 240
"""Characters of a cause."""
_NOT_FOUND = (126, 127)
_SHELL_SIGNAL = 128
_LAST, _LOOKED_AT = 100, 30
"""Last lines that are looked at if nothing is recognized, and those of them in which words such as ``error`` count."""
_NOISE = re.compile(
    r"\W*$|\s|GRASS_METRIC |\[grass\]|.*(?:Warning: |\d%\||\dit/s\]|s/it\])|\+ |(?:INFO|DEBUG|WARNING|WARN)\b"
    r"|.*[\s\]](?:INFO|DEBUG|WARNING)[\s:\]]|(?:mpirun|mpiexec|prterun|prun|srun|slurmstepd|orterun|horovodrun)\b"
    r"|Primary job|Process name:|Exit code:|a non-zero|job to be terminated|exit code\b|Per user-direction"
    r"|NOTE: invoking|You may or may not|exactly when Open MPI|with errorcode|\[(?:mpiexec|proxy|prterun|mpirun)|= "
    r"|The above exc|During handling|Traceback|nohup:|[WIDE]\d{4} \d\d:"
)
"""Lines that say nothing of why a task failed."""
_ERRORS = re.compile(
    r"\b(?:error|fatal|fail(?:ed|ure)?|exception|cannot|can't|could not|unable|not found|denied|no such|invalid|abort"
    r"|killed|panic|out of memory|no space|quota|missing|unrecognized|unexpected|refused|timed out)\b",
    re.IGNORECASE,
)


def cause_of(output: bytes, code: int | None, secrets: Collection[str] = (), *, only_errors: bool = False) -> str:
    """Return in one line what the end of a failed task's output says of why it failed; empty: nothing.

    ``code``: its exit code; None: it was ended by a signal. ``secrets``: texts that must not be shown.
    ``only_errors``: the last lines do not count if nothing in them looks like an error.
    """
    found = _found(clean_lines(output), code, only_errors=only_errors)
    return "" if found is None else _shown(found, secrets)


def _found(lines: list[str], code: int | None, *, only_errors: bool) -> Found | None:
    if not lines:
        return None
    streams = by_process(lines)
    flat = [line for stream in streams for line in stream]

    def shell() -> Found | None:
        return other_errors.last_error(flat, other_errors.SHELL)

    def native() -> Found | None:
        return python_errors.fatal_error(flat) or other_errors.last_error(flat, other_errors.NATIVE)

    def raised() -> Found | None:
        return python_errors.exception(streams)

    order = [raised, native, shell]
    if code in _NOT_FOUND:
        order = [shell, raised, native]
    elif code is None or code > _SHELL_SIGNAL:
        order = [native, raised, shell]
    found = next((found for look in order if (found := look()) is not None), None)
    return found or _plain(flat, only_errors=only_errors)


def _plain(lines: Sequence[str], *, only_errors: bool) -> Found | None:
    """Return the last line that speaks of an error, or what a launcher said, or the last lines."""
    last = lines[-_LAST:]
    meaningful = [(at, line) for at, line in enumerate(last) if not _NOISE.match(line)]
    for at, line in reversed(meaningful[-_LOOKED_AT:]):
        if _ERRORS.search(line):
            return Found(line.strip(), None, at)
    launched = other_errors.last_error(lines, other_errors.LAUNCHERS)
    if launched is not None or only_errors or not meaningful:
        return launched
    return Found(" | ".join(line.strip() for _, line in meaningful[-2:]), None, meaningful[-1][0])


def _shown(found: Found, secrets: Collection[str]) -> str:
    """Return the line without secrets. Its place stays, however long the message is."""
    place = f" ({found.place})" if found.place is not None and len(str(found.place)) < MOST // 3 else ""
    what, more = (" ".join(hide_secrets(each, secrets).split()) for each in (found.what, found.more))
    more = _cut(more, MOST // 3)
    return f"{_cut(what, MOST - len(place) - len(more))}{place}{more}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
