"""Forced command of the files key on the master host: ``python -m grass.files.serve SHARE RSYNCD_CONF``.

sshd runs this module as the user `grass` for each login with that key, and puts the requested command into
``SSH_ORIGINAL_COMMAND``. The module must do two things only. It runs rsync's daemon over this connection; the daemon's
modules are the folders of the share, and no path may leave them. It runs the ``operations``, with one request as JSON
on stdin and one reply on stdout.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import msgspec

from grass.environment import ssh_original_command
from grass.errors import GrassError, InputError, UndecodableError
from grass.files import share
from grass.files.operations import OPERATION, OpenedFile, Problem, ReadFile, Reply
from grass.wire.codec import encode

RSYNC_DAEMON = ["rsync", "--server", "--daemon", "."]
COMMAND = "grass-files"

_SETTINGS = (
    "use chroot = no",
    "munge symlinks = no",
    "read only = no",
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


def rsyncd_conf(folder: str, python: str) -> str:
    """Return the configuration of rsync's daemon for the share at ``folder``.

    Symbolic links stay links; rsync removes the parts of their targets that lead out of the module. There is no chroot,
    which needs root. Instead ``path_check``, run by ``python``, checks each requested path.
    """
    lines = [*_SETTINGS, f"pre-xfer exec = {shlex.quote(python)} -I -m grass.files.path_check"]
    for module, below in MODULES.items():
        lines += ["", f"[{module}]", f"path = {Path(folder) / below}"]
    return "\n".join(lines) + "\n"


def main(folder: str, rsyncd: str, asked: str) -> int:
    if asked.split() == RSYNC_DAEMON:
        user = [] if os.geteuid() else _AS_ROOT
        command = [*RSYNC_DAEMON[:-1], f"--config={rsyncd}", *user, "."]
        os.execvp(command[0], command)
    if asked.strip() != COMMAND:
        sys.stderr.write("this key is for the files of a Grass cluster only\n")
        return 2
    with ExitStack() as opened:
        said = reply(Path(folder), sys.stdin.read(), opened, sys.stdout.buffer)
        sys.stdout.buffer.write(f"{encode(said)}\n".encode())
    return 0


def reply(folder: Path, request: str, after: ExitStack, output: IO[bytes]) -> Reply:
    """Carry out a request. What follows the reply is written to ``output`` when ``after`` ends."""
    try:
        operation = OPERATION.decode(request)
        if isinstance(operation, ReadFile):
            content = after.enter_context(share.open_file(folder, operation.path))
            after.callback(shutil.copyfileobj, content, output)
            return Reply(answer=msgspec.Raw(encode(OpenedFile(os.fstat(content.fileno()).st_size)).encode()))
        answer = share.carry_out(folder, operation)
        return Reply(answer=msgspec.Raw(encode(answer).encode()))
    except UndecodableError as error:
        message = f"the version of Grass on the master does not know the request ({error})"
        return Reply(error=Problem(InputError.code, message))
    except GrassError as error:
        return Reply(error=Problem(error.code, str(error)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], ssh_original_command()))
