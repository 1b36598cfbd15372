"""Takes the end of a task's output apart into clean lines, by the process of a launcher that wrote them. Pure.

Used by ``cause``.
"""

from __future__ import annotations

import re

from grass.lines import lines_of

_MOST_LINE = 2_000
"""Characters of a line that are looked at: the searches stay linear, whatever a task writes."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[()].|[=>78])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_RANK = re.compile(
    r"\[((?:rank|default|worker|trainer)?\d+(?:,\d+)?)\](?:<std(?:err|out)>)?: ?"  # torchrun, Open MPI, Horovod
    r"|\(((?:[\w.]+ )?pid=\d+(?:, ip=[\d.]+)?)\) "  # Ray
)
"""What launchers put before each line of one of their processes."""


def clean_lines(output: bytes) -> list[str]:
    """Return the lines without what only a terminal understands; of a progress bar, what was seen last."""
    text = output.decode(errors="replace").replace("\x00", "")  # a file reads as zeros where it was given back
    return [_clean(line[-_MOST_LINE:] if "\r" in line else line[:_MOST_LINE]) for line in lines_of(text)]


def _clean(line: str) -> str:
    shown = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    return _CONTROL.sub("", _SEQUENCE.sub("", shown)).rstrip()


def by_process(lines: list[str]) -> list[list[str]]:
    """Return the lines of each process of a launcher, without the launcher's prefix; first those without one."""
    streams: dict[str, list[str]] = {"": []}
    for line in lines:
        found = _RANK.match(line)
        streams.setdefault((found[1] or found[2]) if found else "", []).append(line[found.end() :] if found else line)
    return list(streams.values())
