"""supervisord and what it watches: killed at bad moments, stopped by hand, and hanging instead of ending."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from grass.cli.exits import Exit
from grass.config import Secrets
from grass.errors import ConflictError, UnreachableError
from grass.model.daemons import SUPERVISOR
from grass.model.lifecycle import JobState, TaskState
from grass.provision import layout, local, ports, readiness, stopping
from grass.provision.backup import making
from grass.provision.backup.catalogue import target
from grass.provision.backup.sealed_file import PassphraseError
from grass.provision.backup.verification import verify
from grass.supervision import processes
from grass.supervision.apart import request_shutdown
from grass.supervision.supervisor import Supervisor
from tests.support.local_cluster import LocalCluster, daemon_states
from tests.support.processes import alive
from tests.support.waiting import wait_until

NAMED_WITHIN = 60.0
REVIVED_WITHIN = 30.0


@pytest.fixture(scope="module")
def shared() -> Iterator[LocalCluster]:
    with LocalCluster().running() as made:
        yield made


@pytest.fixture
def cluster(shared: LocalCluster) -> Iterator[LocalCluster]:
    """One for all: each test leaves it running, as `create` does, with none of its tasks."""
    yield shared
    wait_until(lambda: all_run(shared) and is_ready(shared), REVIVED_WITHIN, "the cluster, whole again,", 0.2)
    with shared.client() as client:
        for job in client.jobs():
            client.stop(job.id, grace=0)
            client.wait(job.id, timeout=30)


def is_ready(cluster: LocalCluster) -> bool:
    """Whether the API answers, and the node accepts tasks."""
    with cluster.client() as client:
        try:
            return [node.state for node in client.nodes()] == ["READY"]
        except UnreachableError:  # its server has just started
            return False


def pid_of(cluster: LocalCluster, name: str) -> int:
    pid = cluster.pid(name)
    assert pid is not None
    return pid


def answering(cluster: LocalCluster, *old: int) -> int | None:
    """Return the pid that a new supervisord answers with. The one that is found in /proc may be of its launcher."""
    first = daemon_states(cluster.settings.name, cluster.home)[0]
    return first.pid if first.state == "RUNNING" and first.pid not in old else None


def new_process(cluster: LocalCluster, name: str, old: int) -> int | None:
    """As soon as the kernel has it: supervisord may not say so yet."""
    found = [one.pid for one in processes.of_cluster(cluster.config) if one.name == name and one.pid != old]
    return found[0] if found else None


def all_run(cluster: LocalCluster) -> bool:
    return set(cluster.states().values()) == {"RUNNING"}


def test_supervisord_killed_while_a_master_agent_starts_is_revived(cluster: LocalCluster, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    task = cluster.start_sleeper(marks)
    supervisor = pid_of(cluster, SUPERVISOR)
    for name in ("collector", "master-agent"):  # the agent last: it is in its first milliseconds, the other not far
        old = pid_of(cluster, name)
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: new_process(cluster, name, old), what=f"the next {name}", every=0.002)  # noqa: B023
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: answering(cluster, supervisor), REVIVED_WITHIN, "the revival")
    wait_until(lambda: all_run(cluster), REVIVED_WITHIN, "all daemons")
    assert processes.start_of(task) is not None and marks.read_text() == "run\n"


def test_supervisord_killed_again_as_soon_as_it_is_back_is_revived_again(cluster: LocalCluster, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    task = cluster.start_sleeper(marks)
    killed = pid_of(cluster, SUPERVISOR)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: new_process(cluster, SUPERVISOR, killed), REVIVED_WITHIN, "supervisord", every=0.002)
    wait_until(lambda: answering(cluster, killed), REVIVED_WITHIN, "supervisord's answer")
    again = pid_of(cluster, SUPERVISOR)
    os.kill(again, signal.SIGKILL)
    wait_until(lambda: answering(cluster, killed, again), REVIVED_WITHIN, "the revival")
    wait_until(lambda: all_run(cluster), REVIVED_WITHIN, "all daemons")
    assert processes.start_of(task) is not None and marks.read_text() == "run\n"


@pytest.mark.nightly  # tests/faults/test_short.py kills each daemon in every run
def test_a_daemon_that_is_killed_twenty_times_in_a_row_still_comes_back(cluster: LocalCluster) -> None:
    longest = 0.0
    for _ in range(20):
        pid = cluster.pid("collector")
        assert pid is not None
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: cluster.pid("collector") not in (None, pid), seconds=5, what="the collector")
        longest = max(longest, time.monotonic() - began)
    print(f"back after {longest:.2f} s at most")


def test_a_killed_api_server_leaves_no_worker_and_gets_its_port_back(cluster: LocalCluster) -> None:
    parent = cluster.pid("master-api-server")
    assert parent is not None
    of_api = [p.pid for p in processes.of_cluster(cluster.config) if p.name == "master-api-server"]
    assert len(of_api) == 2
    os.kill(parent, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, of_api)), what="the end of the worker")
    wait_until(lambda: answers(cluster), what="the next API server")


def answers(cluster: LocalCluster) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.config.master.api_port, timeout=2)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except OSError:
        return False
    finally:
        connection.close()


def test_a_supervisord_that_was_killed_comes_back_and_tasks_go_on(cluster: LocalCluster, tmp_path: Path) -> None:
    task = cluster.start_sleeper(tmp_path / "marks")
    killed = cluster.pid(SUPERVISOR)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: cluster.pid(SUPERVISOR) not in (None, killed))
    wait_until(lambda: set(cluster.states().values()) == {"RUNNING"})
    assert alive(task) and (tmp_path / "marks").read_text() == "run\n"


def test_when_supervisord_dies_with_all_who_watch_it_tasks_go_on_and_create_takes_over(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    task = cluster.start_sleeper(marks)
    pids = [cluster.pid(name) for name in ("master-agent", "collector", SUPERVISOR)]
    killed = [pid for pid in pids if pid is not None]
    assert len(killed) == 3
    for watcher in killed[:2]:
        os.kill(watcher, signal.SIGSTOP)  # so that it does not see the other's end
    for pid in reversed(killed):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(alive, killed)))
    states = cluster.states()
    assert {states.pop(name) for name in (SUPERVISOR, "master-agent", "collector")} == {"STOPPED"}
    assert set(states.values()) == {"ORPHANED"}
    cluster.create()
    assert set(cluster.states().values()) == {"RUNNING"}
    assert alive(task) and marks.read_text() == "run\n"
    with cluster.client() as client:
        client.stop("sleeper")
        assert client.wait("sleeper", timeout=30).state == "STOPPED"


def test_a_master_whose_disk_died_is_restored_adopts_what_runs_and_repeats_nothing(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """What the backup does not know: a task ended since, another one began; a user was added before."""
    home, folder, brief = Path(cluster.config.home), tmp_path / "b", tmp_path / "brief"
    task = cluster.start_sleeper(tmp_path / "runs")
    with cluster.client() as client:
        client.add_user("anna", "viewer", 600.0)
        command = f"echo run >> {brief}; while [ ! -e {tmp_path}/end ]; do sleep 0.1; done; exit 5"
        client.start({"name": "brief", "components": {"t": {"command": command}}})
        wait_until(lambda: client.tasks("brief")[0].state == "RUNNING", what="RUNNING")
        file = target(folder, "local", time.time())
        header, content = making.make(cluster.config, file, "secret", (), cost=4)
        assert (header.parts, content.jobs) == (("state",), len(client.jobs(all=True)))
        (tmp_path / "end").touch()
        assert client.wait("brief", timeout=30).exit_code == 5
    with pytest.raises(ConflictError, match="its master lives"):
        local.restore(file, "secret", home=cluster.home, replaced=True, progress=print)
    verified = verify(file, "secret", cluster.home)
    assert verified.content == content

    stopping.end_orphans(cluster.config)  # KILL, to all but the shepherd
    for name in ("redis", "master", "client"):
        shutil.rmtree(home / name)
    (home / "cluster.json").unlink()
    before = {path: path.stat().st_ino for path in sorted(home.iterdir())}
    with pytest.raises(PassphraseError):
        local.restore(file, "wrong", home=cluster.home, replaced=False, progress=print)
    assert {path: path.stat().st_ino for path in sorted(home.iterdir())} == before

    config, made = local.restore(file, "secret", home=cluster.home, replaced=False, progress=print)
    assert config == cluster.config and made == header.made
    with cluster.client() as client:
        assert client.wait("brief", timeout=30).exit_code == 5
        assert client.tasks("sleeper")[0].pid == task and alive(task)
        assert [user.name for user in client.users()] == ["anna", layout.user_name()]
    assert (tmp_path / "runs").read_text() == brief.read_text() == "run\n"


def test_create_starts_what_was_stopped_by_hand_and_leaves_the_rest_alone(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    task = cluster.start_sleeper(tmp_path / "marks")
    Supervisor(cluster.config).stop_daemon("collector")
    wait_until(lambda: cluster.states()["collector"] == "STOPPED")
    cluster.create()
    assert set(cluster.states().values()) == {"RUNNING"}
    assert alive(task)


def test_a_supervisord_that_hangs_is_replaced(cluster: LocalCluster) -> None:
    hanging = cluster.pid(SUPERVISOR)
    assert hanging is not None
    os.kill(hanging, signal.SIGSTOP)
    cluster.create()
    assert cluster.pid(SUPERVISOR) not in (None, hanging)
    assert not alive(hanging)


def test_when_a_port_is_taken_at_the_next_start_it_says_so(cluster: LocalCluster) -> None:
    stopping.stop(cluster.config)
    holder = subprocess.Popen([sys.executable, "-m", "http.server", str(cluster.config.master.api_port)], stderr=-3)
    try:
        wait_until(lambda: not ports.available("127.0.0.1", cluster.config.master.api_port), what="the other server")
        with pytest.raises(ConflictError, match=rf"`api` port of cluster local, is taken by .*pid {holder.pid}"):
            cluster.create()
    finally:
        holder.kill()
        holder.wait()
    cluster.create()


def test_after_the_idle_shut_down_create_starts_it_again_with_its_state(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        job_id = client.start({"name": "before", "components": {"t": {"command": "true"}}}).id
        client.wait("before", timeout=30)
    pids = cluster.pids()
    request_shutdown(cluster.config)
    wait_until(lambda: not any(map(alive, pids)), what="the end of all daemons")
    wait_until(lambda: not list(cluster.home.glob(".*.lock")), what="the end of the shut-down")
    assert set(cluster.states().values()) == {"STOPPED"}
    cluster.create()
    with cluster.client() as client:
        assert client.job("before").id == job_id
        client.start({"name": "after", "components": {"t": {"command": "true"}}})
        assert client.wait("after", timeout=30).state == "SUCCEEDED"


def test_a_task_starts_anew_when_a_stopped_cluster_is_started_and_that_is_no_restart(cluster: LocalCluster) -> None:
    name, environment = cluster.settings.name, {**os.environ, "GRASS_HOME": str(cluster.home)}

    def grass(*words: str) -> str:
        program = [sys.executable, "-m", "grass.cli.entry", *words, name]
        return subprocess.run(program, env=environment, check=True, capture_output=True, text=True).stdout

    with cluster.client() as client:
        job_id = client.start({"name": "stays", "components": {"t": {"command": "sleep 300"}}}).id
        wait_until(lambda: client.job("stays").state is JobState.RUNNING, 30)
    pids = cluster.pids()
    assert "starts it again" in grass("stop", "--yes") and "did not run" in grass("stop")
    assert not any(map(alive, pids)) and set(cluster.states().values()) == {"STOPPED"}
    assert "is ready" in grass("start") and "runs" in grass("start")
    with cluster.client() as client:
        wait_until(lambda: client.tasks(job_id)[0].state is TaskState.RUNNING, 30)
        assert (client.tasks(job_id)[0].attempt, client.job("stays").restarts) == (2, 0)
        client.stop("stays", grace=0)
    monitor = pid_of(cluster, "monitor")  # as if `grass stop` was killed while this one ends
    os.kill(monitor, signal.SIGSTOP)
    Supervisor(cluster.config).stop_daemon("monitor")
    resumed = threading.Timer(1.0, os.kill, (monitor, signal.SIGCONT))
    resumed.start()
    assert "is ready" in grass("start") and cluster.states()["monitor"] == "RUNNING"
    resumed.join()


def test_a_stopped_api_or_master_agent_is_named_before_anybody_gives_up(cluster: LocalCluster) -> None:
    command = [sys.executable, "-c", "from grass.cli.main import main; main()", "job", "list"]
    environment = {**os.environ, "GRASS_HOME": str(cluster.home), "GRASS_CLUSTER": cluster.settings.name}
    with cluster.client() as client:
        client.status()
        begun = time.monotonic()
        with halted(pid_of(cluster, "master-agent")), pytest.raises(UnreachableError):
            client.plan({"name": "j", "components": {"t": {"command": "true"}}})
        with halted(api_worker(cluster)):
            listing = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
            with pytest.raises(UnreachableError):
                client.jobs()
            _, said = listing.communicate(timeout=30)
        assert time.monotonic() - begun < 25  # four seconds and five, on a busy machine
        assert listing.returncode == Exit.UNREACHABLE, said
        client.jobs()


@contextmanager
def halted(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.nightly  # test_hung_daemons.py has one in every run
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
        stopped.append((clusters[2], pid_of(clusters[2], SUPERVISOR)))
        for _, pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: not any(there(pid) for _, pid in stopped), NAMED_WITHIN, "the end of all that hangs", 0.2)
        wait_until(lambda: all(map(all_run, clusters)), REVIVED_WITHIN, "all daemons", 0.2)
        for each in clusters:
            readiness.wait_ready(each.config, Secrets.load(each.config.home), since=0.0)  # the API may still load
            with each.client() as client:
                client.start({"name": "works", "components": {"t": {"command": "echo it works"}}})
                assert client.wait("works", timeout=30).state == "SUCCEEDED"
                assert [line.text for line in client.logs("works")] == ["it works"]
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
