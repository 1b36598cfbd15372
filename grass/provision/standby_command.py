"""Forced command of the standby's key on the master: ``python -I -m grass.provision.standby_command CONFIG``.

sshd runs it as the user `grass`. It lets the standby read, with rsync, what makes a master: users, keys, certificates,
settings, the users of redis, and logs of tasks if this machine keeps them. Nothing is written here.
"""

from __future__ import annotations

import os
import re
import shlex
import sys

from grass.config import ClusterConfig
from grass.errors import InputError
from grass.supervision.standby import LOGS, STATE
from grass.system.environment import ssh_original_command

_OPTIONS = re.compile(r"-[DRglnoprtvz]+(e[A-Za-z0-9.]*)?")
"""Letters without a value, and after ``e`` what the client is able to do. Not ``s``, with which rsync takes other paths
from its input, nor those that follow links."""


def command_for(asked: str, config: ClusterConfig) -> tuple[str, list[str]]:
    """Return the folder in which rsync runs, and its arguments. Pure. Raises InputError: it is asked for more."""
    words = shlex.split(asked)
    end = words.index(".") if "." in words else 0
    options, paths = words[3:end], words[end + 1 :]
    is_state = bool(paths) and set(paths) <= set(STATE)
    if words[:3] != ["rsync", "--server", "--sender"] or not (is_state or paths == [LOGS]) or not _are_plain(options):
        raise InputError("this key is for the standby of a Grass cluster only")
    return config.home if is_state else str(config.data_dir), words


def _are_plain(options: list[str]) -> bool:
    """Return whether these are known letters only: others, and long options, could name other files."""
    return all(map(_OPTIONS.fullmatch, options))


def main(asked: str, path: str) -> int:
    try:
        folder, command = command_for(asked, ClusterConfig.load(path))
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    os.chdir(folder)
    os.execvp("rsync", command)  # checked above; sshd chose the PATH


if __name__ == "__main__":
    sys.exit(main(ssh_original_command(), sys.argv[1]))
