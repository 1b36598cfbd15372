"""What a files key permits on the master host. Called by the forced command, ``grass.provision.files_command``.

Two things only. It runs rsync's daemon over the connection; the daemon's modules are the folders of the share, and no
path may leave them. It runs the ``operations``, with one request as JSON on stdin and one reply on stdout.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NoReturn

import msgspec

from grass.errors import GrassError, InputError, UndecodableError
from grass.files import share
from grass.files.operations import OPERATION, AnyOperation, OpenedFile, Problem, ReadFile, Reply
from grass.wire.codec import encode

RSYNC_DAEMON = ["rsync", "--server", "--daemon", "."]
COMMAND = "grass-files"
_JOB = "--grass-job="

_SETTINGS = (
    "use chroot = no",
    "munge symlinks = no",
    "numeric ids = yes",
    "log file = /dev/null",
    "refuse options = copy-links copy-unsafe-links copy-dirlinks keep-dirlinks",
)
_AS_ROOT = ["--dparam=uid=0", "--dparam=gid=0"]
"""Options for rsync as root: without them, rsync becomes the user nobody.

Only root may pass them, because rsync would try to switch users.
"""
MODULES = {"data": "", "images": "images"}
"""Module → folder of the share."""


def rsyncd_conf(
    folder: str, python: str, *, modules: Mapping[str, str] = MODULES, read_only: bool = False, options: str = ""
) -> str:
    """Return the configuration of rsync's daemon for the share at ``folder``.

    Symbolic links stay links; rsync removes the parts of their targets that lead out of the module. There is no chroot,
    which needs root. Instead ``path_check``, run by ``python``, checks each requested path. ``modules``: the name of
    each and its folder of the share. ``options``: of ``path_check``.
    """
    check = f"pre-xfer exec = {shlex.quote(python)} -I -m grass.files.path_check {options}".rstrip()
    lines = [*_SETTINGS, f"read only = {'yes' if read_only else 'no'}", check]
    for module, below in modules.items():
        lines += ["", f"[{module}]", f"path = {Path(folder) / below}"]
    return "\n".join(lines) + "\n"


def rsync_of(job: str) -> str:
    """Return the program that a client asks for to transfer files of a job's folder. The server starts rsync."""
    return f"{RSYNC_DAEMON[0]} {_JOB}{job}"


def asks_for_rsync(command: str) -> str | None:
    """Return the job whose folder the command names, empty if it names none; None: it does not ask for rsync."""
    words = command.split()
    named = words.pop(1).removeprefix(_JOB) if len(words) > 1 and words[1].startswith(_JOB) else ""
    return named if words == RSYNC_DAEMON else None


def become_rsync(config: Path) -> NoReturn:
    """Replace this process by rsync's daemon. Raises FileNotFoundError: there is no rsync."""
    user = [] if os.geteuid() else _AS_ROOT
    command = [*RSYNC_DAEMON[:-1], f"--config={config}", *user, "."]
    os.execvp(command[0], command)


def answer(folder: Path, request: AnyOperation | ReadFile, output: IO[bytes]) -> None:
    """Carry out a request, and write the reply and what follows it."""
    with ExitStack() as after:
        try:
            if isinstance(request, ReadFile):
                content = after.enter_context(share.open_file(folder, request.path))
                after.callback(shutil.copyfileobj, content, output)
                said = _reply(OpenedFile(os.fstat(content.fileno()).st_size))
            else:
                said = _reply(share.carry_out(folder, request))
        except GrassError as error:
            said = refusal(error)
        output.write(f"{encode(said)}\n".encode())


def read_request(text: str) -> AnyOperation | ReadFile:
    """Decode a request. Raises InputError."""
    try:
        return OPERATION.decode(text)
    except UndecodableError as error:
        raise InputError(f"the version of Grass on the master does not know the request ({error})") from error


def refusal(error: GrassError) -> Reply:
    return Reply(error=Problem(error.code, str(error)))


def _reply(value: object) -> Reply:
    return Reply(answer=msgspec.Raw(encode(value).encode()))
