"""Define `grass run -- CMD…`: run one command as a job, follow the job, and exit with the command's exit code.

Loaded by ``main``.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import stat
import sys
import termios
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import click

from grass.cli import logs
from grass.cli.command import Command
from grass.cli.environment_options import environment_of, environment_options
from grass.cli.exec import beside as exec_beside
from grass.cli.exec import check_terminal
from grass.cli.exits import SIGNAL_BASE, Exit
from grass.cli.invocation import Invocation, pass_invocation
from grass.cli.job_text import job_line
from grass.cli.output import Format, Output, OutputClosedError, Result
from grass.cli.run_options import AT, COMPONENT, HOLD, JobOptions, as_options, document_of, run_options
from grass.cli.wait import until_started
from grass.errors import ConflictError, GrassError, InputError, ManifestError, WaitTimeoutError
from grass.model.beside import INSIDE, holder
from grass.model.lifecycle import JobState, TaskState
from grass.system import entropy

if TYPE_CHECKING:
    from grass.api.client import Client
    from grass.manifest.document import Document
    from grass.wire.job_views import JobView, StartedView, TaskView

_FIRST_WORDS = 0.05
"""Seconds to wait for the first data on a pipe."""
_MOMENT = 0.2
"""Seconds between looks at whether a task runs."""
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class RunCommand(Command):
    """Knows where the command of the user begins, which click does not say."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        separated = "--" in args
        rest = super().parse_args(ctx, args)
        own = {flag for option in self.params if isinstance(option, click.Option) for flag in option.opts}
        ctx.params["notes"] = notes_on(ctx.params.get("command") or (), frozenset() if separated else own)
        return rest


