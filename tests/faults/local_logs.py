"""redis' append-only log is damaged while the server is away."""

from __future__ import annotations

import time
from pathlib import Path

from grass.model.daemons import REDIS
from grass.supervision.supervisor import Supervisor
from tests.faults.local_bed import LocalBed

NAMED_WITHIN = ENDS_WITHIN = 30.0


def log_of(bed: LocalBed) -> Path:
    folder = Path(bed.cluster.config.home) / "redis"
    [log] = [*folder.glob("**/*.incr.aof")] or [folder / "appendonly.aof"]
    return log


def cut_tail(bed: LocalBed) -> float:
    """As after a loss of power in the middle of a write: the last transaction is not whole."""
    supervisor = Supervisor(bed.cluster.config)
    supervisor.end_daemon(REDIS, ENDS_WITHIN)
    with log_of(bed).open("r+b") as file:
        file.truncate(log_of(bed).stat().st_size - 7)
    supervisor.start_daemon(REDIS)
    return time.monotonic()


def corrupt(bed: LocalBed) -> float:
    """Damage what was written after the states had begun. Nothing is repaired until somebody asks for it."""
    log = log_of(bed)
    begin = log.stat().st_size
    for number in range(20):
        bed.start(f"later-{begin}-{number}", t=bed.component("true", resources={"cpu": 0.01}))
    supervisor = Supervisor(bed.cluster.config)
    supervisor.end_daemon(REDIS, ENDS_WITHIN)
    content = bytearray(log.read_bytes())
    at = content.index(b"\r\n*", (begin + len(content)) // 2) + 2
    content[at : at + 1] = b"?"
    log.write_bytes(content)
    since = time.monotonic()
    create = bed.grass("create")
    _, said = create.communicate(timeout=60)
    assert create.returncode == 3 and f"redis cannot read its log {log}" in said, said
    assert time.monotonic() - since < NAMED_WITHIN
    repair = bed.grass("create", "--repair")
    _, said = repair.communicate(timeout=60)
    assert repair.returncode == 0, said
    return time.monotonic()
