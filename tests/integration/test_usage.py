"""Usage on a real cluster: what is shown agrees with what a task did; it survives killed daemons; who may see it."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from grass.api.client import Client
from grass.errors import ManifestError, NotFoundError
from grass.manifest.local_settings import LocalSettings
from grass.model.metrics import MetricsListen
from grass.wire.codec import Form
from grass.wire.usage import TaskTotals
from grass.wire.usage_views import ClusterUsageView, NodeUsageView, TaskUsageView
from tests.support import event_file
from tests.support.certificates import Authority
from tests.support.example_run import free_port
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import wait_until

CORE_SECONDS, MEMORY, WRITTEN = 3.0, 500 << 20, 128 << 20
TASK_TOTALS: Form[TaskTotals | None] = Form(TaskTotals | None)


def work(core_seconds: float, written: int) -> list[str]:
    """The command of a task that uses exactly so much, and ``MEMORY``."""
    program = f"""
import os, sys, time
import grass
held = bytearray({MEMORY})
piece = os.urandom(1 << 20)
with open(os.path.join(os.environ["GRASS_SCRATCH"], "big"), "wb") as file:
    for _ in range({written} >> 20):
        file.write(piece)
grass.log_params(optimizer="adam")
for step in range(100):
    grass.report(step=step, loss=1 / (step + 1))
grass.report(step=100, loss=float("nan"))
while time.process_time() < {core_seconds}:
    pass
