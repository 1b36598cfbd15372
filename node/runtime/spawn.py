"""Start the process of one attempt: posix_spawn in its own session, with output directly into its files.

Used by ``shepherd``, ``node.runtime.docker``, ``node.runtime.isolation`` and ``node.runtime.process``.
"""

from __future__ import annotations

import errno
import os
import signal

from grass.model.reasons import Reason, ReasonCode
from grass.model.script_faults import HEAD, first_line_fault
from node.runtime.keyrings import leave_session_keyring

NOT_FOUND = 127
NOT_EXECUTABLE = 126

DEFAULTS = sorted(set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP})
"""Signals whose default action a program gets, whatever the shepherd does with them."""
_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class CannotStartError(Exception):
    """The process could not be started. ``code``: the exit code that a shell would return. ``why``: of its reason."""

    def __init__(self, code: int, message: str, why: ReasonCode = ReasonCode.CANNOT_START) -> None:
        super().__init__(message)
        self.code = code
        self.why = why

    @property
    def reason(self) -> Reason:
        return Reason(self.why, str(self))


def spawn(argv: list[str], env: dict[str, str], cwd: str, stdout: str, stderr: str) -> int:
    """Start a program in its own session and return its pid. Changes this process's working directory.

    Raises CannotStartError. A failure of the exec itself is reported by posix_spawn, so no process is left then.
    """
    if not argv:
        raise CannotStartError(NOT_FOUND, "cannot start: the command is empty")
    env = {**env, "PWD": enter_folder(cwd)}
    program = find_program(argv[0], env)
    leave_session_keyring()
    try:
        return os.posix_spawn(
            program,
            argv,
            env,
            file_actions=(
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, stdout, _OUTPUT, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, stderr, _OUTPUT, 0o600),
            ),
            setsid=True,
            setsigmask=(),
            setsigdef=DEFAULTS,
        )
    except (OSError, ValueError, TypeError) as error:
        raise cannot_start(argv[0], program, error) from error


def cannot_start(name: str, program: str, error: OSError | ValueError | TypeError) -> CannotStartError:
    """Return what a failed exec of ``program`` means. ``name``: as the task calls it."""
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC and (why := _first_line(program)):
        return CannotStartError(NOT_EXECUTABLE, f"cannot start {name}: {why}")
    if not isinstance(error, FileNotFoundError):
        return CannotStartError(NOT_EXECUTABLE, f"cannot start {name}: {_why(error)}")
    if os.path.exists(program):  # noqa: PTH110 (relative to the present directory)
        why = _first_line(program) or "the interpreter that its first line names was not found"
        return CannotStartError(NOT_EXECUTABLE, f"cannot start {name}: {why}")
    return CannotStartError(NOT_FOUND, f"cannot start {name}: command not found")


def _first_line(program: str) -> str:
    """Return what is wrong with the first line of a program; empty: nothing is known."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123 (relative to the present directory)
            return first_line_fault(file.read(HEAD))
    except OSError:
        return ""


def find_program(name: str, env: dict[str, str]) -> str:
    """Search the PATH of the attempt; posix_spawnp would search the shepherd's."""
    if "/" in name:
        return name
    found = None
    for folder in env.get("PATH", os.defpath).split(":"):
        candidate = f"{folder or '.'}/{name}"
        if os.path.isfile(candidate):  # noqa: PTH113 (the hot path)
            if os.access(candidate, os.X_OK, effective_ids=True):  # as the account, where the shepherd acts as one
                return candidate
            found = found or candidate
    if found is None:
        raise CannotStartError(NOT_FOUND, f"cannot start {name}: command not found in PATH")
    raise CannotStartError(NOT_EXECUTABLE, f"cannot start {name}: {found} is not executable")


def enter_folder(cwd: str) -> str:
    """Change the working directory. Return its path for PWD, which a shell would set. Raises CannotStartError."""
    try:
        os.chdir(cwd)
        return os.getcwd() if ".." in cwd or not cwd.startswith("/") else cwd  # noqa: PTH109 (the hot path)
    except OSError as error:
        raise CannotStartError(NOT_EXECUTABLE, f"cannot start in {cwd}: {_why(error)}") from error


def _why(error: Exception) -> str:
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    if error.errno == errno.ENOEXEC:
        return "it is not a program (does its first line lack #!?)"
    if error.errno == errno.E2BIG:
        return "its command and environment are too long together; put what is large in a file (`grass data push`)"
    return os.strerror(error.errno).lower()
