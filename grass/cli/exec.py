"""Define the command `grass job exec`: run a command beside a running task, with its streams or a terminal.

Loaded by ``job``; used by ``run``.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from grass.cli.command import Command
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.values import RUNNING_TASK, job_and_task
from grass.errors import ConflictError, GrassError, InputError, NotFoundError

if TYPE_CHECKING:
    from grass.api.execution import Execution

_READ = 16_384


@click.command("exec", cls=Command)
@click.argument("task", type=RUNNING_TASK, metavar="TASK")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD…")
@click.option("-i", "--stdin", "wants_input", is_flag=True, help="Forward standard input to the command.")
@click.option(
    "-t", "--tty", "wants_terminal", is_flag=True, help="Give the command a terminal, for programs such as shells."
)
@pass_invocation
def execute(invocation: Invocation, task: str, command: Sequence[str], wants_input: bool, wants_terminal: bool) -> int:
    """Run a command beside a running task. It runs in the task's folder with its environment, or in its container.

    TASK is JOB.COMPONENT.INDEX, such as train.worker.3. Exits with the command's exit code. `-it` opens a terminal.
    """
    job, part = job_and_task(task)
    check_terminal(wants_terminal)
    return beside(invocation, job, part, command, wants_input=wants_input, wants_terminal=wants_terminal)


def check_terminal(wanted: bool) -> None:
    """Raise InputError if there is no terminal, but one is ``wanted``."""
    if wanted and not sys.stdin.isatty():
        raise InputError("--tty needs a terminal on this machine; omit it in a pipe")


def beside(
    invocation: Invocation, job: str, part: str, command: Sequence[str], *, wants_input: bool, wants_terminal: bool
) -> int:
    """Run a command beside a running task, with the streams or the terminal of this process. Return its exit code."""
    size = _size() if wants_terminal else None
    execution = invocation.client().execute(job, part, command, size)
    try:
        with _terminal(execution, wants_terminal):
            if wants_input:
                threading.Thread(target=_feed, args=(execution, True), name="input", daemon=True).start()
            elif not wants_terminal:
                _feed(execution, False)
            for stream, data in execution.output():
                invocation.output.raw(data.decode("utf-8", "surrogateescape"), stderr=stream == "stderr")
    except BaseException:
        with suppress(GrassError, OSError):
            execution.close()
        raise
    assert execution.code is not None
    return execution.code


def _feed(execution: Execution, wanted: bool) -> None:
    """Forward stdin, if ``wanted``, until the input ends or the command ends."""
    with suppress(NotFoundError, ConflictError, OSError):
        while wanted and (data := os.read(0, _READ)):
            execution.send(data)
        execution.send(b"", end=True)


@contextmanager
def _terminal(execution: Execution, wanted: bool) -> Iterator[None]:
    """Put the terminal in raw mode: each key, also Ctrl-C, is sent at once. Report changes of the window size."""
    if not wanted:
        yield
        return
    before = termios.tcgetattr(0)
    handler = signal.signal(signal.SIGWINCH, lambda *_: _resized(execution))
    try:
        tty.setraw(0, termios.TCSADRAIN)  # keeps keys that the user typed early
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)


def _resized(execution: Execution) -> None:
    threading.Thread(target=_resize, args=(execution,), name="resize", daemon=True).start()


def _resize(execution: Execution) -> None:
    with suppress(GrassError, OSError):
        execution.resize(*_size())


def _size() -> tuple[int, int]:
    """Return rows and columns; a terminal that reports no size gets the usual size."""
    columns, rows = os.get_terminal_size(0)
    return max(1, rows) if rows else 24, max(1, columns) if columns else 80
