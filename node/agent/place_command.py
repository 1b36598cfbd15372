"""Runs ``topology_command`` of the settings once, when the node-agent starts. Used by ``this_machine``.

It runs in a thread, because a program on a file server that does not answer cannot even be killed. The last good answer
is kept in the node's folder: when a service of the lab is down as all machines start, ranks and racks stay known.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from grass.model.names import topology_path
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.atomic_file import replace_file
from node.agent.child_programs import ChildPrograms
from node.agent.place import NOWHERE, Place, place_of, place_said

SECONDS = 5.0
"""Most seconds that the command may take."""
MOST_OUTPUT = 4096
"""Bytes of output and of errors that are read; the rest is dropped."""


class PlaceCommand:
    """The command of one node, and its last answer.

    ``environment``: of the command, which also has ``GRASS_NODE``, the node's name.
    """

    def __init__(self, config: NodeHome, environment: Mapping[str, str]) -> None:
        node = config.node
        self._argv = [] if place_of(node, NOWHERE) != NOWHERE else list(node.topology_command)
        self._environment = {**environment, "GRASS_NODE": node.name}
        self._kept = config.node_dir / "topology"
        self._now = NOWHERE
        self._answered = threading.Event()

    def start(self) -> None:
        """Run the command, and wait for its answer. One that comes later is in the next hello."""
        if self._argv:
            self._now = self._or_kept(place_said(None, "", "", SECONDS))
            threading.Thread(target=self._run, name="topology", daemon=True).start()
            self._answered.wait(SECONDS + 0.5)

    def now(self) -> Place:
        return self._now

    def _run(self) -> None:
        place = said(self._argv, self._environment)
        if place.path:
            with suppress(OSError):  # the disk is full
                replace_file(self._kept, "/".join(place.path).encode())
        self._now = place if place.path else self._or_kept(place)
        self._answered.set()

    def _or_kept(self, failed: Place) -> Place:
        """Return the last good answer, if there is one, with why it is not the present one."""
        path = _read_kept(self._kept)
        return Place(path, f"from an earlier start; now {failed.note}") if path else failed


def said(argv: list[str], environment: Mapping[str, str], seconds: float = SECONDS) -> Place:
    """Run the command and return what it says. Its whole process group is killed afterwards."""
    programs, until = ChildPrograms(), clock.steady() + seconds
    output, out = os.pipe()
    errors, err = os.pipe()
    try:
        try:
            program = programs.start(
                argv, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd="/"
            )
        except (OSError, ValueError) as error:
            return Place(note=f"topology_command cannot start: {error}")
        finally:
            os.close(out)
            os.close(err)
        texts = _read((output, errors), until)
        return place_said(program.wait(max(0.0, until - clock.steady())), *texts, seconds)
    finally:
        os.close(output)
        os.close(errors)
        programs.close()


def _read(descriptors: tuple[int, int], until: float) -> tuple[str, str]:
    """Return the first bytes of both streams, until their ends or the time ``until``."""
    texts, still = {each: b"" for each in descriptors}, list(descriptors)
    while still and (left := until - clock.steady()) > 0:
        for each in select.select(still, [], [], left)[0]:
            piece = os.read(each, 1 << 16)
            texts[each] = (texts[each] + piece)[:MOST_OUTPUT]
            if not piece:
                still.remove(each)
    first, second = (texts[each].decode(errors="replace") for each in descriptors)
    return first, second


def _read_kept(path: Path) -> tuple[str, ...] | None:
    try:
        return topology_path(path.read_text())
    except (OSError, UnicodeDecodeError):
        return None
