"""What ``/metrics`` shows, as data: collected from the store and the machine when somebody asks. Used by the monitor.

Reads at most a bounded number of records, however many jobs there are.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from grass.config import ClusterConfig
from grass.model.lifecycle import JobState, TaskState
from grass.network_address import host_and_port
from grass.store.history_store import Sampled
from grass.store.job_index import BEGUN
from grass.store.keys import Keys
from grass.store.records import Records
from grass.store.redis_backend import RedisBackend
from grass.system import clock
from grass.wire.api_figures import ApiFigures
from grass.wire.node_record import NodeRecord
from grass.wire.usage import TaskSample
from master.monitor.waits import Waits

MOST_JOBS = 5_000
"""Active jobs whose records are read."""
MOST_TASKS = 500
"""Tasks with figures of their own: those with the most cpu."""
STALE = 10.0


class Disk(msgspec.Struct, frozen=True):
    free: int
    total: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a page, taken together."""

    cluster: str
    jobs: dict[JobState, int]
    tasks: dict[TaskState, int]
    """Tasks of active jobs, by state."""
    queued: dict[str, int]
    """User → jobs that wait."""
    longest_wait: dict[str, float]
    """User → seconds that the oldest of these waits."""
    waits: Waits
    nodes: tuple[NodeRecord, ...]
    samples: dict[str, Sampled]
    """Newest samples of nodes, not older than ten seconds."""
    running: tuple[tuple[str, TaskSample], ...]
    """Node and sample of the tasks with the most cpu."""
    lag: float
    """Seconds that the oldest message to the master-agent waits."""
    redis: dict[str, float]
    disks: dict[str, Disk]
    collector: bool
    """Whether it takes connections."""
    monitor: float
    """CPU seconds of the monitor."""
    api: ApiFigures


def collect(
    config: ClusterConfig,
    records: Records,
    backend: RedisBackend,
    keys: Keys,
    nodes: Mapping[str, NodeRecord],
    newest: Mapping[str, Sampled],
    waits: Waits,
    figures: ApiFigures,
) -> Snapshot:
    """Return the figures of a page. Raises UnreachableError while redis is away."""
    now = clock.wall()
    states = (*BEGUN, JobState.QUEUED)
    ids = records.job_index.newest([[state] for state in states], "", MOST_JOBS, None)
    active = list(records.runs(ids))
    waiting = [record for record in active if record.state is JobState.QUEUED]
    fresh = {name: sampled for name, sampled in newest.items() if now - sampled.at < STALE}
    running = [(name, task) for name, sampled in fresh.items() for task in sampled.sample.tasks]
    return Snapshot(
        cluster=config.name,
        jobs=records.job_index.counts(),
        tasks=dict(sum((Counter(record.counts) for record in active), Counter())),
        queued=dict(Counter(record.user for record in waiting)),
        longest_wait={
            record.user: max(0.0, now - record.submitted) for record in sorted(waiting, key=lambda job: -job.submitted)
        },
        waits=waits,
        nodes=tuple(nodes.values()),
        samples=fresh,
        running=tuple(sorted(running, key=lambda each: -each[1].cpu)[:MOST_TASKS]),
        lag=_lag(keys, backend, list(nodes), now),
        redis=backend.figures(),
        disks={name: _disk(folder) for name, folder in (("home", Path(config.home)), ("share", config.data_dir))},
        collector=_answers(config),
        monitor=sum(os.times()[:2]),
        api=figures,
    )


def _lag(keys: Keys, backend: RedisBackend, nodes: list[str], now: float) -> float:
    """Return the age of the oldest ticket or report that the master-agent has not taken. It removes what it took."""
    streams = [keys.tickets, *(keys.reports(node) for node in nodes)]
    oldest = backend.wait(dict.fromkeys(streams, "0-0"), 0, 1)
    times = [int(entries[0][0].partition("-")[0]) / 1000 for entries in oldest.values()]
    return max(0.0, now - min(times)) if times else 0.0


def _disk(folder: Path) -> Disk:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return Disk(0, 0)
    return Disk(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)


def _answers(config: ClusterConfig) -> bool:
    """Return whether the collector's socket takes a connection. Another collector listens on TCP only."""
    try:
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(1.0)
            connection.connect(str(config.socket("collector")))
            return True
    except OSError:
        pass
    try:
        with closing(socket.create_connection(host_and_port(config.collector or ":0"), 1.0)):
            return True
    except OSError:
        return False
