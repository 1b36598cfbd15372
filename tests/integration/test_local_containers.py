"""A whole local cluster that offers containers: a job in them from its file to its logs, and the end of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from grass.errors import ManifestError
from grass.files import transfers
from grass.files.access import access_to
from grass.manifest.local_settings import LocalSettings
from grass.store.embedded import NoRedisError, find_server
from grass.wire.job_views import AttemptView, JobView
from node.runtime.docker.engine import SOCKET, Engine
from tests.integration.test_dashboard import served, to
from tests.support.browser import chromium, opened
from tests.support.engine import IMAGE, cluster_name, image_files, remove_containers, require_engine
from tests.support.local_cluster import LocalCluster
from tests.support.needs import missing
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)


@contextmanager
def with_containers() -> Iterator[LocalCluster]:
    require_engine()
    try:
        find_server()
    except NoRedisError as error:
        missing("redis", str(error))
    made = LocalCluster(LocalSettings(name=cluster_name(), runtimes=("process", "docker")))
    try:
        made.create()
        yield made
    finally:
        made.end()
        remove_containers(made.settings.name)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """What no test of this module deletes."""
    with with_containers() as made:
        yield made


@pytest.fixture
def own_cluster() -> Iterator[LocalCluster]:
    with with_containers() as made:
        yield made


def job(name: str, command: str) -> dict[str, object]:
    parts = {"image": IMAGE, "command": command, "replicas": 2}
    return {"name": name, "components": {"box": {**parts, "resources": {"cpu": 0.1, "memory": "64MiB"}}}}


def test_a_job_whose_image_in_the_engine_lacks_the_program_of_its_framework_is_refused(cluster: LocalCluster) -> None:
    def parts(command: str, **more: object) -> dict[str, object]:
        component = {"image": IMAGE, "framework": "torchrun", "command": command, "resources": {"cpu": 0.1}, **more}
        return {"name": "launched", "components": {"w": component}}

    with cluster.client() as client:
        for plan in (client.start, client.plan):
            with pytest.raises(ManifestError) as refused:
                plan(parts("torchrun train.py"))
            said = f"image {IMAGE} has no torchrun (framework torchrun) on its PATH; install it in the image"
            assert [str(each) for each in refused.value.problems] == [f"components.w.command: {said}"]
        assert client.start(parts("torchrun train.py", container={"entrypoint": ["echo"]})).name == "launched"
        assert client.wait("launched", 60).state == "SUCCEEDED"


def test_a_container_of_another_user_reads_the_share_and_writes_its_output(cluster: LocalCluster) -> None:
    folder = cluster.config.data_dir
    (folder / "set").write_text("known\n")
    (folder / "set").chmod(0o644)
    with cluster.client() as client:
        spec = job("stranger", "cat /data/set > $GRASS_OUTPUT/copy && id -u")
        spec["components"]["box"] |= {"replicas": 1, "container": {"user": "1000:1000", "data": "/data"}}  # type: ignore[index]
        started = client.start(spec)
        view = client.wait("stranger", 60)
        assert view.state == "SUCCEEDED", (view, list(client.logs("stranger")))
    assert (folder / "jobs" / started.id / "copy").read_text() == "known\n"
    assert Path(cluster.config.home).stat().st_mode & 0o077 == 0


def test_a_container_that_is_told_by_a_signal_saves_its_work_and_ends(cluster: LocalCluster) -> None:
    command = "trap 'echo saved; exit 0' USR1; echo begun; while :; do sleep 0.1; done"
    part = {"image": IMAGE, "command": command, "notice": {"for": "50s", "signal": "USR1"}, "resources": {"cpu": 0.1}}
    with cluster.client() as client:
        job_id = client.start({"name": "told", "components": {"box": part}}).id

        def said() -> str:
            return "".join(line.text for line in client.logs(job_id))

        wait_until(lambda: "begun" in said(), 30)
        done = client.wait_for_operation("told", client.suspend("told").id, 30)
        assert done.outcome is not None and done.outcome.value == "DONE"
        assert "saved" in said()
        client.stop("told")


def test_a_job_runs_in_containers_and_the_end_of_the_cluster_is_theirs(own_cluster: LocalCluster) -> None:
    cluster = own_cluster
    engine = Engine()
    label = [f"grass.cluster={cluster.settings.name}"]
    with cluster.client() as client:
        done = client.start(job("hello", "ls /; echo I am $GRASS_TASK >&2")).name
        view = client.wait(done, 60)
        assert view.state == "SUCCEEDED", view
        text = "".join(str(each) for each in client.logs(done))
        assert "I am hello.box.0" in text and "busybox" not in text
        [image, other] = [(task.software or {})["image"] for task in client.tasks(done)]
        assert image == other and re.fullmatch(r"sha256:[0-9a-f]{64}", image)
        wait_until(lambda: not engine.containers(label), what="the removal of containers")
        client.start(job("forever", "exec sleep 1000"))
        wait_until(lambda: sum(each["State"]["Running"] for each in engine.containers(label)) == 2, what="containers")
    cluster.delete()
    assert engine.containers(label) == []
    engine.close()


@pytest.fixture
def pushed(cluster: LocalCluster, tmp_path: Path) -> Iterator[str]:
    """The name of an image that the share has, and the engine has not."""
    name, engine = f"grass-test-pushed:{cluster.settings.name}", docker.APIClient(f"unix://{SOCKET}", version="auto")
    try:
        engine.import_image_from_data(image_files(), *name.split(":"))
        archive = tmp_path / "image.tar"
        archive.write_bytes(b"".join(engine.get_image(name)))
        engine.remove_image(name)
        access = access_to(cluster.settings.name, cluster.home)
        images = transfers.push_image(access, name, archive, tmp_path / "cache", print, lambda *_: None)
        with cluster.client() as client:
            for each, image in images.items():
                client.sign_off_image(each, image.config, image.programs)
        yield name
        engine.remove_image(name, force=True)
    finally:
        engine.close()


def loaded(cluster: LocalCluster, image: str) -> tuple[JobView, AttemptView]:
    """Return the end of a job that had to load its image, and its attempt."""
    spec = job("loads", "true")
    spec["components"]["box"] |= {"replicas": 1, "image": image}  # type: ignore[index]
    with cluster.client() as client:
        done = client.wait(client.start(spec).id, 60)
        assert done.state == "SUCCEEDED"
        [attempt] = client.attempts(done.id)
    return done, attempt


def test_an_attempt_tells_how_long_it_waited_for_its_image(cluster: LocalCluster, pushed: str) -> None:
    _, attempt = loaded(cluster, pushed)
    assert attempt.assigned < attempt.prepared < attempt.started


@pytest.mark.nightly
def test_the_timeline_shows_how_long_a_task_waited_for_its_image(cluster: LocalCluster, pushed: str) -> None:
    done, attempt = loaded(cluster, pushed)
    with chromium() as browser, served(cluster.client) as link, opened(browser, link) as page:
        to(page, f"/jobs/{done.id}/timeline")
        page.wait_for_selector(".lane i.image[title*='attempt 1 on local: image, ']", state="attached")
        width = page.evaluate("document.querySelector('.lane i.image').getBoundingClientRect().width")
        part = (attempt.prepared - attempt.assigned) / (done.ended - done.submitted)
        track = page.evaluate("document.querySelector('.lane .track').getBoundingClientRect().width")
        assert width == pytest.approx(max(2, part * track), rel=0.2)


CORE_SECONDS, MEMORY, WRITTEN = 3, 96 << 20, 48 << 20
USES = f"""
dd if=/dev/zero of=/dev/shm/held bs=1M count={MEMORY >> 20}
dd if=/dev/zero of=$GRASS_SCRATCH/file bs=1M count={WRITTEN >> 20} conv=fsync
used=0
while [ $used -lt {CORE_SECONDS * 100} ]; do
  read -r _ _ _ _ _ _ _ _ _ _ _ _ _ user system children_user children_system _ < /proc/$$/stat
  used=$((user + system + children_user + children_system))
done
"""
"""Counts its CPU time, and that of its children, in hundredths of a second, the kernel's unit, up to its very end."""


def test_what_a_container_is_said_to_have_used_is_what_it_used(cluster: LocalCluster) -> None:
    spec = job("uses", USES)
    resources = {"cpu": 1, "memory": "256MiB"}
    spec["components"]["box"] |= {"replicas": 1, "resources": resources, "container": {"shm": "128MiB"}}  # type: ignore[index]
    with cluster.client() as client:
        started = client.start(spec).id
        assert client.wait(started, 60).state == "SUCCEEDED"
        usage = client.job(started).usage
    assert usage.cpu == pytest.approx(CORE_SECONDS, rel=0.05)
    assert usage.memory == pytest.approx(MEMORY, rel=0.05)
    assert usage.written == pytest.approx(WRITTEN, rel=0.05)
