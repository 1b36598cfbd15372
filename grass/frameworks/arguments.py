"""Commands of frameworks whose arguments differ per task: they arrive in ``GRASS_ARGUMENTS``. Pure.

Used by ``node.membership.rendering``.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

VARIABLE = "GRASS_ARGUMENTS"
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")


def text(arguments: Sequence[str]) -> str:
    """Return the value of the variable."""
    return " ".join(shlex.quote(each) for each in arguments)


def with_arguments(command: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the command, as an argv, with the arguments at its end. A command that names the variable itself stays."""
    shell, script = _script(command)
    if script is None:
        return ("/bin/sh", "-c", f'eval "exec \\"\\$@\\" ${VARIABLE}"', "sh", *command)
    return (shell, "-c", script if VARIABLE in script else f'eval "{_escaped(script)} ${VARIABLE}"')


def _script(command: str | tuple[str, ...]) -> tuple[str, str | None]:
    if isinstance(command, str):
        return "/bin/sh", command
    if len(command) == 3 and command[0] in _SHELLS and command[1] == "-c":
        return command[0], command[2]
    return "", None


def _escaped(script: str) -> str:
    for each in '\\"$`':
        script = script.replace(each, "\\" + each)
    return script
