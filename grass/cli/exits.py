"""Exit codes of `grass`. Errors of ``grass.errors`` carry their own code; a test checks that both lists agree.

Used by this package.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of `grass`.

    ``docs/reference/cli.md`` has the same list.
    """

    OK = 0
    JOB_FAILED = 1  # the job failed or was stopped
    BAD_INPUT = 2  # usage, a file or a name is wrong; nothing was changed
    UNREACHABLE = 3
    NOT_ALLOWED = 4
    DEFECT = 70  # an internal error of Grass (EX_SOFTWARE); the traceback was saved
    SYSTEM = 74  # a full disk or an unwritable output (EX_IOERR); the request itself may have succeeded
    TIMED_OUT = 124  # same code as timeout(1)
    NOT_EXECUTABLE = 126  # for `job exec`, as in a shell
    COMMAND_NOT_FOUND = 127
    INTERRUPTED = 130  # Ctrl-C: 128 + SIGINT
    TERMINATED = 143  # 128 + SIGTERM
    PIPE_CLOSED = 141  # the reader of the output closed the pipe: 128 + SIGPIPE


SIGNAL_BASE = 128
"""Base of the exit code of a command that a signal ended: this base plus the signal's number, as in every shell."""
