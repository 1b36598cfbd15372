"""Which program a command starts. Pure: nothing is looked up."""

from __future__ import annotations

import re
import shlex

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


def first_program(command: str | tuple[str, ...]) -> str:
    """Return the first word of a command, without ``exec`` and variables before it. Empty: that is no plain word."""
    if isinstance(command, str):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:  # a quotation is not closed
            return ""
        while words and (words[0] == "exec" or _ASSIGNMENT.match(words[0])):
            words.pop(0)
    else:
        words = list(command)
    return words[0] if words and _PLAIN.fullmatch(words[0]) else ""
