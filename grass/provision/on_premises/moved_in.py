"""Puts the state that a move brought into the folder of the new master: the part of `grass cluster move` that runs on
its machine, as user `grass`: ``python -m grass.provision.on_premises.moved_in``, with ``MovedIn`` as JSON on stdin.

It can be cut off at any moment, and run again: ``moved-from`` comes with the state, and says that it is in place.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import msgspec

from grass.config import ClusterConfig
from grass.errors import GrassError, InputError
from grass.provision.backup import restoring
from grass.provision.filelock import file_lock
from grass.provision.on_premises.backup_on_host import RESTORED_FROM
from grass.provision.on_premises.facts import REPLACED_BY
from grass.provision.on_premises.on_host import MOVED_AS, STARTED
from grass.supervision import predecessor
from grass.supervision.moved import MOVED_TO, count_move
from grass.wire.codec import Form

MOVED_FROM = "moved-from"
"""File of a master that was moved: the id of that move."""
_PATIENCE = 600.0


class MovedIn(msgspec.Struct, frozen=True):
    """Input of ``put_in_place``.

    ``staged``: the folder with the files of the old master. ``config``: of the new one. ``id``: of the move.
    ``predecessor``: address of the redis of the old master."""

    staged: str
    config: ClusterConfig
    id: str
    predecessor: str


MOVED_IN: Form[MovedIn] = Form(MovedIn)


def put_in_place(asked: MovedIn) -> None:
    staged, folder = Path(asked.staged), Path(asked.config.home)
    with file_lock(folder.parent / f".move-{asked.config.name}.lock", _PATIENCE):
        if is_in_place(folder, asked.id):
            return
        if not (staged / "secrets.json").exists() and not (folder / restoring.INTERRUPTED).exists():
            raise InputError(f"{staged}: the files of the old master are not there; run the same command again")
        (folder / restoring.INTERRUPTED).touch()
        for name in (
            "made",
            STARTED,
            REPLACED_BY,
            MOVED_TO,
            MOVED_AS,
            RESTORED_FROM,
        ):  # what they say is of the time before
            (folder / name).unlink(missing_ok=True)
        (staged / MOVED_FROM).write_text(asked.id)
        if (staged / "master").is_dir():
            count_move(staged / "master")
        before = predecessor.listed(staged) or predecessor.listed(folder)
        predecessor.write(staged, (*before, asked.predecessor), asked.config)
        asked.config.save(staged / "cluster.json")
        restoring.place(staged, folder)
        shutil.rmtree(staged, ignore_errors=True)


def is_in_place(folder: Path, id: str) -> bool:
    path = folder / MOVED_FROM
    return path.exists() and path.read_text() == id and not (folder / restoring.INTERRUPTED).exists()


def main(text: str) -> int:
    try:
        put_in_place(MOVED_IN.decode(text))
    except (GrassError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code if isinstance(error, GrassError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
