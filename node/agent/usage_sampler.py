"""The usage stream of this node: every 2 s one sample of the machine and of each running attempt. Used by
``this_machine``.

It has a thread of its own, which also writes to redis, so the loop never waits for either. While redis is away, samples
are dropped: histories have a gap then. Totals of attempts are kept, in a file, too, until the attempt is forgotten, so
that neither that nor a killed node-agent loses them.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from grass.errors import GrassError, UndecodableError
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.wire.codec import Form, encode
from grass.wire.gpu import GpuSample
from grass.wire.usage import NodeSample, TaskSample, TaskTotals, UsageSample
from node.agent import container_usage
from node.agent.gpu_usage import GpuReading
from node.agent.machine_usage import MachineUsage
from node.agent.own_figures import OwnFigures
from node.agent.task_processes import TaskProcesses, Used, disk_bytes
from node.agent.usage_ledger import TaskGpus, UsageLedger
from node.runtime.shepherd_messages import Spent

EVERY = 2.0
"""Seconds between samples."""
SOONEST = 0.25
"""Seconds between samples when an attempt has ended that reported figures."""
_TOTALS: Form[dict[str, TaskTotals]] = Form(dict[str, TaskTotals])

log = logging.getLogger(__name__)


class FirstProcess(NamedTuple):
    """The first process of an attempt. ``since``: the steady time of its start."""

    pid: int
    since: float


class Running(msgspec.Struct, frozen=True):
    """A running attempt: its first process, (device id, thousandths) of the GPUs that are allocated to it, and the
    first process of each command that a launcher runs in it."""

    first: FirstProcess
    gpus: tuple[tuple[int, int], ...] = ()
    commands: Sequence[int] = ()


class Container(msgspec.Struct):
    """The first process and the control groups of an attempt that is a container.

    ``descriptor``: a pidfd of its first process, which is readable as soon as that has ended.
    """

    pid: int
    groups: dict[str, str]
    descriptor: int
    used: Used


class UsageSampler:
    """The thread that samples and sends.

    ``running``: the running attempts, by key; may be called in any thread. ``send`` writes a sample to redis.

    ``gpus`` returns the newest figures of the devices. ``seen`` gets the attempts of all their processes, by pid.
    """

    def __init__(
        self,
        folder: Path,
        running: Callable[[], Mapping[str, Running]],
        gpus: Callable[[], GpuReading],
        send: Callable[[UsageSample], None],
        own: OwnFigures,
        seen: Callable[[Mapping[int, str]], None] = lambda owners: None,
    ) -> None:
        self._running = running
        self._gpus = gpus
        self._send = send
        self._own = own
        self._seen = seen
        self._file = folder / "usage.json"
        self._folder = folder
        self._processes = TaskProcesses(str(folder / "attempts"))
        self._containers: dict[str, Container] = {}
        self._processes_only: set[str] = set()
        """Attempts that are not containers."""
        self._lock = threading.Lock()
        """Protects the ledger, which the loop uses, too."""
        self._ledger = UsageLedger()
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._stopping = self._early = False
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        self._silent = False
        self._machine: MachineUsage | None = None
        self.node: NodeSample | None = None
        """The newest sample of the machine. None: it cannot be measured, or not yet."""
        self._broken = False

    def start(self) -> None:
        """Measure the machine once, then continue in a thread. Call it once the node's folder exists."""
        self._ledger = UsageLedger(_stored(self._file))
        self._turn()
        self._thread.start()

    def stop(self) -> None:
        """End without waiting for a write that is in progress."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)

    def soon(self) -> None:
        """Take the next sample now. For any thread."""
        self._early = True
        os.eventfd_write(self._wake, 1)

    def listed(self, keys: list[str]) -> None:
        """Note which attempts exist: all that the runtime knows."""
        with self._lock:
            self._ledger.keep_only(keys)

    def totals_at_end(
        self, key: str, spent: Spent | None, gpus: tuple[tuple[int, int], ...] = (), since: float | None = None
    ) -> TaskTotals | None:
        """Return what an attempt used that has ended. ``gpus``: as in ``Running``. ``since``: steady time of its start;
        None: not known."""
        now = clock.steady()
        devices = TaskGpus(gpus, now if since is None else since, self._gpus().metered)
        with self._lock:
            return self._ledger.close(key, spent, devices, now)

    def forget(self, keys: list[str]) -> None:
        """Forget attempts whose end the master has noted."""
        with self._lock:
            self._ledger.forget(keys)
        for key in keys:
            self._own.forget(key)

    def _run(self) -> None:
        taken = clock.steady()
        while not self._stopping:
            due = taken + (SOONEST if self._early else EVERY)
            for ready, _ in self._selector.select(max(0.0, due - clock.steady())):
                if ready.data is not None:
                    self._last_look(ready.data)
                elif not self._stopping:
                    os.eventfd_read(self._wake)
            if clock.steady() >= due:
                taken, self._early = clock.steady(), False
                self._turn()
        for key in list(self._containers):
            self._leave(key)

    def _turn(self) -> None:
        """Take a sample. A machine that cannot be measured runs its tasks all the same."""
        try:
            if self._machine is None:
                self._machine = MachineUsage(self._folder)
                self.node, _ = self._machine.sample()  # the first interval begins now
            else:
                self._sample(self._machine)
        except Exception:
            if not self._broken:
                log.exception("the usage of this node cannot be measured; its tasks go on")
            self._broken = True
            self.node = None
            return
        self._broken = False

    def _sample(self, machine: MachineUsage) -> None:
        samples, gpus, metered = self._gpus()
        running = self._running()
        used = self._measure(running)
        node, interval = machine.sample(gpus)
        self.node = node
        memory = _gpu_memory(samples, self._processes.owners)
        tasks: list[TaskSample] = []
        with self._lock:
            still = self._running()
            for key, attempt in running.items():
                if key in still:  # otherwise it ended meanwhile, and its account is closed
                    used_memory = memory.get(key, 0 if attempt.gpus else None)
                    devices = TaskGpus(attempt.gpus, attempt.first.since, metered, used_memory)
                    tasks.append(self._ledger.add(key, used[key], interval, devices))
            totals = self._ledger.totals()
        self._store(totals)
        reported = self._own.drain()
        if not self._write(UsageSample(round(clock.wall(), 3), node, tuple(tasks), *reported)):
            self._own.take_back(reported)

    def _measure(self, running: Mapping[str, Running]) -> dict[str, Used]:
        commands = {pid: key for key, attempt in running.items() for pid in attempt.commands}
        used = self._processes.scan({key: attempt.first.pid for key, attempt in running.items()}, commands)
        self._seen(self._processes.owners)
        for key in [key for key in self._containers if key not in running]:
            self._leave(key)
        self._processes_only &= running.keys()
        for key, attempt in running.items():
            if key in self._processes_only:
                continue
            container = self._containers.get(key) or self._enter(key, attempt.first.pid)
            if container is not None:
                container.used = container_usage.measure(container.groups, used[key])
                used[key] = container.used
        return used

    def _enter(self, key: str, pid: int) -> Container | None:
        """Watch the first process of a container, to read its control groups once more before they are removed."""
        groups = container_usage.groups_of(pid)
        if groups is None:
            self._processes_only.add(key)
            return None
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return None
        container = self._containers[key] = Container(pid, groups, descriptor, Used())
        self._selector.register(descriptor, selectors.EVENT_READ, key)
        return container

    def _last_look(self, key: str) -> None:
        """Read the control groups of a container whose first process has just ended.

        Control groups of version 1 do not count what goes through the page cache; the process does.
        """
        container = self._containers[key]
        read, written = disk_bytes([container.pid])
        before = container.used
        latest = structs.replace(before, read=max(before.read, read), written=max(before.written, written))
        used = container_usage.measure(container.groups, latest)
        with self._lock:
            self._ledger.raise_to(key, used)
        self._selector.unregister(container.descriptor)
        os.close(container.descriptor)
        container.descriptor = -1

    def _leave(self, key: str) -> None:
        container = self._containers.pop(key)
        if container.descriptor >= 0:
            self._selector.unregister(container.descriptor)
            os.close(container.descriptor)

    def _store(self, totals: Mapping[str, TaskTotals]) -> None:
        with suppress(OSError):  # a full disk; the totals are in memory
            replace_file(self._file, encode(totals))

    def _write(self, sample: UsageSample) -> bool:
        """Send a sample. Return False if redis is away."""
        try:
            self._send(sample)
        except GrassError as error:
            if not self._silent:
                log.warning("the usage of this node is not recorded: %s", error)
            self._silent = True
            return False
        self._silent = False
        return True


def _gpu_memory(samples: tuple[GpuSample, ...], owners: Mapping[int, str]) -> dict[str, int]:
    """Return the bytes that the processes of each attempt use on GPUs."""
    found: dict[str, int] = {}
    for sample in samples:
        for process in sample.processes:
            key = owners.get(process.pid)
            if key is not None:
                found[key] = found.get(key, 0) + (process.memory or 0)
    return found


def _stored(file: Path) -> dict[str, TaskTotals]:
    try:
        return _TOTALS.decode(file.read_bytes())
    except (OSError, UndecodableError):
        return {}
