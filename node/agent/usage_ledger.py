"""What each attempt used so far: adds up samples, and closes the account when the attempt ends. No input or output.

Used by the usage sampler. Energy and GPU time exist only while they are sampled; CPU time, peak memory and bytes are
also counted by the kernel, which knows them exactly at the end of a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import structs

from grass.wire.usage import TaskSample, TaskTotals
from node.agent.gpu_usage import Metered
from node.agent.machine_usage import Interval
from node.agent.task_processes import Used
from node.runtime.shepherd_messages import Spent

LONGEST_GAP = 4.0
"""Seconds after their last reading for which an attempt that ended is assumed to have used its GPUs as before."""


class TaskGpus(NamedTuple):
    """The GPUs of an attempt. ``devices``: (device id, thousandths of it). ``since``: the steady time of its start.

    ``metered``: what each device of the node used so far, by id. ``memory``: bytes of its processes on the devices;
    None: the driver does not report it.
    """

    devices: tuple[tuple[int, int], ...] = ()
    since: float = 0.0
    metered: Mapping[int, Metered] = {}
    memory: int | None = None


class _Account(msgspec.Struct):
    totals: TaskTotals = TaskTotals()
    counted: dict[int, Metered] = msgspec.field(default_factory=dict)
    """The last reading of each of its devices."""
    joules_per_core_second: float | None = None

    def gpu_growth(self, gpus: TaskGpus) -> tuple[float, float]:
        """Return the joules and device seconds of its devices since it counted them last, or since its start."""
        joules = seconds = 0.0
        for device, thousandths in gpus.devices:
            now, before = gpus.metered.get(device), self.counted.get(device)
            if now is not None:
                more, kernel = _since(now, gpus.since) if before is None else _between(before, now)
                joules, seconds = joules + more * thousandths / 1000, seconds + kernel * thousandths / 1000
                self.counted[device] = now
        return joules, seconds

    def gpu_rest(self, gpus: TaskGpus, end: float) -> tuple[float, float]:
        """Return the joules and device seconds from the last reading of its devices to its end, as if it went on."""
        joules = seconds = 0.0
        for device, thousandths in gpus.devices:
            last = self.counted.get(device)
            if last is not None:
                rest = min(LONGEST_GAP, max(0.0, end - max(last.at, gpus.since))) * thousandths / 1000
                joules, seconds = joules + (last.watts or 0.0) * rest, seconds + (last.busy or 0.0) * rest
        return joules, seconds


class UsageLedger:
    """The accounts of all attempts of this node.

    ``known``: totals from an earlier node-agent, by attempt key.
    """

    def __init__(self, known: Mapping[str, TaskTotals] | None = None) -> None:
        self._accounts = {key: _Account(totals) for key, totals in (known or {}).items()}
        self._closed: dict[str, TaskTotals] = {}

    def totals(self) -> dict[str, TaskTotals]:
        """Return the totals of all attempts that are not forgotten, to be stored for the next node-agent."""
        return {**{key: account.totals for key, account in self._accounts.items()}, **self._closed}

    def add(self, key: str, used: Used, interval: Interval, gpus: TaskGpus) -> TaskSample:
        """Add what a running attempt used in ``interval``. Return its sample. The GPUs have intervals of their own."""
        account = self._accounts.setdefault(key, _Account())
        before = account.totals
        cpu, read, written = max(0.0, used.cpu - before.cpu), used.read - before.read, used.written - before.written
        account.joules_per_core_second = _ratio(interval.energy, interval.busy)
        cpu_joules = min(interval.energy or 0.0, cpu * (account.joules_per_core_second or 0.0))
        busy, asked, reported = _gpu_use(gpus)
        watts = _gpu_power(gpus)
        gpu_joules, gpu_seconds = account.gpu_growth(gpus)
        account.totals = TaskTotals(
            cpu=round(max(before.cpu, used.cpu), 3),
            memory=max(before.memory, used.memory),
            gpu=round(before.gpu + gpu_seconds, 3),
            gpu_memory=max(before.gpu_memory, gpus.memory or 0),
            read=max(before.read, used.read),
            written=max(before.written, used.written),
            energy=round(before.energy + cpu_joules + gpu_joules, 3),
            partial=before.partial or interval.energy is None or watts is None,
        )
        power = cpu_joules / interval.seconds + (watts or 0.0)
        return TaskSample(
            key=key,
            cpu=round(cpu / interval.seconds, 3),
            memory=used.memory,
            gpu=round(100 * busy / asked, 1) if reported else None,
            gpus=round(busy, 3) if reported else None,
            gpu_memory=gpus.memory,
            read=max(0, round(read / interval.seconds)),
            written=max(0, round(written / interval.seconds)),
            files=used.files,
            threads=used.threads,
            power=round(power, 1) if interval.energy is not None or watts else None,
            totals=account.totals,
        )

    def raise_to(self, key: str, used: Used) -> None:
        """Raise the counters of an attempt to those that were read just after its end."""
        account = self._accounts.get(key)
        if account is not None:
            totals, cpu = account.totals, round(max(account.totals.cpu, used.cpu), 3)
            read, written = max(totals.read, used.read), max(totals.written, used.written)
            account.totals = structs.replace(totals, cpu=cpu, read=read, written=written)

    def close(self, key: str, spent: Spent | None, gpus: TaskGpus, end: float) -> TaskTotals | None:
        """Return what an attempt used that has ended; the same at every call. None: nothing is known of it.

        ``end``: the steady time of its end.
        """
        if key in self._closed:
            return self._closed[key]
        account = self._accounts.pop(key, None)
        if account is None and spent is None:
            return None
        account = account or _Account(TaskTotals(partial=True))
        read, rest = account.gpu_growth(gpus), account.gpu_rest(gpus, end)
        self._closed[key] = _closed(account, spent, read[0] + rest[0], read[1] + rest[1])
        return self._closed[key]

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._closed.pop(key, None)
            self._accounts.pop(key, None)

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget open accounts of attempts that do not exist."""
        wanted = set(keys)
        self._accounts = {key: account for key, account in self._accounts.items() if key in wanted}


