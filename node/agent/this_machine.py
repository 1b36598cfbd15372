"""The machine that the node-agent runs on: its resources, its conditions, and what attempts use of it.

Made by ``node.agent.__main__``. The GPU thread and the usage sampler read the running attempts in their own threads.
"""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import grass
from grass.model.reasons import Reason
from grass.model.resources import DEVICE, Resources
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.usable_resources import machine_memory, usable_cpu
from grass.wire.desired import DesiredAttempt
from grass.wire.gpu import GpuDevice
from grass.wire.heartbeat import Network, NodeUsage
from grass.wire.hello import Probe
from grass.wire.usage import TaskTotals, UsageSample
from node.agent import labels
from node.agent.conditions import Conditions
from node.agent.event_files import EventFiles
from node.agent.figures_socket import FiguresSocket, has_files
from node.agent.gpu import GpuWatch
from node.agent.machine import Offer
from node.agent.own_figures import OwnFigures
from node.agent.place_command import PlaceCommand
from node.agent.programs import Programs
from node.agent.stuck_tasks import StuckTasks
from node.agent.usage_sampler import FirstProcess, Running, UsageSampler
from node.agent.versions import Versions
from node.mounts import LISTING_KEPT, mount_of
from node.runtime import control_groups, task_commands
from node.runtime.attempts import Folders
from node.runtime.protocol import Observed


