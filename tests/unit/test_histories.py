"""Histories: fine points become minutes and quarters of an hour, also over a restart of the monitor."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs

from grass.store.backend import Op
from grass.store.history_store import HistoryStore
from grass.store.keys import Keys
from grass.wire.usage import NodeSample, RdmaUsage
from grass.wire.usage_history import FINE, LEVELS, MINUTES, QUARTERS, Chunk, Level, join
from master.monitor import figures
from master.monitor.histories import IDLE, Histories
from tests.doubles.memory_backend import MemoryBackend

DAY = 86_400.0
KEY = ("history:job:j", "a.0")


class Kept:
    """A store, and histories over it."""

    def __init__(self) -> None:
        self.backend = MemoryBackend()
        self.store = HistoryStore(self.backend, Keys(""))
        self.histories = Histories(self.store.chunks, self.store.fields)

    def restart(self) -> None:
        self.histories = Histories(self.store.chunks, self.store.fields)

    def add(self, first: float, last: float, cpu: float, key: tuple[str, str] = KEY) -> None:
        for at in range(int(first), int(last), 2):
            self.histories.add([(key, at, {"cpu": cpu})])

    def write(self) -> list[Op]:
        ops = self.histories.operations()
        self.store.write(ops)
        return ops

    def curve(self, level: Level, since: float, until: float) -> Mapping[float, float]:
        chunks = self.store.curve(KEY[0], level, since, until, KEY[1])
        start, values = join(level, chunks, since, until)
        pairs = enumerate(values.get("cpu", []))
        return {start + index * level.step: value for index, value in pairs if value == value}


def test_points_minutes_and_quarters() -> None:
    kept = Kept()
    kept.add(DAY, DAY + 900, 10)
    kept.add(DAY + 900, DAY + 1000, 40)
    kept.write()
    assert kept.curve(FINE, DAY + 894, DAY + 902) == {
        DAY + 894: 10,
        DAY + 896: 10,
        DAY + 898: 10,
        DAY + 900: 40,
        DAY + 902: 40,
    }
    minutes = kept.curve(MINUTES, DAY, DAY + 1000)
    assert minutes == {DAY + 60 * minute: 10 if minute < 15 else 40 for minute in range(16)}
    assert kept.curve(QUARTERS, DAY, DAY + 1000) == {DAY: 10}


@pytest.mark.parametrize("ended_at", [DAY + 30, DAY + 60, DAY + 890, DAY + 3590, DAY + 3600])
def test_a_monitor_that_starts_again_continues(ended_at: float) -> None:
    kept = Kept()
    kept.add(DAY, ended_at, 10)
    kept.write()
    kept.restart()
    kept.add(ended_at, DAY + 4600, 10)
    kept.write()
    minutes = kept.curve(MINUTES, DAY, DAY + 4600)
    assert minutes == {DAY + 60 * minute: 10 for minute in range(76)}
    assert kept.curve(QUARTERS, DAY, DAY + 4600) == {DAY + 900 * quarter: 10 for quarter in range(5)}


def test_a_subject_without_new_points_is_finished_and_forgotten() -> None:
    kept = Kept()
    kept.add(DAY, DAY + 10, 10)
    kept.histories.finish_idle(DAY + 20)
    assert kept.curve(MINUTES, DAY, DAY + 60) == {}
    kept.histories.finish_idle(DAY + IDLE + 30)
    kept.write()
    assert kept.curve(MINUTES, DAY, DAY + 60) == {DAY: 10} == kept.curve(QUARTERS, DAY, DAY + 60)
    kept.histories.finish_idle(DAY + IDLE + 40)
    assert kept.write() == []
    kept.histories.finish_idle(DAY + 3 * IDLE)
    assert len(kept.histories) == 0


def test_memory_is_bounded_however_long_it_runs() -> None:
    kept = Kept()
    for hour in range(40 * 24):
        kept.histories.add([(KEY, DAY + 3600 * hour + 60 * minute, {"cpu": minute}) for minute in range(0, 60, 10)])
        kept.write()
    fields = kept.backend.hgetall(KEY[0])
    for level in LEVELS:
        assert sum(f"/{level.step}/" in name for name in fields) <= level.kept
    assert len(kept.curve(QUARTERS, 0, DAY * 50)) >= 31 * 24 * 4 * 0.6


def test_what_is_too_old_goes_after_a_gap_in_which_no_monitor_ran() -> None:
    kept, node = Kept(), ("history:node:n", "")
    kept.add(DAY, DAY + 100, 10, node)
    kept.write()
    kept.restart()
    kept.add(90 * DAY, 90 * DAY + 10, 10, node)
    kept.write()
    assert list(kept.backend.hgetall(node[0])) == [f"2/{FINE.number(90 * DAY)}"]


def test_points_from_the_past_and_damaged_chunks_change_nothing() -> None:
    kept = Kept()
    kept.add(DAY, DAY + 100, 10)
    kept.add(DAY, DAY + 50, 99)
    kept.write()
    assert set(kept.curve(FINE, DAY, DAY + 100).values()) == {10}
    kept.store.write([("HSET", KEY[0], f"a.0/2/{FINE.number(DAY)}", "nonsense")])
    assert min(kept.curve(FINE, DAY, DAY + 100)) == DAY + 60


def test_a_restart_asks_once_for_all_tasks_of_a_job() -> None:
    asked = []

    def load(key: str, wanted: list[tuple[str, Level, int]]) -> dict[tuple[str, Level, int], Chunk]:
        asked.append((key, len({subject for subject, _, _ in wanted})))
        return {}

    Histories(load, lambda _: ()).add([(("history:job:j", f"a.{index}"), DAY, {"cpu": 1.0}) for index in range(100)])
    assert asked == [("history:job:j", 100)]


def test_figures_that_no_sound_node_reports_are_left_out() -> None:
    plain = NodeSample(
        cpu=-1e308, memory=10**400, memory_total=1, disk_used=5, disk_total=1, network_sent=1, network_received=2
    )
    sample = structs.replace(plain, rdma=(RdmaUsage("mlx5_0/1", 10**400, 7),), cores=(1.0, 2.0))
    assert figures.of_node(sample) == {
        "load": 0.0,
        "disk_used": 5.0,
        "network_sent": 1.0,
        "network_received": 2.0,
        "rdma.mlx5_0/1.received": 7.0,
    }
    assert {"cpu", "memory"}.isdisjoint(figures.of_cluster([sample, sample], [], 0))
