"""The docker runtime's memory of one attempt. State that must survive the node-agent is in the container itself.

Used by ``ends``, ``output``, ``runtime`` and ``starts``.
"""

from __future__ import annotations

import signal

from grass.model.reasons import Reason
from grass.system import clock
from node.runtime import control_groups
from node.runtime.docker import plan
from node.runtime.docker.engine_json import Answer
from node.runtime.docker.outcome import wall
from node.runtime.docker.streams import Log
from node.runtime.protocol import Observed, Start


class Container:
    """One attempt. ``id`` None: the engine was not asked to create it, or has not answered yet (``starting``)."""

    __slots__ = (
        "boot",
        "code",
        "ended",
        "group",
        "id",
        "image",
        "key",
        "kill_at",
        "killed",
        "launch",
        "log",
        "memory",
        "over",
        "pid",
        "prepared",
        "reason",
        "signal",
        "signalled",
        "since",
        "sizes",
        "start",
        "started",
        "starting",
        "stop_signal",
        "stopping",
        "waited",
        "with_engine",
    )

    def __init__(self, key: str, launch: str, start: Start | None = None) -> None:
        self.key = key
        self.launch = launch
        self.start = start
        self.starting = False
        self.id: str | None = None
        self.image = ""
        self.pid: int | None = None
        self.group = ""
        """Folder of its control group of processes; empty: not known."""
        self.started: float | None = None
        self.since: float | None = None
        self.stop_signal: int = signal.SIGTERM
        self.stopping = False
        self.kill_at: float | None = None
        self.reason: Reason | None = None
        self.ended: float | None = None
        self.code: int | None = None
        self.signal: int | None = None
        self.sizes: dict[str, int] | None = None
        self.log: Log | None = None
        self.over: Answer | None = None
        """The final state of its container, while the rest of its log is still being read."""
        self.memory = 0
        self.boot = clock.boot_id()
        """Boot of the machine in which it was started."""
        self.prepared: float | None = None
        """Wall time at which its image was there, if it had to wait for the image."""
        self.waited = False
        """Whether users were informed that it waits for its image."""
        self.signalled = False
        """Whether Grass sent it a signal."""
        self.killed = False
        """Whether somebody else sent it a signal through the engine, or the engine itself did."""
        self.with_engine = False
        """Whether it ended because its engine ends."""

    @property
    def runs(self) -> bool:
        """Return whether its container was started and its end is not known."""
        return self.id is not None and self.ended is None

    def update(self, inspected: Answer) -> None:
        """Take over the facts of its started container."""
        labels, state = inspected["Config"]["Labels"], inspected["State"]
        self.id, self.image = inspected["Id"], inspected["Image"]
        self.starting = False
        self.pid = state["Pid"] or None
        self.group = control_groups.processes_group(self.pid) if self.pid else ""
        self.started = wall(state["StartedAt"]) or clock.wall()
        self.memory = inspected["HostConfig"]["Memory"]
        self.boot = labels.get(plan.BOOT, "")
        self.stop_signal = signal.Signals[labels.get(plan.STOP_SIGNAL, "SIGTERM")]
        if self.since is None:
            self.since = clock.steady() - max(0.0, clock.wall() - self.started)

    @property
    def same_boot(self) -> bool:
        return self.boot == clock.boot_id()

    def observed(self) -> Observed:
        return Observed(
            self.key,
            self.pid,
            self.started,
            self.since if self.id is not None else None,
            self.stopping,
            self.ended,
            self.code,
            self.signal,
            self.reason,
            self.sizes,
            prepared=self.prepared,
            image=self.image or None,
        )
