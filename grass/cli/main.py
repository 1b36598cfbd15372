"""Main program of `grass`: the tree of commands, and the exit code of every error. Called by ``entry``."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

import click

from grass import __version__
from grass.cli.command import Group
from grass.cli.exits import Exit
from grass.cli.invocation import Invocation
from grass.cli.output import Format, Output, OutputClosedError
from grass.errors import ChangeInterrupted, GrassError, ManifestError
from grass.model.names import is_name
from grass.system import clock, environment

_COMMANDS = {
    "create": "grass.cli.cluster:create",
    "delete": "grass.cli.cluster:delete",
    "status": "grass.cli.cluster:status",
    "start": "grass.cli.cluster_start:start",
    "stop": "grass.cli.cluster_start:stop",
    "use": "grass.cli.cluster:use",
    "clean": "grass.cli.cluster:clean",
    "autoscale": "grass.cli.autoscale:autoscale",
    "backup": "grass.cli.backup:backup",
    "restore": "grass.cli.backup:restore",
    "cluster": "grass.cli.cluster_logs:cluster",
    "cost": "grass.cli.cost:cost",
    "job": "grass.cli.job:job",
    "apply": "grass.cli.apply:apply",
    "export": "grass.cli.export:export",
    "run": "grass.cli.run:run",
    "notebook": "grass.cli.notebook:notebook",
    "tensorboard": "grass.cli.notebook:tensorboard",
    "queue": "grass.cli.queue:queue",
    "schedule": "grass.cli.schedule:schedule",
    "node": "grass.cli.node:node",
    "kubernetes": "grass.cli.kubernetes:kubernetes",
    "user": "grass.cli.user:user",
    "login": "grass.cli.login:login",
    "logout": "grass.cli.login:logout",
    "join": "grass.cli.join:join",
    "leave": "grass.cli.leave:leave",
    "data": "grass.cli.data:data",
    "image": "grass.cli.image:image",
    "image-node": "grass.cli.image_node:image_node",
    "dashboard": "grass.cli.dashboard:dashboard",
    "shares": "grass.cli.shares:shares",
    "events": "grass.cli.events:events",
    "top": "grass.cli.top:top",
    "report": "grass.cli.report:report",
    "template": "grass.cli.template:template",
    "doctor": "grass.cli.doctor:doctor",
    "completion": "grass.cli.completion:completion",
}
_NAME_A_CLUSTER = {"use", "start", "stop", "delete", "leave", "logout"}
"""Commands whose argument is a cluster."""
_SYSTEM_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors that another command line would not avoid."""

_ALIASES = {"ls": "job list", "ps": "job list", "logs": "job logs"}
_ELSEWHERE = {
    **dict.fromkeys(("submit", "sbatch", "qsub", "bsub", "launch", "deploy"), "job start FILE"),
    **dict.fromkeys(("srun", "salloc", "shell", "repl"), "run -- COMMAND"),
    **dict.fromkeys(("squeue", "qstat", "bjobs", "jobs", "runs", "get", "list"), "job list"),
    **dict.fromkeys(("cancel", "scancel", "qdel", "bkill", "kill"), "job stop NAME"),
    **dict.fromkeys(("sinfo", "nodes", "hosts"), "node list"),
    **dict.fromkeys(("sacct", "describe", "inspect"), "job show NAME"),
    **dict.fromkeys(("init", "up", "setup", "server", "create-cluster"), "create"),
    **dict.fromkeys(("down", "destroy"), "delete"),
    **dict.fromkeys(("attach", "sattach", "follow", "tail"), "job logs NAME -f"),
    **dict.fromkeys(("upload", "cp", "sync", "sbcast"), "data push"),
    **dict.fromkeys(("download", "fetch"), "job pull NAME"),
    **dict.fromkeys(("ui", "web", "serve"), "dashboard"),
    **dict.fromkeys(("jupyter", "lab"), "notebook"),
    **dict.fromkeys(("whoami", "info"), "status"),
    **dict.fromkeys(("sprio", "sshare", "quota"), "shares"),
    "scontrol": "job set NAME",
    "sstat": "job usage NAME",
    "rm": "job delete NAME",
    "version": "--version",
    "help": "--help",
    "crontab": "schedule start FILE",
    "alloc": "node add HOST",
    "contexts": "use",
}
"""Words of Slurm, HyperQueue, dstack, docker and others for what has another name here."""
_SECTIONS = {
    "Work": ("run", "job", "notebook", "tensorboard", "apply", "export", "schedule", "queue"),
    "Files": ("data", "image", "template"),
    "See": ("status", "events", "top", "dashboard", "shares", "cost", "report"),
    "Clusters": ("create", "stop", "start", "use", "delete", "clean", "backup", "restore", "doctor", "cluster"),
    "Machines": ("node", "image-node", "autoscale", "join", "leave", "kubernetes"),
    "People": ("user", "login", "logout"),
}


@click.group(
    cls=Group,
    lazy=_COMMANDS,
    aliases=_ALIASES,
    sections=_SECTIONS,
    elsewhere=_ELSEWHERE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="grass", message="%(prog)s %(version)s")
def grass() -> None:
    """Run distributed jobs on the machines you have.

    \b
    grass create                    a cluster on this machine
    grass template job > job.yml    a job file to start from
    grass job start job.yml         run it
    grass job logs NAME -f          see what it prints
    grass run -- python train.py    one command, followed to its end
    """