@run_options
@click.command(cls=RunCommand, context_settings={"allow_interspersed_args": False})
@environment_options
@HOLD
@AT
@click.option("-i", "--interactive", is_flag=True, help="Forward standard input to CMD, as it comes.")
@click.option("-t", "--tty", "wants_terminal", is_flag=True, help="Give CMD a terminal; `-it` for a shell.")
@click.option("--detach", is_flag=True, help="Print the job's id and return; the job continues.")
@click.option("--stdin", "wants_input", is_flag=True, help="Read standard input to its end, and give it to CMD.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@pass_invocation
def run(
    invocation: Invocation,
    /,
    command: Sequence[str],
    env: tuple[str, ...],
    env_file: tuple[str, ...],
    env_all: bool,
    hold: bool,
    at: float | None,
    interactive: bool,
    wants_terminal: bool,
    detach: bool,
    wants_input: bool,
    notes: Sequence[str],
    **given: Any,
) -> int:
    """Run CMD as a job, show its output, and exit with its exit code.

    The standard input of CMD is empty without --stdin or -i. `-it` gives CMD a terminal, for a shell or a debugger;
    its job ends with CMD, also when the connection is lost. Pass files through the share (`grass data push`).

    Ctrl-C or TERM stops the job; a second one returns at once. If the reader of the output ends (`| head`), the job is
    stopped, too.
    """
    for note in notes:
        invocation.output.note(note)
    options = JobOptions(**given)
    read_for_tasks = "-" in (options.each_line, options.each_json)
    if wants_input and read_for_tasks:
        raise click.UsageError("--stdin, --each-line - and --each-json - all read standard input; use one")
    beside = interactive or wants_terminal
    if beside:
        _check_interactive(options, detach=detach or hold or at is not None, reads=wants_input or read_for_tasks)
        check_terminal(wants_terminal)
    elif wants_input:
        command = with_standard_input(command)
    elif not read_for_tasks:
        warn_of_input(invocation.output)
    document = document_of(options.name or entropy.run_id("run"), holder() if beside else command, options)
    client, output = invocation.client(), invocation.output
    environment = environment_of(env, env_file, env_all, output.warn)
    if detach:
        job = _start(client, output, document, environment, options, hold, at)
        output.show(Result(job, lambda _: [f"{job.name}  {job.id}"], [job.id]))
        return Exit.OK
    if beside:
        job = _start(client, output, document, environment, options, hold, at)
        return _inside(invocation, job, command, interactive, wants_terminal)
    stopper = Stopper(client, output, str(document["name"]))
    with Interrupts(stopper.stop):
        job = _start(client, output, document, environment, options, hold, at)
        output.note(f"{job.name}: started as {job.id}")
        stopper.started(job)
        try:
            return follow(client, output, job.id)
        except OutputClosedError:
            _stop_unread(client, output, job)
            raise
        except KeyboardInterrupt:
            output.note(f"detached; {job.name} continues: `grass job wait {job.name}`")
            return Exit.INTERRUPTED


def _check_interactive(options: JobOptions, *, detach: bool, reads: bool) -> None:
    if detach or reads:
        other = "--detach, --hold or --at" if detach else "--stdin, --each-line - or --each-json -"
        raise click.UsageError(f"-i and -t run CMD here and now; they cannot be used with {other}")
    if (
        options.framework
        or options.rendezvous
        or any((options.array, options.each_line, options.each_json))
        or (options.replicas or 1) > 1
    ):
        raise click.UsageError("-i and -t need a job of one task, without --replicas, --array and --framework")


def _inside(invocation: Invocation, job: StartedView, command: Sequence[str], wants_input: bool, terminal: bool) -> int:
    """Run the command in the job, which only waits, and stop the job afterwards."""
    client, output = invocation.client(), invocation.output
    output.note(f"{job.name}: started as {job.id}")
    try:
        until_started(client, output, job.id)
        while not _runs(client, job):
            pass
        return exec_beside(
            invocation, job.id, f"{COMPONENT}.0", [*INSIDE, *command], wants_input=wants_input, wants_terminal=terminal
        )
    finally:
        with suppress(GrassError):
            client.stop(job.id, grace=0.0)


def _runs(client: Client, job: StartedView) -> bool:
    """Return whether the task of the job runs; waits a moment for it. Raises ConflictError if the job has ended."""
    try:
        ended = client.wait(job.id, timeout=_MOMENT)
    except WaitTimeoutError:
        return client.tasks(job.id)[0].state is TaskState.RUNNING
    raise ConflictError(job_line(ended))


def notes_on(command: Sequence[str], options: Collection[str]) -> list[str]:
    """Return what looks like a mistake in a command. ``options``: of `grass run`, if nothing ended them before it."""
    notes = []
    if len(command) == 1 and len(words := command[0].split()) > 1 and not Path(command[0]).exists():
        notes.append(
            f"note: the name of the program has spaces; `grass run -- {words[0]} …` runs {words[0]}, and "
            "`grass run -- sh -c '…'` a line of the shell"
        )
    given = [word.partition("=")[0] for word in command[1:]]
    for option in dict.fromkeys(word for word in given if word.startswith("--") and word in options):
        notes.append(
            f"note: {option} goes to {command[0]}; write options of `grass run` before the command, and `--` between "
            "them if this is meant"
        )
    return notes


def _start(
    client: Client,
    output: Output,
    document: Document,
    environment: Mapping[str, str],
    options: JobOptions,
    hold: bool,
    delay: float | None,
) -> StartedView:
    try:
        job = client.start(document, env=environment, hold=hold, delay=delay)
    except ManifestError as error:
        raise as_options(error, options) from error
    for warning in job.warnings:
        output.warn(warning)
    return job


def with_standard_input(command: Sequence[str]) -> list[str]:
    """Return the command with the standard input of this process. Raises InputError if that is too much."""
    from grass.manifest import Wrong, script

    try:
        return script.with_input(command, sys.stdin.buffer.read(script.MAX_STDIN + 1))
    except Wrong as wrong:
        raise InputError(f"--stdin: {wrong}") from wrong


def warn_of_input(output: Output, descriptor: int = 0) -> None:
    """Warn if stdin has data: the command will not read it."""
    with suppress(OSError):
        status = os.fstat(descriptor)
        there = False
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            there = _in_pipe(descriptor)
        elif stat.S_ISREG(status.st_mode):
            there = status.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if there:
            output.warn("stdin is not forwarded; the command reads an empty stdin. --stdin forwards it to the command")


def _in_pipe(descriptor: int) -> bool:
    """Return whether the pipe has data; waits a moment for a writer that has just started."""
    if not select.select([descriptor], [], [], _FIRST_WORDS)[0]:
        return False
    waiting = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
    return int.from_bytes(waiting, sys.byteorder) > 0


def follow(client: Client, output: Output, job_id: str) -> int:
    """Print the job's log until the job has ended. Return the exit code for `grass run`."""
    until_started(client, output, job_id)
    job = client.job(job_id, specification=False)
    style = logs.Style.for_job(job, None, timestamps=False)
    live, late = logs.unfinished(output, style, split=True), logs.late(output, job.name)
    lines = client.logs(job_id, follow=True, joined=logs.joined(output), unfinished=live, late=late)
    logs.show(output, lines, style, split=True)
    ended = client.wait(job_id)
    tasks = client.tasks(job_id, first=1)
    if output.format in (Format.JSON, Format.YAML):
        output.record(Result(ended, lambda _: []))
    if ended.state is not JobState.SUCCEEDED:
        output.note(job_line(ended))
    return exit_of(ended, tasks)


def exit_of(job: JobView, tasks: Sequence[TaskView]) -> int:
    """Return the command's code, or 128 + its signal; never 0 unless the job SUCCEEDED."""
    if job.state is JobState.SUCCEEDED:
        return Exit.OK
    task = tasks[0] if tasks else None
    if task is not None and task.signal is not None:
        return SIGNAL_BASE + task.signal
    return (task and task.exit_code) or Exit.JOB_FAILED


class Stopper:
    """Stops the job after Ctrl-C. A job whose submission is on its way is stopped as soon as it is stored."""

    def __init__(self, client: Client, output: Output, name: str) -> None:
        self._client = client
        self._output = output
        self._name = name
        self._job_id = ""
        self._known = threading.Event()

    def started(self, job: StartedView) -> None:
        self._job_id = job.id
        self._known.set()

    def stop(self) -> None:
        """Stop the job. Runs in a separate thread, because the main thread submits the job or prints its log."""
        self._output.note(f"stopping {self._name}; Ctrl-C again returns at once")
        self._known.wait()
        try:
            self._client.stop(self._job_id)
        except GrassError as error:
            self._output.note(f"cannot stop {self._name}: {error}")


def _stop_unread(client: Client, output: Output, job: StartedView) -> None:
    """Stop the job when nobody reads its output. A job that has already ended stays unchanged."""
    try:
        if not client.stop(job.id).state.ended:
            output.note(f"the reader of the output of {job.name} is gone; stopping the job")
    except GrassError as error:
        output.note(f"cannot stop {job.name}: {error}")


class Interrupts:
    """Handle Ctrl-C and TERM: the first calls ``first`` in a thread; the second raises KeyboardInterrupt."""

    def __init__(self, first: Callable[[], None]) -> None:
        self._first = first
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._interrupted) for number in _INTERRUPTS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._thread is not None:
            raise KeyboardInterrupt
        self._thread = threading.Thread(target=self._first, daemon=True)
        self._thread.start()
