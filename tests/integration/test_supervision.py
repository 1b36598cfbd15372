"""supervisord and what it watches: killed at bad moments, and daemons that hang instead of ending."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grass.provision import daemons, processes
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

NAMED_WITHIN = 60.0
REVIVED_WITHIN = 30.0


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster().running() as made:
        yield made


def pid_of(cluster: LocalCluster, name: str) -> int:
    pid = cluster.pid(name)
    assert pid is not None
    return pid


def new_process(cluster: LocalCluster, name: str, old: int) -> int | None:
    """As soon as the kernel has it: supervisord may not say so yet."""
    found = [one.pid for one in processes.of_cluster(cluster.config) if one.name == name and one.pid != old]
    return found[0] if found else None


def all_run(cluster: LocalCluster) -> bool:
    return set(cluster.states().values()) == {"RUNNING"}


def test_supervisord_killed_while_a_master_agent_starts_is_revived(cluster: LocalCluster, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    task = cluster.start_sleeper(marks)
    supervisor = pid_of(cluster, daemons.SUPERVISOR)
    for name in ("collector", "master-agent"):  # the agent last: it is in its first milliseconds, the other not far
        old = pid_of(cluster, name)
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: new_process(cluster, name, old), what=f"the next {name}", every=0.002)  # noqa: B023
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: cluster.pid(daemons.SUPERVISOR) not in (None, supervisor), REVIVED_WITHIN, "the revival")
    wait_until(lambda: all_run(cluster), REVIVED_WITHIN, "all daemons")
    assert processes.start_of(task) is not None and marks.read_text() == "run\n"


def test_supervisord_killed_again_as_soon_as_it_is_back_is_revived_again(cluster: LocalCluster, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    task = cluster.start_sleeper(marks)
    killed = pid_of(cluster, daemons.SUPERVISOR)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: new_process(cluster, daemons.SUPERVISOR, killed), REVIVED_WITHIN, "supervisord", every=0.002)
    wait_until(lambda: cluster.pid(daemons.SUPERVISOR) not in (None, killed), REVIVED_WITHIN, "supervisord's answer")
    again = pid_of(cluster, daemons.SUPERVISOR)
    os.kill(again, signal.SIGKILL)
    wait_until(lambda: cluster.pid(daemons.SUPERVISOR) not in (None, killed, again), REVIVED_WITHIN, "the revival")
    wait_until(lambda: all_run(cluster), REVIVED_WITHIN, "all daemons")
    assert processes.start_of(task) is not None and marks.read_text() == "run\n"


@pytest.mark.timeout(180)
def test_daemons_that_hang_are_started_again_within_a_minute(tmp_path: Path) -> None:
    """Three clusters at once, so that the minute passes once: some daemons, the master-agent, supervisord itself."""
    clusters = [LocalCluster() for _ in range(3)]
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(LocalCluster.create, clusters))
        task = clusters[2].start_sleeper(tmp_path / "marks")
        stopped = [
            (clusters[0], pid)
            for pid in [pid_of(clusters[0], name) for name in ("redis", "collector", "node-agent")]
            + [api_worker(clusters[0])]
        ]
        stopped.append((clusters[1], pid_of(clusters[1], "master-agent")))
        stopped.append((clusters[2], pid_of(clusters[2], daemons.SUPERVISOR)))
        for _, pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: not any(there(pid) for _, pid in stopped), NAMED_WITHIN, "the end of all that hangs", 0.2)
        wait_until(lambda: all(map(all_run, clusters)), REVIVED_WITHIN, "all daemons", 0.2)
        for each in clusters:
            with each.client() as client:
                client.start({"name": "works", "components": {"t": {"command": "echo it works"}}})
                assert client.wait("works", timeout=30)["state"] == "SUCCEEDED"
                assert [line["text"] for line in client.logs("works")] == ["it works"]
        assert there(task)
        log = (Path(clusters[0].config.home) / "log" / "supervisord.log").read_text()
        assert "collector (pid" in log and "gave no sign of life for 40 s" in log
    finally:
        for each in clusters:
            each.end()


def api_worker(cluster: LocalCluster) -> int:
    parent = pid_of(cluster, "master-api-server")
    [worker] = [one.pid for one in processes.of_cluster(cluster.config) if one.parent == parent]
    return worker


def there(pid: int) -> bool:
    return processes.start_of(pid) is not None
