"""Which program a command starts. Pure: nothing is looked up.

Used by ``grass.files``, ``grass.frameworks.programs``, ``grass.manifest``, ``master.agent.failures``,
``master.api.preflight``, ``node.agent`` and ``node.runtime``.
"""

from __future__ import annotations

import re
import shlex

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of root on a plain system, and of a container whose image names none."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|a|k|z)?sh")
_SCRIPT = re.compile(r"-[aefhuvx]*c[aefhuvx]*")
"""Options after which a shell reads a script. A login shell (``-l``) chooses a PATH of its own."""
_SEVERAL = re.compile(r"[;&|\n`]|\$\(")


def first_program(command: str | tuple[str, ...]) -> str:
    """Return the first word of a command, without ``exec`` and variables before it. Empty: that is not a plain word, or
    the command sets its own PATH. A script of ``sh -c`` is a command, too.
    """
    words = list(command) if isinstance(command, tuple) else _words(command)
    script = _script(words)
    words = words if script is None else _words(script)
    return words[0] if words and _PLAIN.fullmatch(words[0]) else ""


def is_shell(program: str) -> bool:
    """Return whether a program takes ``-c SCRIPT``: ``sh``, ``/bin/bash``, …"""
    return _SHELL.fullmatch(program) is not None


def starts_several(command: str | tuple[str, ...]) -> bool:
    """Return whether a shell may start more than one program for a command."""
    words = list(command) if isinstance(command, tuple) else _words(command)
    script = _script(words)
    if script is None:
        script = command if isinstance(command, str) else ""
    return _SEVERAL.search(script.strip()) is not None


def _script(words: list[str]) -> str | None:
    """Return the script of ``sh -c``; None: the words are another command."""
    given = len(words) > 2 and is_shell(words[0]) and _SCRIPT.fullmatch(words[1])
    return words[2] if given else None


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a quotation is not closed
        return []
    while words and (words[0] == "exec" or _ASSIGNMENT.match(words[0])):
        if words.pop(0).startswith("PATH="):
            return []  # it is looked for elsewhere
    return words