"""
    return [sys.executable, "-c", program]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "ours")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[LocalCluster]:
    """A cluster that serves metrics over TLS, too."""
    listen = MetricsListen(f"127.0.0.1:{free_port()}", *authority.issue("server"), clients=str(authority.path))
    with LocalCluster(LocalSettings(metrics=listen)).running() as made:
        yield made


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@pytest.fixture(scope="module")
def worked(client: Client) -> str:
    """The id of a job whose only task used known amounts, and has ended."""
    started = client.start({"name": "work", "components": {"w": {"command": work(CORE_SECONDS, WRITTEN)}}})
    assert client.wait(started.id, timeout=50).state == "SUCCEEDED"
    return str(started.id)


def start(client: Client, name: str, command: str, **more: Any) -> str:
    job = {"name": name, "components": {"w": {"command": command, "resources": {"cpu": 0.1}, **more}}}
    return str(client.start(job).id)


def test_totals_agree_with_what_the_task_did(client: Client, cluster: LocalCluster, worked: str) -> None:
    usage = client.job_usage(worked)
    [task] = usage.tasks
    for totals in (usage.totals, task.totals, client.job(worked).usage):
        assert_true(totals, CORE_SECONDS, 0 if in_memory(cluster.home) else WRITTEN)
    assert usage.count == 1 and task.state == "SUCCEEDED" and task.now is None


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_ten_core_seconds_and_a_gibibyte_written_are_shown_as_they_were(client: Client, cluster: LocalCluster) -> None:
    started = client.start({"name": "truth", "components": {"w": {"command": work(10.0, 1 << 30)}}})
    assert client.wait(started.id, timeout=180).state == "SUCCEEDED"
    assert_true(client.job(started.id).usage, 10.0, 0 if in_memory(cluster.home) else 1 << 30)


def assert_true(totals: TaskTotals | None, core_seconds: float, written: int) -> None:
    assert totals is not None and totals.cpu == pytest.approx(core_seconds, rel=0.05)
    assert MEMORY <= totals.memory <= MEMORY * 1.05  # the interpreter itself uses some 10 MiB
    assert totals.written == pytest.approx(written, rel=0.05)


def in_memory(folder: Path) -> bool:
    """Whether files there are in memory (tmpfs), so that nothing is written to a disk."""
    done = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.strip() in ("tmpfs", "ramfs")


def test_curves_of_the_task_the_node_and_the_cluster(client: Client, worked: str) -> None:
    def known(view: ClusterUsageView | NodeUsageView | TaskUsageView, name: str) -> list[float]:
        return [value for value in view.history.curves.get(name, ()) if value is not None]

    wait_until(lambda: max(known(client.task_usage(worked, "w.0"), "memory"), default=0) > MEMORY / 2, 25)
    memory = known(client.task_usage(worked, "w.0"), "memory")
    assert max(memory) == pytest.approx(MEMORY, rel=0.05)
    assert max(known(client.task_usage(worked, "w.0"), "cpu")) <= 1.1
    wait_until(lambda: len(known(client.node_usage("local"), "cpu")) >= 2, 25)
    # the monitor reads the records of nodes every 10 s: the first one may be of a node that joins
    wait_until(lambda: known(client.usage(), "cpu_capacity")[-1:] == [os.cpu_count()], 25)


def test_own_figures_become_a_curve(client: Client, worked: str) -> None:
    # the curve grows while the monitor reads the log
    wait_until(lambda: [len(each.steps) >= 16 for each in client.job_metrics(worked).curves] == [True], 25)
    [curve] = client.job_metrics(worked).curves
    assert (curve.task, curve.name, curve.every) == ("w.0", "loss", 1)
    assert curve.steps[0] == 0 and len(curve.steps) >= 16
    assert list(curve.values) == [pytest.approx(1 / (step + 1)) for step in curve.steps]
    [row] = client.results(worked)
    assert (row["task"], row["loss:max"], row["loss"]) == ("w.0", 1.0, row["loss:min"])
    assert (row["optimizer"], row["loss:not_finite"], client.job_metrics(worked).not_finite) == ("adam", 1, 1)


def test_event_files_of_tensorboard_in_one_folder_become_figures_of_the_tasks_that_wrote_them(
    client: Client, cluster: LocalCluster
) -> None:
    writes = [sys.executable, event_file.__file__, "runs", "Loss (train)", "7", "3"]
    parts = {"w": {"command": writes, "matrix": {"RATE": [0.5, 0.25]}, "resources": {"cpu": 0.1}}}
    started = client.start({"name": "boards", "components": parts}).id
    assert client.wait(started, timeout=50).state == "SUCCEEDED"
    [folder] = (cluster.home / "clusters" / "local" / "data" / "jobs" / started).iterdir()
    assert len(list(folder.iterdir())) == 2
    rows = client.results(started)
    assert {row["task"]: (row["Loss_train_"], row["Loss_train_:min"], row["Loss_train_:max"]) for row in rows} == {
        "w.0": (3.0, 0.5, 7.0),
        "w.1": (3.0, 0.25, 7.0),
    }, "at once, as those of grass.report"
    with next(folder.iterdir()).open("ab") as file:
        file.write(b"damaged")  # nobody reads on once the job is over
    wait_until(lambda: len(client.job_metrics(started).curves) == 2, 25)
    assert {tuple(curve.steps) for curve in client.job_metrics(started).curves} == {(0, 1, 2)}


def test_usage_of_a_running_task_and_the_totals_of_many_short_ones(client: Client) -> None:
    running = start(client, "running", "sleep 1000")
    wait_until(lambda: any(task.now for task in client.job_usage(running).tasks), 25)
    [task] = client.job_usage(running).tasks
    wait_until(lambda: (used := client.tasks(running)[0].usage) is not None and used.memory > 0, 25)
    assert task.now.memory > 0 and task.now.threads >= 1 and task.now.files >= 3
    assert any(task.key.startswith(running) for task in client.node_usage("local").tasks)
    wait_until(lambda: any(client.job_usage(running).history.curves.get("memory", ())), 25)
    client.stop(running, grace=0.1)
    short = start(client, "short", "true", replicas=100)
    assert client.wait(short, timeout=50).state == "SUCCEEDED"
    usage = client.job_usage(short, first=5)
    assert usage.count == 100 and len(usage.tasks) == 5
    assert usage.totals.cpu > 0.02 and usage.totals.unmeasured == 0


def test_killed_daemons_lose_no_totals(client: Client, cluster: LocalCluster) -> None:
    burn = f"{sys.executable} -c 'import time\nwhile time.process_time() < 3: pass'"
    job = start(client, "killed", burn)
    wait_until(lambda: (client.job_usage(job).totals or TaskTotals()).cpu > 0.1, 25)
    for daemon in ("node-agent", "shepherd", "monitor"):
        pid = cluster.pid(daemon)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    assert client.wait(job, timeout=50).state == "SUCCEEDED"
    totals = client.job_usage(job).totals
    # an adopted task was not reaped by the new shepherd: what it used after the last sample is not known
    assert 0.1 < totals.cpu <= 3.2 and totals.memory > 1 << 20


def test_the_history_goes_with_the_job(client: Client, worked: str) -> None:
    gone = start(client, "gone", "sleep 3; echo GRASS_METRIC loss=1")
    client.wait(gone, timeout=50)
    wait_until(lambda: client.job_metrics(gone).curves, 25)
    client.delete(gone)
    with pytest.raises(NotFoundError):
        client.job_metrics(gone)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda client, job: client.node_usage("nowhere"), "node nowhere: not found"),
        (lambda client, job: client.job_usage("nothing"), "not found"),
        (lambda client, job: client.task_usage(job, "w.7"), "task w.7 was never assigned"),
        (lambda client, job: client.task_usage(job, "nonsense"), "not a task"),
    ],
)
def test_what_does_not_exist(client: Client, worked: str, ask: Any, said: str) -> None:
    with pytest.raises(NotFoundError, match=said):
        ask(client, worked)


@pytest.fixture
def grass(cluster: LocalCluster) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GRASS_HOME": str(cluster.home)}
        argv = [sys.executable, "-c", "from grass.cli.entry import main; main()", *words]
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=False)

    return run


def test_job_show_has_what_running_tasks_used_so_far(client: Client, grass: Callable[..., Any]) -> None:
    command = f"{sys.executable} -c 'import time\nwhile time.process_time() < 1: pass\ntime.sleep(1000)'"
    job = start(client, "shown", f'[ "$GRASS_INDEX" = 1 ] || {command}', replicas=2)

    def burnt() -> bool:
        """All that the tasks will use: afterwards, two questions have the same answer."""
        return any(task.usage.cpu > 0.98 for task in client.tasks(job) if task.usage)

    wait_until(burnt, 25)
    shown = json.loads(grass("job", "show", job, "-o", "json").stdout)
    assert {task["task"]: task["state"] for task in shown["tasks"]} == {"w.0": "RUNNING", "w.1": "SUCCEEDED"}
    assert shown["usage"]["cpu"] == pytest.approx(1, abs=0.3)
    assert sum(task["usage"]["cpu"] for task in shown["tasks"]) == pytest.approx(shown["usage"]["cpu"], abs=0.1)
    assert "cpu, " in grass("job", "show", job).stdout.partition("Used")[2].partition("\n")[0]
    client.stop(job, grace=0.1)


def test_the_command_line(worked: str, grass: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    shown = grass("job", "usage", worked)
    assert shown.returncode == 0 and "w.0" in shown.stdout and "Peak memory" in shown.stdout, shown.stderr
    assert "Used" in grass("job", "show", worked).stdout
    assert json.loads(grass("job", "usage", worked, "-o", "json").stdout)["count"] == 1
    assert grass("job", "usage", "nothing").returncode == 2
    assert grass("job", "usage", worked, "--tasks", "few").returncode == 2


def test_metrics_are_for_this_machine_or_with_the_token(cluster: LocalCluster, worked: str) -> None:
    url = f"{cluster.config.master.url}/metrics"

    def page(**headers: str) -> str:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return str(answer.read().decode())

    def complete() -> bool:
        try:
            families = {family.name for family in text_string_to_metric_families(page())}
        except urllib.error.HTTPError as error:  # the monitor was just killed, and starts again
            error.close()
            return False
        return families >= {"grass_jobs", "grass_node_cpu", "grass_api_request_seconds", "grass_redis_used_memory"}

    wait_until(complete, 25)
    forwarded, bearer = {"X-Forwarded-For": "192.0.2.1"}, {"Authorization": "Bearer 0123456789abcdef"}
    for headers in (forwarded, bearer, {**forwarded, **bearer}):
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            page(**headers)
        refused.value.close()
    token = Path(cluster.config.master_dir) / "metrics-token"
    token.write_text("short\n")
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        page(**forwarded, Authorization="Bearer short")
    refused.value.close()
    token.write_text("0123456789abcdef\n")
    assert "grass_jobs" in page(**forwarded, **bearer)


def test_metrics_over_tls_are_for_certificates_and_the_token(cluster: LocalCluster, authority: Authority) -> None:
    listen = cluster.config.master.metrics
    assert listen is not None
    url = f"https://localhost:{listen.listen.rpartition(':')[2]}/metrics"
    anybody, known = (ssl.create_default_context(cafile=str(authority.path)) for _ in range(2))
    known.load_cert_chain(*authority.issue("prometheus"))

    def status(context: ssl.SSLContext) -> int:
        try:
            with urllib.request.urlopen(url, timeout=10, context=context) as answer:
                assert any(
                    family.name == "grass_jobs" for family in text_string_to_metric_families(answer.read().decode())
                )
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    wait_until(lambda: status(known) == 200, 25)  # not while the monitor, which was just killed, starts again
    assert status(anybody) == 401


def test_a_cluster_whose_certificate_is_missing_is_not_created() -> None:
    made = LocalCluster(
        LocalSettings(metrics=MetricsListen("127.0.0.1:1", "/nowhere.crt", "/nowhere.key")), kept_keys=False
    )
    try:
        with pytest.raises(ManifestError, match=r"metrics\.certificate: /nowhere\.crt: cannot be read"):
            made.create()
        assert not list(made.home.glob("clusters/local/*.json"))
    finally:
        made.end()
