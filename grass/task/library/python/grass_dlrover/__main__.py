"""The master: ``python3 -m grass_dlrover``, in the task that Grass adds to a job with ``framework: dlrover``.

It may be killed at any time: every change is kept before its answer is sent (``keeping``), and the other tasks find the
next one (``agent``).
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time
import uuid

from grass_membership import Api

from grass_dlrover import VERSION
from grass_dlrover.answers import Answers
from grass_dlrover.keeping import REFRESH_SECONDS, Keeper, Superseded, job_uid
from grass_dlrover.members import read_groups
from grass_dlrover.server import Server, listen
from grass_dlrover.state import State

TURN = 0.5
"""Seconds between two looks at the memberships."""
UID_REFRESH = REFRESH_SECONDS


class Memberships:
    """The file with the memberships of the other tasks, which the node replaces when one changes."""

    def __init__(self, path):
        self._path, self._seen = pathlib.Path(path), None

    def changed(self):
        """Return the groups if they are others than at the last call; otherwise None."""
        try:
            found = self._path.stat()
            seen = (found.st_ino, found.st_mtime_ns)
            if seen == self._seen:
                return None
            groups = read_groups(json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None
        self._seen = seen
        return groups


def say(line):
    print(line, flush=True)  # noqa: T201 (the log of the task)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    api = Api()
    keeper, memberships = Keeper(api, uuid.uuid4().hex[:12]), Memberships(os.environ["GRASS_DLROVER_MEMBERS"])
    kept = keeper.read()
    answers = Answers(State(kept), keeper.write, say)
    port = int(os.environ.get("GRASS_PORT_DLROVER", "0"))
    listener = listen(port, os.environ.get("GRASS_DLROVER_ADDRESS", ""))
    server = Server(listener, job_uid(api, uuid.uuid4().hex), answers.of, say)
    say("master for DLRover %s on port %d, %s" % (VERSION, port, "continued" if kept else "new"))
    looked = -TURN
    while True:
        now = time.monotonic()
        if now - looked >= TURN:
            looked = now
            groups = memberships.changed()
            if groups is not None:
                answers.see(groups)
            keeper.refresh()
        server.turn(TURN)


if __name__ == "__main__":
    try:
        main()
    except Superseded as superseded:
        say("%s; this one ends" % superseded)
        sys.exit(0)
