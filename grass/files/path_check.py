"""Check before a transfer of rsync's daemon that all paths lie in the share. ``pre-xfer exec`` of ``rsyncd.conf``.

The daemon lets no ``..`` lead out of a module. But the daemon follows symbolic links in a path, and tasks may put any
link into the share. This module therefore resolves every requested path first. A path that leads out ends the transfer
before it begins (exit code 1). Inside a folder, rsync copies links as links; the configuration refuses the options that
would follow links.

The module is started anew for each transfer, so it must import little. It runs isolated (``-I``), because its working
folder may be the share.
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from grass.environment import whole_environment


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
    number = 1
    while (argument := environ.get(f"RSYNC_ARG{number}")) is not None:
        yield argument
        number += 1
    request = environ.get("RSYNC_REQUEST", "")
    yield from (request, *request.split())


def main() -> int:
    environ = whole_environment()
    root, module = environ["RSYNC_MODULE_PATH"], environ["RSYNC_MODULE_NAME"]
    path = outside(Path(root), module, asked(environ))
    if path is None:
        return 0
    sys.stdout.write(f"{path} leaves the share by a symbolic link\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
