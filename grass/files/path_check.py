"""Check before a transfer of rsync's daemon that all paths lie in the share. ``pre-xfer exec`` of ``rsyncd.conf``.

The daemon lets no ``..`` lead out of a module. But the daemon follows symbolic links in a path, and tasks may put any
link into the share. This module therefore resolves every requested path first. A path that leads out ends the transfer
before it begins (exit code 1). Inside a folder, rsync copies links as links; the configuration refuses the options that
would follow links. Called by rsync's daemon on the master.

With ``--user NAME JOB``, the path must also be one that this user may reach, in the folder of no other job than JOB
(``-``: of none). With ``--viewer NAME``, the transfer must be a pull. Here that is for the message only: the kernel
keeps the transfer of such a user to the folders (``landlock``), and rsync's daemon is read-only for a viewer.

The module is started again for each transfer, so it must import little. It runs isolated (``-I``), because its working
folder may be the share.
"""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from grass.errors import InputError
from grass.files import paths, rights
from grass.system.environment import whole_environment

_CLEAR = re.compile(r"--[a-z0-9-]+=.*|-(?=\w)[^\WBTMfe_]*(e[.\w]+)?", re.DOTALL)
"""Options that carry their value, and letters that have none. ``e`` may follow, with what the client is able to do."""
_FLAG = re.compile(
    "--(server|sender|append|copy-devices|delay-updates|delete|delete-(after|before|delay|during|excluded|missing-args)"
    "|existing|force|from0|fsync|fuzzy|ignore-(errors|existing|missing-args)|inplace|list-only|mkpath|msgs2stderr"
    "|munge-links|new-compress|no-(W|i-r|implied-dirs|msgs2stderr|r|specials)|numeric-ids|old-compress|open-noatime"
    "|partial|preallocate|remove-(sent|source)-files|safe-links|size-only|specials|stats|use-qsort|write-devices)"
)
"""Options without a value that clients of any version send."""
_WITH_VALUE = re.compile("--((backup|partial|temp)-dir|(compare|copy|link)-dest|files-from)")
"""Options whose value is the next word."""


def outside(root: Path, module: str, arguments: Iterable[str]) -> str | None:
    """Return the first of rsync's arguments that names a path outside ``root``, or None. ``module``: the module's name.

    Every word is treated as a path, and so is the text after a ``=``. A word that is not a path lies inside and does no
    harm.
    """
    real = root.resolve()
    for argument in arguments:
        for path in _paths(argument, module):
            for each in (path, *glob.glob(str(root / path))):  # noqa: PTH207 (any pattern, also a bad one)
                found = (root / each).resolve()
                if found != real and real not in found.parents:
                    return path
    return None


def _paths(argument: str, module: str) -> Iterator[str]:
    if argument.startswith("-"):
        _, sign, argument = argument.partition("=")
        if not sign:
            return
    path = argument.lstrip("/")
    yield path
    if path.startswith(f"{module}/"):
        yield path.removeprefix(f"{module}/").lstrip("/")


def asked(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield ``RSYNC_ARG1`` and so on, and ``RSYNC_REQUEST``. The latter may hold several paths: as one, and each."""
    yield from arguments(environ)
    request = environ.get("RSYNC_REQUEST", "")
    yield from (request, *request.split())


def arguments(environ: Mapping[str, str]) -> Iterator[str]:
    number = 1
    while (argument := environ.get(f"RSYNC_ARG{number}")) is not None:
        yield argument
        number += 1


def not_theirs(user: str, job: str, arguments: Iterable[str]) -> str:
    """Return why the user may not reach one of the paths; empty: nothing is wrong.

    A push changes them, and a pull (``--sender``) reads them. The client writes ``MODULE/./PATH``. Not every version of
    rsync leaves out the module here.
    """
    words = list(arguments)
    if unknown := _unknown(words):
        return f"{unknown}: this option of rsync is for administrators; use `grass data`"
    options, named = words[: words.index(".")], words[words.index(".") + 1 :]
    refusal = rights.read_refusal if "--sender" in options else rights.write_refusal
    for word in named:
        try:
            path = paths.to_read(word.removeprefix(f"{rights.DATA}/./"))
        except InputError as error:
            return str(error)
        if said := refusal(user, path):
            return said
        if rights.job_of(path) not in ("", job):
            return f"{path}: the transfer did not name this job when it began; update Grass on your machine"
    return ""


def _unknown(words: list[str]) -> str:
    """Return the first word for which it is not certain what rsync takes it for; empty: all are clear.

    Then the paths are what follows the first ``.``, as here. Otherwise a client could hide a path among the options, or
    have an option take the ``.``: the kernel would let nobody read or write the file, but change its mode and times.
    """
    left = iter(words)
    for word in left:
        if word == ".":
            return "" if next(left, "") else "no path"
        if _WITH_VALUE.fullmatch(word):
            value = next(left, "-")
            if value.startswith("-") or value == ".":
                return word
        elif not (_FLAG.fullmatch(word) or _CLEAR.fullmatch(word)):
            return word
    return "no path"


def main(options: list[str]) -> int:
    environ = whole_environment()
    root, module = environ["RSYNC_MODULE_PATH"], environ["RSYNC_MODULE_NAME"]
    path = outside(Path(root), module, asked(environ))
    said = "" if path is None else f"{path} leaves the share by a symbolic link"
    words = list(arguments(environ))
    match options:
        case ["--user", user, job] if not said and module == rights.DATA:
            said = f"{rights.NOT_ALLOWED}{wrong}" if (wrong := not_theirs(user, job, words)) else ""
        case ["--viewer", user] if not said and "--sender" not in words:
            said = f"{rights.NOT_ALLOWED}user {user}: a viewer changes no files"
    if said:
        sys.stdout.write(f"{said}\n")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
