"""A user who prints, submits or makes files as much as possible: nothing is lost, and jobs of others start as before.

``tests/e2e/test_isolation.py`` tries two of them on hosts. Bombs of processes are in ``test_task_limits.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

import pytest

from grass.api.client import Client
from grass.wire.log_block import LOG_BLOCK
from tests.support.bench_run import figures
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.alone, pytest.mark.timeout(400)]

LONG, LINES = 1 << 30, 1_000_000
BOMB = f"echo begin; head -c {LONG} /dev/zero | tr '\\0' x; echo; seq {LINES}"


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


def test_a_line_of_a_gibibyte_and_a_million_lines_at_once_are_kept_and_others_start_within_a_second(
    cluster: LocalCluster, client: Client
) -> None:
    client.start({"name": "bomb", "components": {"t": {"command": BOMB}}})
    seconds: list[float] = []
    while not client.job("bomb").ended:
        begun = time.monotonic()
        name = f"beside-bomb-{len(seconds)}"
        client.start({"name": name, "components": {"t": {"command": "true"}}})
        seconds.append(time.monotonic() - begun)
        assert client.wait(name, timeout=60).state == "SUCCEEDED"
        time.sleep(0.1)
    assert client.job("bomb").state == "SUCCEEDED"
    assert len(seconds) > 5 and sorted(seconds)[-1] < 1, seconds
    folder = cluster.config.logs_dir / client.job("bomb").id
    printed = tail = b""
    size = 0
    [log] = folder.rglob("t.0*")
    wait_until(lambda: str(LINES).encode() in _end(log), 120, "the last line")
    with log.open("rb") as file:
        for line in file:
            block = LOG_BLOCK.decode(line)
            data = block.data()
            assert block.offset == size, "lost or repeated"
            size += len(data)
            printed = (printed + data)[:8] if len(printed) < 8 else printed
            tail = (tail + data)[-8_000_000:] if size > LONG else b""
    numbers = b"".join(b"%d\n" % number for number in range(1, LINES + 1))
    assert size == len("begin\n") + LONG + 1 + len(numbers)
    assert printed == b"begin\nxx" and tail.endswith(b"x\n" + numbers)


def test_a_bomb_of_files_in_the_share_delays_no_start_of_another_job(cluster: LocalCluster, client: Client) -> None:
    script = "mkdir $GRASS_OUTPUT/d; i=0; while : > $GRASS_OUTPUT/d/$i; do i=$((i+1)); done"
    client.start({"name": "files", "components": {"t": {"command": script}}})
    made = cluster.config.data_dir / "jobs" / client.job("files").id / "d"
    seconds: list[float] = []
    while len(seconds) < 100 or not (made / "50000").exists():
        begun = time.monotonic()
        name = f"beside-files-{len(seconds)}"
        client.start({"name": name, "components": {"t": {"command": "true"}}})
        seconds.append(time.monotonic() - begun)
        assert client.wait(name, timeout=60).state == "SUCCEEDED"
    assert quantiles(seconds, n=100)[98] < 1, seconds
    client.stop("files")
    assert client.wait("files", timeout=60).state == "STOPPED"


def test_ten_thousand_submissions_a_minute_by_one_user_delay_no_start_of_another() -> None:
    measured = {each["name"]: each for each in figures("flood", "--seconds", "20")}
    assert measured["job start, flooded, p99"]["median"] < 1000, measured
    assert measured["submissions of the other"]["median"] > 9000, measured
    assert measured["given up after 5 s"]["median"] == 0, measured


def _end(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 1000))
        return file.read()