class Terminated(KeyboardInterrupt):
    """TERM: ends a command as Ctrl-C does, with another exit code."""


def on_term(number: int, frame: FrameType | None) -> NoReturn:
    """Handle the signal TERM."""
    raise Terminated


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `grass` and end the process at once: shutting the interpreter down would take a sixth of a short call."""
    code = execute(sys.argv[1:] if arguments is None else list(arguments))
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def execute(arguments: list[str]) -> int:
    """Run one command line and return its exit code. Every error has been printed before the return."""
    output = Output(_or_nowhere(sys.stdout), _or_nowhere(sys.stderr), wanted_format(arguments))
    invocation = Invocation(output)
    try:
        code = _guarded(invocation, arguments)
    except OutputClosedError:
        _silence_standard_streams()
        return Exit.PIPE_CLOSED
    finally:
        invocation.close()
    return code


def _or_nowhere(stream: TextIO | None) -> TextIO:
    """Replace a missing stream. Python sets it to None if its descriptor was closed at start (``grass … >&-``)."""
    return stream if stream is not None else Path(os.devnull).open("w", encoding="utf-8")


def _guarded(invocation: Invocation, arguments: list[str]) -> int:
    output = invocation.output
    try:
        code = grass.main(arguments, prog_name="grass", standalone_mode=False, obj=invocation)
        output.close()
        return int(code or Exit.OK)
    except OutputClosedError:
        raise
    except click.exceptions.NoArgsIsHelpError as error:
        output.verbatim(error.format_message())
        return Exit.BAD_INPUT
    except click.ClickException as error:
        output.error(_usage(error, arguments), code="bad-input")
        return Exit.BAD_INPUT
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        return _interrupted(output, error)
    except GrassError as error:
        problems = error.problems if isinstance(error, ManifestError) else []
        wire = [{"path": problem.path, "message": problem.message} for problem in problems]
        output.error(f"{error}{_hint(str(error), arguments)}", code=error.code, problems=wire)
        _show_if_debugging(invocation)
        return error.exit_code
    except OSError as error:
        output.error(_system_error(error), code="system")
        _show_if_debugging(invocation)
        return Exit.SYSTEM if error.errno in _SYSTEM_FAULTS else Exit.BAD_INPUT
    except Exception as error:  # noqa: BLE001 the last line of defence: a user never sees a raw traceback
        return _defect(invocation, error)


def _interrupted(output: Output, error: BaseException) -> int:
    """Say what a change that was on its way may still do. click raises Abort because of a KeyboardInterrupt."""
    causes = list(_causes(error))
    text = next((str(each) for each in causes if isinstance(each, ChangeInterrupted)), "interrupted")
    output.error(text, code="interrupted")
    return Exit.TERMINATED if any(isinstance(each, Terminated) for each in causes) else Exit.INTERRUPTED


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _hint(message: str, arguments: Sequence[str]) -> str:
    """Return the end of an error's message if MARO's order of words was used: the cluster before the job or file."""
    if _NAME_A_CLUSTER.intersection(arguments[:1]):
        return ""
    extra = message.startswith("Got unexpected extra argument")
    for before, word in zip(["", *arguments], arguments, strict=False):
        meant = before != "--cluster" and (extra or f" {word}:" in f" {message}")
        if meant and is_name(word) and environment.cluster_home(word).is_dir():
            return f". {word} is a cluster: write `--cluster {word}`"
    return ""


def _usage(error: click.ClickException, arguments: Sequence[str]) -> str:
    """Return the message of a usage error, with a pointer to the help."""
    message = error.format_message()
    message += _hint(message, arguments)
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message}\nsee `{context.command_path} --help`"


def _system_error(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _show_if_debugging(invocation: Invocation) -> None:
    if invocation.debug:
        import traceback

        invocation.output.verbatim(traceback.format_exc())


def _defect(invocation: Invocation, error: Exception) -> int:
    saved = _save_traceback()
    where = f"the traceback is in {saved}" if saved else "the traceback could not be saved; --debug shows it"
    invocation.output.error(f"Grass failed unexpectedly ({type(error).__name__}: {error}); {where}", code="defect")
    _show_if_debugging(invocation)
    return Exit.DEFECT


def _save_traceback() -> Path | None:
    import traceback

    text = f"grass {__version__} {' '.join(sys.argv[1:])}\n{traceback.format_exc()}"
    try:
        folder = environment.grass_home() / "errors"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"cli-{int(clock.wall())}-{os.getpid()}.txt"
        path.write_text(text, errors="backslashreplace")
    except OSError:
        return _save_elsewhere(text)
    return path


def _save_elsewhere(text: str) -> Path | None:
    import tempfile

    try:
        descriptor, path = tempfile.mkstemp(prefix="grass-error-", suffix=".txt")
    except OSError:
        return None
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    return Path(path)


def _silence_standard_streams() -> None:
    """Redirect stdout and stderr, so that the final flush of the interpreter cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def wanted_format(arguments: Sequence[str]) -> Format:
    """Return the output format before the command line is parsed, because usage errors use this format, too."""
    words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    for word, following in zip(words, [*words, ""][1:], strict=True):
        for format in Format:
            if word in (f"-o{format.value}", f"--output={format.value}"):
                return format
            if word in ("-o", "--output") and following == format.value:
                return format
    return Format.TABLE