class ThisMachine:
    """A ``Machine``.

    ``changed`` is called, in a thread, when its conditions change. ``roots`` returns the processes that adopt the
    orphans of tasks. ``send`` writes a usage sample to redis. ``probe``: its result, for the hello. ``mounted``: the
    share's mount point when the node passed its probe.
    """

    def __init__(
        self,
        config: NodeHome,
        inherited: Mapping[str, str],
        gpus: Sequence[GpuDevice],
        changed: Callable[[], None],
        roots: Callable[[], Iterable[int]],
        send: Callable[[UsageSample], None],
        probe: Probe | None = None,
        mounted: str | None = None,
    ) -> None:
        self.environment = inherited
        self.visible_gpus = len(gpus)
        self._config = config
        self._gpus = gpus
        self._roots_of_runtime = roots
        self._probe = probe
        self._programs = Programs(inherited.get("PATH"))
        self._versions = Versions(config.node.runtimes, gpus)
        self._place = PlaceCommand(config, inherited)
        self._conditions = Conditions(config, changed, mounted)
        self._desired: Mapping[str, DesiredAttempt] = {}
        self._first: dict[str, FirstProcess] = {}
        """The running attempts."""
        self._stuck = StuckTasks()
        self._cannot_end: dict[str, Reason] = {}
        self.own_figures = OwnFigures(lambda: self._sampler.soon())
        self._figures = FiguresSocket(
            config.socket("figures"), has_files(Folders(str(config.node_dir / "attempts")).path), self.own_figures.found
        )
        self._watch = GpuWatch(gpus, self._roots)
        self._event_files = EventFiles(config.data_dir, config.node_dir / "event-files.json", self.own_figures)
        self._sampler = UsageSampler(
            config.node_dir, self._sampled, self._watch.reading, send, self.own_figures, self._event_files.seen
        )

    def start(self, desired: Mapping[str, DesiredAttempt]) -> None:
        self._desired = desired
        self._conditions.start()
        self._programs.start()
        self._versions.start()
        self._place.start()
        self._watch.start()
        self._sampler.start()
        self._event_files.start()
        if self._config.node.isolate is None:
            self._figures.start()

    def stop(self) -> None:
        parts = (self._figures, self._watch, self._sampler, self._conditions, self._programs, self._versions)
        for part in (*parts, self._event_files):
            part.stop()

    def offer(self) -> Offer:
        """Return what the machine has; its container, if it is one."""
        config, gpus = self._config, self._gpus
        share = mount_of(config.data_dir).kind if config.share is not None else ""
        resources = Resources(
            cpu=usable_cpu(), memory=machine_memory(), gpu=DEVICE * len(gpus), disk=free_disk(config.node_dir)
        )
        known = labels.found(platform.machine(), platform.system(), gpus, share)
        versions = {**self._versions.now(), **control_groups.limits(config.node_dir)}
        return Offer(resources, gpus, known, versions, self._probe, self._place.now())

    def machines(self) -> None:
        """It is one machine."""

    def usage(self) -> NodeUsage:
        free, gpus, sample = free_disk(self._config.node_dir), self._watch.reading().samples, self._sampler.node
        if sample is None:
            return NodeUsage(disk_free=free, gpus=gpus)
        return NodeUsage(
            cpu=sample.cpu,
            cores=sample.cores,
            memory=sample.memory,
            memory_total=sample.memory_total,
            load=sample.load,
            disk_free=free,
            disk_total=sample.disk_total,
            network=Network(sample.network_sent, sample.network_received),
            gpus=gpus,
        )

    def programs(self) -> tuple[str, ...] | None:
        return self._programs.now()

    def conditions(self) -> tuple[Reason, ...]:
        return (*self._conditions.now(), *self._cannot_end.values())

    def loss(self, begun: float, ended: float) -> Reason | None:
        return self._conditions.absences.loss(begun, ended)

    def seen_after(self) -> float:
        mounted = self._config.share is not None and mount_of(self._config.data_dir).through_fuse
        return LISTING_KEPT if mounted else 0.0

    def taken(self, ports: Mapping[str, int]) -> int | None:
        return next((port for port in ports.values() if _in_use(port)), None)

    def software(self, attempt: Observed) -> dict[str, str]:
        """Return the digest of its image, the driver of its GPUs, and the same for all attempts here. None of it is
        known later, once the node was upgraded."""
        entry = self._desired.get(attempt.key)
        own = {device for device, _ in entry.gpus} if entry else set()
        driver = next((gpu.driver for gpu in self._gpus if gpu.id in own and gpu.driver), None)
        known = {"image": attempt.image, "driver": driver, "grass": grass.__version__, "kernel": platform.release()}
        return {name: text for name, text in known.items() if text}

    def listed(self, keys: list[str]) -> None:
        self._sampler.listed(keys)

    def started(self, attempt: Observed) -> None:
        if attempt.pid is not None:
            since = clock.steady() if attempt.since is None else attempt.since
            self._first[attempt.key] = FirstProcess(attempt.pid, since)
        self._event_files.started(attempt)

    def stopping(self, key: str, grace: float) -> None:
        self._stuck.stop(key, grace)

    def cannot_end(self) -> dict[str, Reason]:
        before = self._cannot_end
        self._cannot_end = self._stuck.look({key: first.pid for key, first in self._first.items()})
        return {key: reason for key, reason in self._cannot_end.items() if before.get(key) != reason}

    def totals_at_end(self, attempt: Observed) -> TaskTotals | None:
        self._first.pop(attempt.key, None)
        self._stuck.forget(attempt.key)
        self.own_figures.end(attempt.key)
        self._event_files.ended(attempt)
        entry = self._desired.get(attempt.key)
        if entry is None:
            return None
        return self._sampler.totals_at_end(attempt.key, attempt.spent, entry.gpus, attempt.since)

    def forget(self, keys: list[str]) -> None:
        self._sampler.forget(keys)

    def _roots(self) -> list[int]:
        """Return the pids whose descendants belong to tasks: each task, and the process that adopts their orphans."""
        commands = chain.from_iterable(task_commands.pids(self._config).values())
        return [*(each.pid for each in self._first.copy().values()), *commands, *self._roots_of_runtime()]

    def _sampled(self) -> dict[str, Running]:
        """Return the running attempts. Called by the sampler's thread."""
        desired = ((key, first, self._desired.get(key)) for key, first in self._first.copy().items())
        commands = task_commands.pids(self._config)
        return {
            key: Running(first, entry.gpus, commands.get(key, ())) for key, first, entry in desired if entry is not None
        }


def free_disk(folder: Path) -> int:
    """Return the free bytes of the disk of ``folder``, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _in_use(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
        except PermissionError:
            return False  # below 1024: only the task itself can check
        except OSError:
            return True
    return False
