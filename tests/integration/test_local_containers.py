"""A whole local cluster that offers containers: a job in them from its file to its logs, and the end of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.manifest.settings import Settings
from grass.store.embedded import NoRedisError, find_server
from node.runtime.docker.engine import Engine
from tests.support.engine import IMAGE, cluster_name, remove_containers, require_engine
from tests.support.local_cluster import LocalCluster
from tests.support.needs import missing
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    require_engine()
    try:
        find_server()
    except NoRedisError as error:
        missing("redis", str(error))
    made = LocalCluster(Settings(name=cluster_name(), runtimes=("process", "docker")))
    try:
        made.create()
        yield made
    finally:
        made.end()
        remove_containers(made.settings.name)


def job(name: str, command: str) -> dict[str, object]:
    parts = {"image": IMAGE, "command": command, "replicas": 2}
    return {"name": name, "components": {"box": {**parts, "resources": {"cpu": 0.1, "memory": "64MiB"}}}}


def test_a_container_of_another_user_reads_the_share_and_writes_its_output(cluster: LocalCluster) -> None:
    folder = cluster.config.data_dir
    (folder / "set").write_text("known\n")
    (folder / "set").chmod(0o644)
    with cluster.client() as client:
        spec = job("stranger", "cat /data/set > $GRASS_OUTPUT/copy && id -u")
        spec["components"]["box"] |= {"replicas": 1, "container": {"user": "1000:1000", "data": "/data"}}  # type: ignore[index]
        started = client.start(spec)
        view = client.wait("stranger", 60)
        assert view["state"] == "SUCCEEDED", (view, list(client.logs("stranger")))
    assert (folder / "jobs" / started["id"] / "copy").read_text() == "known\n"
    assert Path(cluster.config.home).stat().st_mode & 0o077 == 0


def test_a_job_runs_in_containers_and_the_end_of_the_cluster_is_theirs(cluster: LocalCluster) -> None:
    engine = Engine()
    label = [f"grass.cluster={cluster.settings.name}"]
    with cluster.client() as client:
        done = client.start(job("hello", "ls /; echo I am $GRASS_TASK >&2"))["name"]
        view = client.wait(done, 60)
        assert view["state"] == "SUCCEEDED", view
        text = "".join(str(each) for each in client.logs(done))
        assert "I am hello.box.0" in text and "busybox" not in text
        wait_until(lambda: not engine.containers(label), what="the removal of containers")
        client.start(job("forever", "exec sleep 1000"))
        wait_until(lambda: sum(each["State"]["Running"] for each in engine.containers(label)) == 2, what="containers")
    cluster.delete()
    assert engine.containers(label) == []
    engine.close()
