"""Making, ending and repairing a local cluster, with all its real daemons."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from grass.errors import ConflictError, UnreachableError
from grass.manifest.local_settings import LocalSettings, RedisSettings
from grass.model.daemons import SUPERVISOR
from grass.node_config import own_node
from grass.provision import ports
from grass.provision.doctor import doctor
from grass.store.embedded import find_server
from grass.store.redis_backend import RedisBackend
from grass.supervision import processes
from tests.support.example_run import free_port
from tests.support.local_cluster import LocalCluster
from tests.support.processes import alive
from tests.support.waiting import wait_until

Make = Callable[..., LocalCluster]


@pytest.fixture
def make() -> Iterator[Make]:
    """``make()`` creates a cluster that the end of the test removes."""
    made: list[LocalCluster] = []

    def new(settings: LocalSettings | None = None, home: Path | None = None) -> LocalCluster:
        cluster = (
            LocalCluster(settings or LocalSettings())
            if home is None
            else LocalCluster(settings or LocalSettings(), home)
        )
        made.append(cluster)
        cluster.create()
        return cluster

    yield new
    for cluster in made:
        cluster.end()


def create_process(home: Path) -> subprocess.Popen[bytes]:
    script = "from pathlib import Path; from grass.provision import local; import sys; "
    script += "local.create(None, home=Path(sys.argv[1]), progress=lambda _: None)"
    return subprocess.Popen([sys.executable, "-c", script, str(home)], stderr=subprocess.PIPE)


def grass_create(home: Path) -> subprocess.Popen[str]:
    # a shell starts what it runs in the background with SIGINT ignored, and Python then leaves it so
    program = "import signal; signal.signal(2, signal.default_int_handler); from grass.cli.entry import main; main()"
    words = [sys.executable, "-c", program, "create"]
    env = {**os.environ, "GRASS_HOME": str(home)}
    return subprocess.Popen(words, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def remove_folder(cluster: LocalCluster) -> set[int]:
    """Remove the folder of a cluster that runs. Return its processes, which are stopped: none wrote there meanwhile."""
    stopped: set[int] = set()
    while more := set(cluster.pids()) - stopped:
        for pid in more:
            os.kill(pid, signal.SIGSTOP)
        stopped |= more
    shutil.rmtree(cluster.home / "clusters")
    return stopped


def until_started(creating: subprocess.Popen[str]) -> None:
    assert creating.stderr is not None
    for line in creating.stderr:
        if line.startswith("starting redis"):
            return
    raise AssertionError("it ended before it started anything")


def test_ctrl_c_while_a_cluster_is_made_leaves_nothing(make: Make, tmp_path: Path) -> None:
    home = tmp_path / "home"
    creating = grass_create(home)
    until_started(creating)
    creating.send_signal(signal.SIGINT)
    _, said = creating.communicate(timeout=40)
    assert creating.returncode == 130 and "interrupted; removing cluster local again" in said
    assert not (home / "clusters" / "local").exists()
    cluster = make(home=home)
    assert cluster.states()["master-agent"] == "RUNNING"


@pytest.mark.nightly  # the test before this one finishes a create that was killed
def test_what_a_killed_create_started_is_waited_for_by_the_next_one(make: Make, tmp_path: Path) -> None:
    home = tmp_path / "home"
    creating = grass_create(home)
    until_started(creating)
    creating.kill()
    creating.communicate()
    cluster = make(home=home)  # whether that one's daemons had been started or not
    with cluster.client() as client:
        assert [node.state for node in client.nodes()] == ["READY"]
    with pytest.raises(ConflictError, match="exists and runs"):
        cluster.create()


def test_a_cluster_whose_folder_is_removed_ends_with_its_tasks(make: Make, tmp_path: Path) -> None:
    cluster = make()
    task = cluster.start_sleeper(tmp_path / "marks")
    pids = [*cluster.pids(), task]
    for pid in remove_folder(cluster):
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not any(alive(pid) for pid in pids), 40, "the end of all its processes")
    assert not (cluster.home / "clusters").exists()


def test_the_doctor_finds_what_runs_on_without_its_folder_and_create_ends_it(make: Make, tmp_path: Path) -> None:
    cluster = make()
    [agent] = [one.pid for one in processes.of_cluster(cluster.config) if one.name == "master-agent"]
    supervisor = cluster.pid(SUPERVISOR)
    assert supervisor is not None
    before = cluster.pids()
    for pid in remove_folder(cluster) - {supervisor, agent}:  # these two would end it, or start it again
        os.kill(pid, signal.SIGCONT)
    found = [one.message for one in doctor(cluster.home) if not one.ok and one.name == "cluster local"]
    [removed] = [message for message in found if str(cluster.home) in message]  # other tests remove clusters, too
    assert "was removed, but processes" in removed and str(agent) in removed
    again = make(home=cluster.home)
    assert not any(alive(pid) for pid in before)
    assert set(again.pids()).isdisjoint(before)


@pytest.mark.alone  # others have shared memory of their own
def test_deleting_leaves_no_process_socket_port_file_or_shared_memory(make: Make, tmp_path: Path) -> None:
    memory = set(os.listdir("/dev/shm"))
    cluster = make()
    task = cluster.start_sleeper(tmp_path / "marks")
    pids = [*cluster.pids(), task]
    cluster.delete()
    assert [pid for pid in pids if alive(pid)] == []
    assert [path for path in cluster.home.rglob("*") if path.name != "clusters"] == []
    assert not Path(cluster.config.runtime_dir).exists()
    own = own_node(cluster.config)
    assert own is not None
    for port in (own.master.api_port, own.node.api_port):
        assert ports.available("127.0.0.1", port)
    assert set(os.listdir("/dev/shm")) <= memory


@pytest.mark.nightly  # unit tests choose the folder in every run
def test_a_home_whose_path_is_too_long_for_sockets_works_all_the_same(make: Make, tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    home.mkdir()
    cluster = make(home=home)
    assert cluster.config.runtime_dir.startswith("/tmp/grass-")
    cluster.delete()
    assert not Path(cluster.config.runtime_dir).exists()


def test_a_cluster_that_may_end_when_idle_waits_for_its_jobs_and_then_ends_by_itself(make: Make) -> None:
    cluster = make(LocalSettings(keep_agent_alive=False, agent_countdown=10, check_interval=0.5))
    pids = cluster.pids()
    with cluster.client() as client:
        client.start({"name": "last", "components": {"t": {"command": "sleep 2"}}})
        assert client.wait("last", timeout=30).state == "SUCCEEDED"
    wait_until(lambda: not any(map(alive, pids)), 40, "the end of all daemons")
    assert cluster.config.path.exists()


def test_a_create_that_was_killed_is_finished_by_the_next_one(tmp_path: Path) -> None:
    cluster = LocalCluster()
    try:
        for patience in (0.15, 0.3, 0.45, 0.6, 0.9):
            process = create_process(cluster.home)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
            process.communicate()
        try:
            cluster.create()
        except ConflictError:  # the last one had come far enough
            wait_until(lambda: set(cluster.states().values()) == {"RUNNING"})
            return
        with cluster.client() as client:
            assert client.status().cluster == "local"
    finally:
        cluster.end()


def test_of_two_creates_at_once_one_makes_the_cluster_and_the_other_is_told(tmp_path: Path) -> None:
    cluster = LocalCluster()
    try:
        creates = [create_process(cluster.home) for _ in range(2)]
        said = [process.communicate(timeout=50)[1].decode() for process in creates]
        assert sorted(process.returncode for process in creates) == [0, 1]
        assert "exists and runs" in "".join(said)
    finally:
        cluster.end()


@pytest.mark.nightly  # test_supervision.py ends supervisord in every run
def test_deleting_works_when_supervisord_and_half_of_the_daemons_are_dead(make: Make, tmp_path: Path) -> None:
    cluster = make()
    task = cluster.start_sleeper(tmp_path / "marks")
    pids = [*cluster.pids(), task]
    some = [cluster.pid(daemon) for daemon in (SUPERVISOR, "node-agent", "master-agent", "redis")]
    for pid in some:
        assert pid is not None
        with suppress(ProcessLookupError):  # who revives supervisord ends what it left
            os.kill(pid, signal.SIGKILL)
    cluster.delete()
    assert [pid for pid in pids if alive(pid)] == []


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """A plain redis on a port, with a password: port and password."""
    port, password = free_port(), "pass word"
    arguments = ["--port", str(port), "--requirepass", password, "--dir", str(tmp_path), "--appendonly", "yes"]
    process = subprocess.Popen([find_server().path, *arguments], stdout=subprocess.DEVNULL)
    wait_until(lambda: not ports.available("127.0.0.1", port), what="redis")
    yield port, password
    process.terminate()
    process.wait()


@pytest.mark.nightly  # test_own_redis.py does the same in every run
def test_a_redis_of_your_own_serves_a_cluster_and_gets_rid_of_its_keys(make: Make, own_redis: tuple[int, str]) -> None:
    port, password = own_redis
    settings = LocalSettings(redis=RedisSettings(False, "127.0.0.1", port, password))
    redis = RedisBackend(host="127.0.0.1", port=port, password=password)
    try:
        redis.apply([("SET", "mine", "kept")])
        cluster = make(settings)
        assert "redis" not in cluster.states()
        with cluster.client() as client:
            client.start({"name": "there", "components": {"t": {"command": "true"}}})
            assert client.wait("there", timeout=30).state == "SUCCEEDED"
        assert redis.get("grass:local:fence") is not None
        elsewhere = LocalCluster(settings, kept_keys=False)
        with pytest.raises(ConflictError, match="already holds a cluster local"):
            elsewhere.create()
        elsewhere.end()
        cluster.delete()
        assert redis.get("grass:local:fence") is None
        assert redis.get("mine") == "kept"
    finally:
        redis.close()


def test_a_redis_of_your_own_that_does_not_answer_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    cluster = LocalCluster(LocalSettings(redis=RedisSettings(False, "127.0.0.1", free_port())), kept_keys=False)
    try:
        with pytest.raises(UnreachableError, match=r"your redis at 127\.0\.0\.1:.* does not answer"):
            cluster.create()
        assert not (cluster.home / "clusters" / "local").exists()
    finally:
        cluster.end()
