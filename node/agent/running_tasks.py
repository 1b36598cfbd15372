"""The running attempts: their first processes, what they use, and which of them cannot end. Used by ``loop``.

Decides nothing. The loop says what started, was told to stop, and ended. The GPU thread and the usage sampler read the
running attempts in their own threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from grass import clock
from grass.config import ClusterConfig
from grass.model.reasons import Reason
from grass.wire.desired import DesiredAttempt
from grass.wire.gpu import GpuDevice
from grass.wire.usage import TaskTotals, UsageSample
from node.agent.gpu import GpuWatch
from node.agent.own_figures import OwnFigures
from node.agent.stuck_tasks import StuckTasks
from node.agent.usage_sampler import FirstProcess, Running, UsageSampler
from node.runtime import task_commands
from node.runtime.protocol import Observed

Gpus = tuple[tuple[int, int], ...]
"""(device id, thousandths) of the GPUs that are allocated to an attempt."""


class RunningTasks:
    """The loop calls all methods.

    ``entries``: the desired attempts by key, kept up to date by their owner. ``roots`` returns the processes that adopt
    the orphans of tasks. ``send`` writes a usage sample to redis.
    """

    def __init__(
        self,
        config: ClusterConfig,
        gpus: Sequence[GpuDevice],
        entries: Mapping[str, DesiredAttempt],
        roots: Callable[[], Iterable[int]],
        send: Callable[[UsageSample], None],
    ) -> None:
        self._config = config
        self._entries = entries
        self._runtime_roots = roots
        self._first: dict[str, FirstProcess] = {}
        """The running attempts."""
        self._stuck = StuckTasks()
        self._cannot_end: dict[str, Reason] = {}
        self.own_figures = OwnFigures()
        self.gpus = GpuWatch(gpus, self._roots)
        self._sampler = UsageSampler(config.node_dir, self._running, self.gpus.reading, send, self.own_figures)

    def start(self) -> None:
        """Start the threads that measure. Call it once the node's folder exists."""
        self.gpus.start()
        self._sampler.start()

    def stop(self) -> None:
        """End the threads, without waiting for them."""
        self.gpus.stop()
        self._sampler.stop()

    def listed(self, keys: list[str]) -> None:
        """Note which attempts exist: all that the runtime knows."""
        self._sampler.listed(keys)

    def started(self, key: str, pid: int, since: float | None) -> None:
        """Note that an attempt runs. ``since``: steady time of its start; None: now."""
        self._first[key] = FirstProcess(pid, clock.steady() if since is None else since)

    def stopping(self, key: str, grace: float) -> None:
        """Note that an attempt gets TERM now, and KILL after ``grace`` seconds at the latest."""
        self._stuck.stop(key, grace)

    def ended(self, attempt: Observed) -> None:
        """Note that an attempt has ended."""
        self._first.pop(attempt.key, None)
        self._stuck.ended(attempt.key)

    def used(self, attempt: Observed, gpus: Gpus) -> TaskTotals | None:
        """Return what an attempt that has ended used in all."""
        return self._sampler.ended(attempt.key, attempt.spent, gpus, attempt.since)

    def forget(self, keys: list[str]) -> None:
        """Forget attempts whose end the master has noted."""
        self._sampler.forget(keys)

    def cannot_end(self) -> Iterable[Reason]:
        """Return why attempts did not end after KILL, as of the last ``look_for_stuck``."""
        return self._cannot_end.values()

    def look_for_stuck(self) -> dict[str, Reason]:
        """Look again which attempts cannot end. Return those whose reason is new."""
        before = self._cannot_end
        self._cannot_end = self._stuck.look({key: first.pid for key, first in self._first.items()})
        return {key: reason for key, reason in self._cannot_end.items() if before.get(key) != reason}

    def _roots(self) -> list[int]:
        """Return the pids whose descendants belong to tasks: each task, and the process that adopts their orphans."""
        commands = chain.from_iterable(task_commands.pids(self._config).values())
        return [*(each.pid for each in self._first.copy().values()), *commands, *self._runtime_roots()]

    def _running(self) -> dict[str, Running]:
        """Return the running attempts. Called by the sampler's thread."""
        desired = ((key, first, self._entries.get(key)) for key, first in self._first.copy().items())
        commands = task_commands.pids(self._config)
        return {
            key: Running(first, entry.gpus, commands.get(key, ())) for key, first, entry in desired if entry is not None
        }
