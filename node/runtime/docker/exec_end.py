"""Kill or signal a command in a container. The engine's API cannot do that. Used by ``execution``."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grass.errors import GrassError
from grass.lines import lines_of
from grass.system import clock

if TYPE_CHECKING:
    from node.runtime.docker.engine import Engine

_BEGIN_SECONDS = 5.0
"""Time within which a started command has a process."""
_LOOK_EVERY = 0.05


def kill(engine: Engine, container: str, execution: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Kill the command with its process group, if it runs. ``number``: another signal. Raises GrassError.

    This user may not kill a process of another user, so a `kill` runs in the container as the user of the command. Root
    would not do: without new privileges, root has no capabilities in a container of another user. If the container has
    no such program and the process belongs to another user, the command runs on.
    """
    pid = _pid(engine, execution)
    if pid is None:
        return
    group, user, name = _pid_inside(pid), _user_inside(pid), number.name.removeprefix("SIG")
    if group is not None and user is not None:
        for argv in (["/bin/sh", "-c", f"kill -{name} -{group}"], ["kill", f"-{name}", f"-{group}"]):
            with suppress(GrassError):  # there is no such program
                engine.begin(container, argv, user=str(user))
                return
    with suppress(OSError):
        os.kill(pid, number)


def _pid(engine: Engine, execution: str) -> int | None:
    """Return the pid of its process on this machine; None: it has ended."""
    until = clock.steady() + _BEGIN_SECONDS
    while True:
        found = engine.execution(execution)
        if found["Running"] and found["Pid"]:
            return int(found["Pid"])
        if found["ExitCode"] is not None or clock.steady() > until:
            return None
        clock.sleep(_LOOK_EVERY)


def _pid_inside(pid: int) -> int | None:
    """Return its pid inside the container, where each command leads a process group. None: not in a container, or
    gone."""
    with suppress(OSError):
        numbers = re.search(r"^NSpid:\t(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        inside = numbers[1].split() if numbers else []
        if len(inside) > 1 and inside[-1] != "1":  # the group -1 is everything
            return int(inside[-1])
    return None


def _user_inside(pid: int) -> int | None:
    """Return the user id of the process inside its container. None: the process is gone."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        user = re.search(r"^Uid:\t(\d+)", status, re.MULTILINE)
        for line in lines_of(Path(f"/proc/{pid}/uid_map").read_text()) if user else ():
            inside, outside, count = map(int, line.split())
            if user and outside <= int(user[1]) < outside + count:
                return inside + int(user[1]) - outside
    return None
