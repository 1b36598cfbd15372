"""What the exit code of `grass` means. Errors of ``grass.errors`` bring theirs; a test holds the two together."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    JOB_FAILED = 1  # … or was stopped: the job did not do what was asked
    BAD_INPUT = 2  # usage, a file, a name; nothing was changed
    UNREACHABLE = 3
    NOT_ALLOWED = 4
    DEFECT = 70  # an error of Grass itself (EX_SOFTWARE); the traceback was saved
    SYSTEM = 74  # a full disk, an output that cannot be written (EX_IOERR); what was asked for may be done
    TIMED_OUT = 124  # as timeout(1)
    NOT_EXECUTABLE = 126  # of `job exec`, as a shell has it
    COMMAND_NOT_FOUND = 127
    INTERRUPTED = 130  # Ctrl-C: 128 + SIGINT
    PIPE_CLOSED = 141  # the reader of the output ended: 128 + SIGPIPE


SIGNAL_BASE = 128
"""A command that a signal ended exits with this plus the signal's number, as in every shell."""