def _closed(account: _Account, spent: Spent | None, gpu_joules: float, gpu_seconds: float) -> TaskTotals:
    totals = account.totals
    cpu = max(totals.cpu, spent.cpu if spent else 0.0)
    joules = (cpu - totals.cpu) * (account.joules_per_core_second or 0.0) + gpu_joules
    return structs.replace(
        totals,
        cpu=round(cpu, 3),
        memory=max(totals.memory, spent.memory if spent else 0),
        gpu=round(totals.gpu + gpu_seconds, 3),
        read=max(totals.read, spent.read if spent else 0),
        written=max(totals.written, spent.written if spent else 0),
        energy=round(totals.energy + joules, 3),
    )


def _between(before: Metered, now: Metered) -> tuple[float, float]:
    return now.joules - before.joules, now.kernel_seconds - before.kernel_seconds


def _since(now: Metered, begin: float) -> tuple[float, float]:
    """Return the part of the last interval that lies after ``begin``."""
    part = min(1.0, max(0.0, now.at - begin) / now.seconds) if now.seconds else 0.0
    return now.last[0] * part, now.last[1] * part


def _gpu_use(gpus: TaskGpus) -> tuple[float, float, bool]:
    """Return the devices in use, the devices it has (each by its share), and whether the driver reports the use."""
    busy = asked = 0.0
    reported = False
    for device, thousandths in gpus.devices:
        used = gpus.metered[device].busy if device in gpus.metered else None
        asked += thousandths / 1000
        if used is not None:
            reported = True
            busy += used * thousandths / 1000
    return busy, asked, reported and asked > 0


def _gpu_power(gpus: TaskGpus) -> float | None:
    """Return the watts of its shares; None if a device does not report its power."""
    watts = 0.0
    for device, thousandths in gpus.devices:
        power = gpus.metered[device].watts if device in gpus.metered else None
        if power is None:
            return None
        watts += power * thousandths / 1000
    return watts


def _ratio(joules: float | None, busy: float) -> float | None:
    return None if joules is None or busy <= 0 else joules / busy
