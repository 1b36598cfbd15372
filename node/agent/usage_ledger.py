"""What each attempt used so far: adds up samples, and closes the account when the attempt ends. No input or output.

Used by the usage sampler. Energy and GPU time exist only while they are sampled; CPU time, peak memory and bytes are
also counted by the kernel, which knows them exactly at the end of a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import structs

from grass.wire.usage import GpuUsage, TaskSample, TaskTotals
from node.agent.machine_usage import Interval
from node.agent.task_processes import Used
from node.runtime.protocol import Spent

LONGEST_GAP = 2.0
"""Seconds after its last sample for which an attempt that ended is assumed to have used its GPUs as before."""


class GpuShare(msgspec.Struct, frozen=True):
    """What an attempt has of the node's GPUs. ``devices``: (device id, thousandths of it). ``memory``: of its
    processes, None if the driver does not report it."""

    devices: tuple[tuple[int, int], ...] = ()
    memory: int | None = None


class _Account(msgspec.Struct):
    totals: TaskTotals = TaskTotals()
    at: float = 0.0
    """Steady time of the last sample; 0: none."""
    gpu_watts: float = 0.0
    gpus_busy: float = 0.0
    """Devices: the share of each in use, added up."""
    joules_per_core_second: float | None = None


class UsageLedger:
    """``known``: totals from an earlier node-agent, by attempt key."""

    def __init__(self, known: Mapping[str, TaskTotals] | None = None) -> None:
        self._accounts = {key: _Account(totals) for key, totals in (known or {}).items()}
        self._closed: dict[str, TaskTotals] = {}

    def totals(self) -> dict[str, TaskTotals]:
        """Return the totals of all attempts that are not forgotten, to be stored for the next node-agent."""
        return {**{key: account.totals for key, account in self._accounts.items()}, **self._closed}

    def add(
        self, key: str, used: Used, interval: Interval, share: GpuShare, gpus: Mapping[int, GpuUsage], now: float
    ) -> TaskSample:
        """Add what a running attempt used in ``interval``. Return its sample. ``gpus``: by device id."""
        account = self._accounts.setdefault(key, _Account())
        before = account.totals
        cpu, read, written = max(0.0, used.cpu - before.cpu), used.read - before.read, used.written - before.written
        account.joules_per_core_second = _ratio(interval.energy, interval.busy)
        cpu_joules = min(interval.energy or 0.0, cpu * (account.joules_per_core_second or 0.0))
        busy, asked, reported = _gpu_use(share, gpus)
        account.gpus_busy, account.gpu_watts = busy, _gpu_power(share, gpus) or 0.0
        account.at = now
        joules = cpu_joules + account.gpu_watts * interval.seconds
        account.totals = TaskTotals(
            cpu=round(max(before.cpu, used.cpu), 3),
            memory=max(before.memory, used.memory),
            gpu=round(before.gpu + busy * interval.seconds, 3),
            gpu_memory=max(before.gpu_memory, share.memory or 0),
            read=max(before.read, used.read),
            written=max(before.written, used.written),
            energy=round(before.energy + joules, 3),
            partial=before.partial or interval.energy is None or _gpu_power(share, gpus) is None,
        )
        known_power = interval.energy is not None or account.gpu_watts > 0
        return TaskSample(
            key=key,
            cpu=round(cpu / interval.seconds, 3),
            memory=used.memory,
            gpu=round(100 * busy / asked, 1) if reported else None,
            gpus=round(busy, 3) if reported else None,
            gpu_memory=share.memory,
            read=max(0, round(read / interval.seconds)),
            written=max(0, round(written / interval.seconds)),
            files=used.files,
            threads=used.threads,
            power=round(joules / interval.seconds, 1) if known_power else None,
            totals=account.totals,
        )

    def raise_to(self, key: str, used: Used) -> None:
        """Raise the counters of an attempt to those that were read just after its end."""
        account = self._accounts.get(key)
        if account is not None:
            totals, cpu = account.totals, round(max(account.totals.cpu, used.cpu), 3)
            read, written = max(totals.read, used.read), max(totals.written, used.written)
            account.totals = structs.replace(totals, cpu=cpu, read=read, written=written)

    def close(self, key: str, spent: Spent | None, now: float) -> TaskTotals | None:
        """Return what an attempt used that has ended; the same at every call. None: nothing is known of it."""
        if key in self._closed:
            return self._closed[key]
        account = self._accounts.pop(key, None)
        if account is None and spent is None:
            return None
        account = account or _Account(TaskTotals(partial=True))
        self._closed[key] = _closed(account, spent, now)
        return self._closed[key]

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._closed.pop(key, None)
            self._accounts.pop(key, None)

    def keep_only(self, keys: Iterable[str]) -> None:
        """Forget open accounts of attempts that do not exist."""
        wanted = set(keys)
        self._accounts = {key: account for key, account in self._accounts.items() if key in wanted}


def _closed(account: _Account, spent: Spent | None, now: float) -> TaskTotals:
    totals = account.totals
    gap = min(LONGEST_GAP, max(0.0, now - account.at)) if account.at else 0.0
    cpu = max(totals.cpu, spent.cpu if spent else 0.0)
    joules = (cpu - totals.cpu) * (account.joules_per_core_second or 0.0) + account.gpu_watts * gap
    return structs.replace(
        totals,
        cpu=round(cpu, 3),
        memory=max(totals.memory, spent.memory if spent else 0),
        gpu=round(totals.gpu + account.gpus_busy * gap, 3),
        read=max(totals.read, spent.read if spent else 0),
        written=max(totals.written, spent.written if spent else 0),
        energy=round(totals.energy + joules, 3),
    )


def _gpu_use(share: GpuShare, gpus: Mapping[int, GpuUsage]) -> tuple[float, float, bool]:
    """Return the devices in use, the devices it has (each by its share), and whether the driver reports the use."""
    busy = asked = 0.0
    reported = False
    for device, thousandths in share.devices:
        utilisation = gpus[device].utilisation if device in gpus else None
        asked += thousandths / 1000
        if utilisation is not None:
            reported = True
            busy += utilisation / 100 * thousandths / 1000
    return busy, asked, reported and asked > 0


def _gpu_power(share: GpuShare, gpus: Mapping[int, GpuUsage]) -> float | None:
    """Return the watts of its shares; None if a device does not report its power."""
    watts = 0.0
    for device, thousandths in share.devices:
        power = gpus[device].power if device in gpus else None
        if power is None:
            return None
        watts += power * thousandths / 1000
    return watts


def _ratio(joules: float | None, busy: float) -> float | None:
    return None if joules is None or busy <= 0 else joules / busy
