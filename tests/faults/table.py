"""The matrix as data: what breaks, what is going on, and what must be true after. Read by the runner and the page."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grass.model.daemons import DAEMONS, REDIS, SUPERVISOR
from tests.faults.promise import Calls, Cell, NotHere, Promise, Tasks

QUEUED, IMAGE, STARTING, RUNNING, SCALING = "queued", "image loading", "starting", "running", "scaling"
STOPPING, LOGS, PUSH, EXEC = "stopping", "logs flowing", "data pushed", "exec open"
STATES = (QUEUED, IMAGE, STARTING, RUNNING, SCALING, STOPPING, LOGS, PUSH, EXEC)
ONE_MACHINE, HOSTS = "one machine", "hosts"
BEGUN = {STARTING, RUNNING, SCALING, LOGS}
"""States with tasks that have begun, which start again where their machine or its containers end."""
NO_IMAGES = NotHere("a cluster on one machine takes images from the machine's engine at once; see the rows of hosts")


@dataclass(frozen=True)
class Fault:
    """``bed``: where it is injected. ``promise``: what holds in each state that ``other`` does not name."""

    name: str
    bed: str
    promise: Promise
    other: tuple[tuple[str, Cell], ...] = ()

    def cell(self, state: str) -> Cell:
        if state == IMAGE and self.bed == ONE_MACHINE:
            return NO_IMAGES
        return dict(self.other).get(state, self.promise)

    def but(self, **cells: Cell) -> Fault:
        """Keys: states, with ``_`` for a space."""
        return replace(self, other=(*self.other, *((name.replace("_", " "), cell) for name, cell in cells.items())))


def starts_again(fault: Fault) -> Fault:
    """Tasks that run when the fault comes begin another attempt. Those that start or scale may not have begun."""
    again, either = (replace(fault.promise, tasks=tasks) for tasks in (Tasks.START_AGAIN, Tasks.EITHER))
    return fault.but(
        running=again, logs_flowing=again, exec_open=again, starting=either, scaling=either, image_loading=either
    )


def _breaks(heals: float, tasks: Tasks = Tasks.GO_ON) -> Promise:
    return Promise(heals, tasks, Calls.MAY_BREAK)


KILL_HEALS = 20.0
_CARRIES_CALLS = {"master-api-server", "node-api-server", SUPERVISOR}
"""Whose end may break an open command. The others are not on its way."""
KILLS = tuple(
    Fault(f"{name} killed", ONE_MACHINE, _breaks(KILL_HEALS) if name in _CARRIES_CALLS else Promise(KILL_HEALS))
    for name in (REDIS, SUPERVISOR, "guard", *(daemon.name for daemon in DAEMONS))
)
LOCAL = (
    *KILLS,
    Fault("all daemons killed at once", ONE_MACHINE, _breaks(30.0)),
    Fault("each daemon out of memory", ONE_MACHINE, _breaks(30.0)),
    Fault("disk full", ONE_MACHINE, replace(_breaks(30.0), writes=False)),
    Fault("inodes full", ONE_MACHINE, replace(_breaks(30.0), writes=False)),
    Fault("clock + 1 h", ONE_MACHINE, Promise(10.0)),
    Fault("clock - 1 h", ONE_MACHINE, Promise(10.0)),
    Fault("clock 10 % fast", ONE_MACHINE, Promise(10.0)),
    Fault("tail of redis' log cut", ONE_MACHINE, _breaks(30.0)),
    Fault("redis' log corrupt in the middle", ONE_MACHINE, _breaks(60.0)),
)
REMOTE = (
    Fault("each daemon of a node killed", HOSTS, _breaks(60.0)),
    Fault("each daemon of the master killed", HOSTS, _breaks(60.0)),
    Fault("node cut off", HOSTS, _breaks(60.0)),
    Fault("node paused", HOSTS, _breaks(60.0)),
    starts_again(Fault("node rebooted", HOSTS, _breaks(90.0))),
    starts_again(Fault("node powered off", HOSTS, _breaks(90.0))),
    Fault("master cut off", HOSTS, _breaks(60.0)),
    Fault("master rebooted", HOSTS, _breaks(90.0)),
    Fault("master powered off", HOSTS, _breaks(90.0)),
    Fault("slow link", HOSTS, _breaks(60.0)),
    Fault("30 % of packets lost", HOSTS, _breaks(60.0)),
    Fault("docker restarted", HOSTS, Promise(60.0)).but(image_loading=_breaks(60.0, Tasks.EITHER)),
    Fault("daemon-reload", HOSTS, Promise(30.0)),
    Fault("share gone for 5 s", HOSTS, Promise(60.0)),
    Fault("share gone for 60 s", HOSTS, Promise(90.0)),
    Fault("server of the share restarted", HOSTS, Promise(60.0)),
    Fault("certificate of a node expired", HOSTS, _breaks(60.0)),
    Fault("resolver away", HOSTS, Promise(30.0)),
)
FAULTS = {fault.name: fault for fault in (*LOCAL, *REMOTE)}


def chosen(only: str) -> list[tuple[Fault, tuple[str, ...]]]:
    """Return faults with states. ``only``: empty, ``FAULT`` or ``FAULT/STATE``. ValueError: not in the table."""
    name, _, state = only.partition("/")
    if name and name not in FAULTS:
        raise ValueError(f"no fault {name!r}; there are {', '.join(FAULTS)}")
    if state and state not in STATES:
        raise ValueError(f"no state {state!r}; there are {', '.join(STATES)}")
    found = [FAULTS[name]] if name else [*FAULTS.values()]
    return [(fault, can_try(fault, (state,) if state else STATES)) for fault in found]


def can_try(fault: Fault, states: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(state for state in states if isinstance(fault.cell(state), Promise))
