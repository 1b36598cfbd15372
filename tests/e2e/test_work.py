"""Work on three nodes: an example as containers with image and data, moves between nodes, commands beside tasks."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from grass.api.client import Client
from grass.api.invitation import Invitation
from grass.api.join_client import open_join_client
from grass.config import ClusterConfig
from grass.errors import NotAllowedError
from grass.files.access import access_to
from grass.network_address import host_and_port
from tests.support import stolen_host
from tests.support.browser import chromium, opened
from tests.support.certificates import answer, client_of, cluster_files
from tests.support.lab import SessionLab
from tests.support.mpi_job import assert_over, start_ranks
from tests.support.on_premises import Cluster
from tests.support.rsa_keys import public_jwk
from tests.support.three_nodes import (
    BUSYBOX,
    NODES,
    assert_complete,
    attempts,
    counting,
    finish,
    lines,
    places,
    running,
    started,
    three_nodes,
)
from tests.support.waiting import wait_until

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
TARGET = 0.93


@pytest.fixture(scope="module")
def cluster(running_lab: SessionLab, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("work")
    with three_nodes(running_lab, site, folder, "works", task_redis=True, isolation=None) as made:
        push_image(made, running_lab.busybox_image_tar)
        yield made


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.name, home=cluster.home) as client:
        yield client


def push_image(cluster: Cluster, file: Path) -> None:
    done = cluster.grass("image", "push", "--file", str(file))
    assert done.returncode == 0, done.stderr


def test_containers_on_three_nodes_read_a_pushed_folder_and_what_they_write_is_pulled(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "sets" / "deep").mkdir(parents=True)
    (tmp_path / "sets" / "deep" / "word").write_text("pushed\n")
    sent = cluster.grass("data", "push", str(tmp_path / "sets"), "sets")
    assert sent.returncode == 0, sent.stderr
    listed = json.loads(cluster.grass("data", "list", "sets/deep", "-o", "json").stdout)
    assert [entry["name"].rsplit("/", 1)[-1] for entry in listed] == ["word"]
    command = 'cat /data/sets/deep/word; echo "of $GRASS_NODE" > "$GRASS_OUTPUT/$GRASS_INDEX"'
    part = {"command": command, "image": BUSYBOX, "replicas": 3, "spread": "node", "container": {"data": "/data"}}
    file = tmp_path / "reads.yml"
    file.write_text(json.dumps({"name": "reads", "components": {"c": {**part, "resources": {"cpu": 0.05}}}}))
    done = cluster.grass("job", "start", str(file))
    assert done.returncode == 0, done.stderr
    assert client.wait("reads", timeout=120).state == "SUCCEEDED", client.why("reads")
    nodes = {f"c.{task.index}": task.node for task in client.tasks("reads")}
    assert set(nodes.values()) == set(NODES)
    assert lines(client, "reads") == {(task, 1): ["pushed"] for task in nodes}
    pulled = cluster.grass("job", "pull", "reads", "--to", str(tmp_path / "back"))
    assert pulled.returncode == 0, pulled.stderr
    written = {f"c.{path.name}": path.read_text() for path in (tmp_path / "back").iterdir()}
    assert written == {task: f"of {node}\n" for task, node in nodes.items()}


@pytest.mark.nightly  # the test before has such containers; scripts/demo trains the digits in every run
def test_the_digits_are_learned_by_containers_on_three_nodes(cluster: Cluster, client: Client, tmp_path: Path) -> None:
    push_image(cluster, cluster.lab.image_with("digits", "numpy", "scikit-learn"))
    sent = cluster.grass("data", "push", str(DIGITS), "digits")
    assert sent.returncode == 0, sent.stderr
    listed = json.loads(cluster.grass("data", "list", "digits", "-o", "json").stdout)
    assert {"server.py", "worker.py", "model.py"} <= {entry["name"].rsplit("/", 1)[-1] for entry in listed}
    done = cluster.grass("job", "start", str(DIGITS / "job-containers.yml"))
    assert done.returncode == 0, done.stderr

    waits: set[str] = set()
    wait_until(lambda: waits.update(reasons(client)) or has_ended(client), 300, "the end of digits", every=0.2)
    view = client.job("digits")
    assert view.state == "SUCCEEDED", view
    assert any("image digits" in reason for reason in waits), waits
    workers = client.tasks("digits", "worker")
    assert {task.node for task in workers} == set(NODES)
    printed = lines(client, "digits")
    found = re.search(r"test accuracy ([\d.]+)", "\n".join(printed["server.0", 1]))
    assert found and float(found[1]) >= TARGET
    for index in range(3):
        said = printed[f"worker.{index}", 1]
        assert [line.split(":")[0] for line in said if line.startswith("epoch")] == [
            f"epoch {number}/12" for number in range(1, 13)
        ]
    pulled = cluster.grass("job", "pull", "digits", "--to", str(tmp_path / "digits"))
    assert pulled.returncode == 0, pulled.stderr
    assert accuracy_of(tmp_path / "digits" / "model.npz") == pytest.approx(float(found[1]), abs=0.0001)


def has_ended(client: Client) -> bool:
    return bool(client.job("digits").ended)


def reasons(client: Client) -> set[str]:
    return {task.reason.message for task in client.tasks("digits") if task.reason}


def accuracy_of(file: Path) -> float:
    """Of the pulled model, measured here."""
    pytest.importorskip("sklearn", reason="measuring the model needs scikit-learn: pip install -e .[examples]")
    program = (
        "import sys, model, numpy; _, _, x, y = model.load(); "
        "print(model.accuracy(dict(numpy.load(sys.argv[1])), x, y))"
    )
    done = subprocess.run([sys.executable, "-B", "-c", program, str(file)], cwd=DIGITS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


MEET = """
import os, socket, time
redis = socket.create_connection((os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])), 10).makefile("rwb", 0)
def ask(*words):
    redis.write(" ".join(words).encode() + b"\\r\\n")
    return redis.readline().decode().strip()
ask("HSET", "group:" + os.environ["JOB_ID"], os.environ["NODE_NAME"], "here")
until = time.monotonic() + 60
while (found := ask("HLEN", "group:" + os.environ["JOB_ID"])) != ":3" and time.monotonic() < until:
    time.sleep(0.1)
print("met", found, os.environ["GRASS_REDIS_URL"], ask("CONFIG", "GET", "dir")[:7])
"""


def test_tasks_of_all_nodes_meet_at_the_redis_for_tasks_of_their_own_localhost(
    cluster: Cluster, client: Client
) -> None:
    part = {"command": ["python3", "-c", MEET], "replicas": 3, "spread": "node", "resources": {"cpu": 0.05}, "cwd": "/"}
    client.start({"name": "meet", "components": {"actor": part}})
    assert client.wait("meet", 120).state == "SUCCEEDED", [*client.logs("meet")]
    assert {task.node for task in client.tasks("meet")} == set(NODES)
    said = {each.text for each in client.logs("meet") if each.stream == "stdout"}
    assert said == {"met :3 redis://localhost:6379 -NOPERM"}


SHOWN = """
import socket, ssl, sys
from pathlib import Path
from grass.config import ClusterConfig
from grass.network_address import host_and_port
from grass.tls import client_context
config = ClusterConfig.load(Path(sys.argv[1]) / "cluster.json")
with socket.create_connection(host_and_port(config.task_redis_server)) as plain:
    with client_context(config.tls_files).wrap_socket(plain) as inside:
        print(ssl.DER_cert_to_PEM_cert(inside.getpeercert(binary_form=True)).strip())
"""


def test_the_redis_for_tasks_shows_the_renewed_certificate_of_the_master(cluster: Cluster) -> None:
    master, home = cluster.lab.hosts["master"], f"/var/lib/grass/clusters/{cluster.name}"
    python = ["runuser", "-u", "grass", "--", "/opt/grass/venv/bin/python"]
    master.sh(f"rm {home}/tls/host.pem")
    master.run(*python, "-m", "grass.provision.host_certificate", "renew", f"{home}/cluster.json")
    shown = master.run(*python, "-c", SHOWN, home).stdout.strip()
    assert shown and shown in master.sh(f"cat {home}/tls/host.pem")


@pytest.mark.parametrize("which", ["store", "for tasks"])
def test_redis_of_the_master_refuses_who_speaks_no_tls_1_3_or_shows_no_valid_certificate_of_the_cluster(
    cluster: Cluster, tmp_path: Path, which: str
) -> None:
    master, home = cluster.lab.hosts["master"], f"/var/lib/grass/clusters/{cluster.name}"
    config = ClusterConfig.parse(master.sh(f"cat {home}/cluster.json"))
    assert config.redis.host and config.redis.port and config.task_redis_server
    store = (config.redis.host, config.redis.port)
    address = store if which == "store" else host_and_port(config.task_redis_server)
    foreign = cluster_files(tmp_path / "foreign", cluster.name, "n1").nodes["n1"]
    signing = cluster_files(tmp_path / "own", cluster.name)
    for name in ("ca.key", "ca.pem"):
        (signing.master.folder / name).write_text(master.sh(f"cat {home}/tls/{name}"))
    own, expired = signing.add(tmp_path, "n1"), signing.add(tmp_path / "expired", "n1", days=40)
    assert answer(address, client_of(own), b"PING\r\n").startswith("-NOAUTH")
    plain = answer(address, None, b"PING\r\n")
    assert not plain.startswith(("-", "+")) and "timed out" not in plain, plain
    refused = {
        "protocol version": client_of(own, ssl.TLSVersion.TLSv1_2),
        "certificate required": client_of(None),
        "unknown ca": client_of(foreign),
        "certificate expired": client_of(expired),
    }
    for why, client in refused.items():
        assert f"alert {why}" in answer(address, client)


def test_whoever_only_reaches_the_network_gets_into_nothing(cluster: Cluster, client: Client, tmp_path: Path) -> None:
    """This machine is no host of the cluster. Redis: the test above. The share: test_create.py."""
    command = (
        "echo before; until [ -e /tmp/go ]; do sleep 0.1; done; echo after; sleep 1"  # its end kills what is beside it
    )
    client.start({"name": "honest", "components": {"t": {"command": command, "cwd": "/"}}})
    wait_until(lambda: bool(lines(client, "honest")), 30, "the first line")
    master, n1 = (cluster.lab.hosts[host].address for host in ("master", "n1"))
    job, foreign = client.job("honest").id, cluster_files(tmp_path / "foreign", cluster.name, "n1").nodes["n1"]
    strangers = (None, client_of(None), client_of(foreign))

    forged = {"attempt": 1, "stream": "stdout", "offset": 10**15, "time": 1.0, "text": "FORGED LINE"}
    records = b"".join(
        msgpack.packb([f"grass.{name}.t.0", [[1, forged]], {"chunk": "a"}]) for name in (job, "none-0123abcd")
    )
    command_for_node = b'{"key": "a-0/t.0/1", "argv": ["true"]}'
    head = f"POST /v1/exec HTTP/1.1\r\nHost: x\r\nContent-Length: {len(command_for_node)}\r\n"
    call = f"{head}Authorization: Bearer guess\r\nContent-Type: application/json\r\n\r\n".encode() + command_for_node
    for address, words in (((master, 24224), records), ((n1, 51813), call)):
        for context in strangers:
            said = answer(address, context, words)
            assert not [each for each in ("HELO", "ack", "HTTP", "timed out") if each in said], (address, said)

    api = f"http://{master}:51812"
    assert stolen_host.of_api(api, "guess") == stolen_host.REFUSED
    key = json.loads((cluster.client / "master.pub.json").read_text())["kid"]  # whoever asks gets it
    with contextlib.closing(open_join_client(Invitation((api,), key, "", "", cluster.name))) as guest:
        body = {"user": client.status().user, "secret": "guess", "key": public_jwk("mallory")}
        for attempt in (
            lambda: guest.log_in(body),
            lambda: guest.wait("n1", "guess", None, 0.0),
            lambda: guest.certificate("n1", "guess", "none"),
            lambda: guest.leave("n1", "guess", force=True),
        ):
            with pytest.raises(NotAllowedError):
                attempt()

    live = client.execute("honest", "t.0", ["touch", "/tmp/go"])
    assert not list(live.output()) and live.code == 0
    assert client.wait("honest", timeout=60).state == "SUCCEEDED"
    assert lines(client, "honest") == {("t.0", 1): ["before", "after"]}
    assert cluster.lab.hosts["master"].sh(f"ls /srv/grass/{cluster.name}/logs | grep -c none- || true").strip() == "0"


def test_a_link_that_a_task_puts_into_the_share_opens_nothing_of_the_master_to_the_files_key(
    cluster: Cluster, tmp_path: Path
) -> None:
    master, name = cluster.lab.hosts["master"], cluster.name
    master.sh(f"ln -s /var/lib/grass/clusters/{name} /srv/grass/{name}/leak")
    access = access_to(name, cluster.home)
    try:
        for path in ("leak/", "leak/secrets.json", "l*k/"):
            asked = f"{access.rsync_path('data', '')}{path}"
            command = ["rsync", "-r", *access.rsync_options(), asked, f"{tmp_path}/got/"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert done.returncode != 0 and "leaves the share by a symbolic link" in done.stdout + done.stderr, done
        followed = subprocess.run(
            ["rsync", "-rL", *access.rsync_options(), access.rsync_path("data", ""), f"{tmp_path}/got/"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert followed.returncode != 0 and "to refuse --copy-links" in followed.stderr, followed
        assert not list(tmp_path.rglob("secrets.json"))
    finally:
        master.sh(f"rm /srv/grass/{name}/leak")


def test_a_task_without_its_image_says_which_and_what_brings_it(client: Client) -> None:
    client.start({"name": "none", "components": {"t": {"command": "true", "image": "nobody/knows:7"}}})
    assert client.wait("none", timeout=60).state == "FAILED"
    [task] = client.tasks("none")
    assert "image nobody/knows:7 is neither on this node nor in the share" in task.reason.message
    assert "grass image push" in task.reason.message


def test_a_drain_moves_the_tasks_of_a_running_job_and_it_ends_well(cluster: Cluster, client: Client) -> None:
    before = started(client, counting("moved"))
    assert set(before.values()) == set(NODES)
    done = cluster.grass("node", "drain", "n1", "--deadline", "1s")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: len(places(client, "moved")) == 6, 60, "the moved tasks", 0.2)
    after = places(client, "moved")
    assert set(after.values()) == {"n2", "n3"}
    moved = {task for task, node in before.items() if node == "n1"}
    assert {task: after[task] for task in before if task not in moved} == {
        task: node for task, node in before.items() if task not in moved
    }
    view = finish(client, "moved")
    assert (view.state, view.restarts) == ("SUCCEEDED", 0)
    assert attempts(client, "moved") == {task: 2 if task in moved else 1 for task in before}
    assert_complete(client, "moved")
    assert containers(cluster, "n1") == []
    assert cluster.grass("node", "uncordon", "n1").returncode == 0


def containers(cluster: Cluster, host: str) -> list[str]:
    shown = ("--filter", f"label=grass.cluster={cluster.name}", "--format", "{{.Names}} {{.State}}")
    return [line for line in cluster.lab.hosts[host].run("docker", "ps", *shown).stdout.splitlines() if line]


def test_nothing_new_comes_to_a_cordoned_node_and_what_runs_there_goes_on(cluster: Cluster, client: Client) -> None:
    before = started(client, counting("stays"))
    assert cluster.grass("node", "cordon", "n2").returncode == 0
    others = started(client, counting("elsewhere"))
    assert set(others.values()) == {"n1", "n3"}
    assert places(client, "stays") == before
    for name in ("stays", "elsewhere"):
        assert finish(client, name).state == "SUCCEEDED"
        assert set(attempts(client, name).values()) == {1}
        assert_complete(client, name)
    assert cluster.grass("node", "uncordon", "n2").returncode == 0


def test_the_dashboard_starts_a_job_whose_tasks_turn_green_on_all_nodes_and_drains_a_node(
    cluster: Cluster, client: Client
) -> None:
    process = cluster.start("dashboard", "--no-browser")
    assert process.stdout is not None
    try:
        with chromium() as browser, opened(browser, process.stdout.readline().strip()) as page:
            page.evaluate("location.hash = '/jobs'")
            shown = counting("shown", containers=0)
            page.click("button:text-is('Start a job')")
            page.fill(".dialog textarea", json.dumps(shown))
            page.click(".dialog button:text-is('Check')")
            page.wait_for_selector(".dialog h2:text-is('shown would start now')")
            page.click(".dialog button:text-is('Start job')")
            page.wait_for_selector("canvas[aria-label='Tasks of p: 3 running']")
            assert set(running(client, shown).values()) == set(NODES)
            assert finish(client, "shown").state == "SUCCEEDED"
            page.wait_for_selector("canvas[aria-label='Tasks of p: 3 succeeded']")
            page.wait_for_selector(".head .state:has-text('succeeded')")
            page.evaluate("location.hash = '/nodes/n1'")
            page.click("button:has-text('Drain')")
            assert page.inner_text(".dialog .command code").startswith("grass node drain n1")
            page.click(".dialog button.primary")
            page.wait_for_selector(".head .state:has-text('drained')")
            assert client.node("n1").state == "DRAINED"
            ticks = {"command": "for i in $(seq 600); do echo tick $i.; sleep 1; done", "resources": {"cpu": 0.1}}
            watched = client.start({"name": "watched", "components": {"p": ticks}}).id
            page.evaluate(f"location.hash = '/jobs/{watched}/logs'")
            page.wait_for_selector(".log .text >> nth=0")
            written = page.locator(".log .text").count()
            page.wait_for_selector(f".log .text:has-text('tick {written + 1}.')")
            page.click(".actions button:has-text('Stop')")
            page.click(".dialog button:has-text('Stop job')")
            page.wait_for_selector(".head .state:has-text('stopped')")
            large = {"command": "true", "resources": {"cpu": 900}}
            waiting = client.start({"name": "large", "components": {"p": large}}).id
            page.evaluate(f"location.hash = '/jobs/{waiting}'")
            page.wait_for_selector("section[aria-label='Why it waits'] td:has-text('node')")
            client.stop(waiting)
            page.evaluate("location.hash = '/nodes/n1'")
            page.click("button:has-text('Uncordon')")
            page.click(".dialog button.primary")
            page.wait_for_selector(".head .state:has-text('ready')")
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_commands_run_beside_tasks_on_any_node(cluster: Cluster, client: Client) -> None:
    where = started(client, counting("beside"))
    for task, node in where.items():
        done = cluster.grass(
            "job", "exec", f"beside.{task}", "--", "sh", "-c", 'echo "$GRASS_TASK on $GRASS_NODE"; exit 7'
        )
        assert (done.returncode, done.stdout) == (7, f"beside.{task} on {node}\n"), done.stderr
    inside = cluster.grass("job", "exec", "beside.c.0", "--", "cat", "/proc/1/cmdline")
    assert "line $i" in inside.stdout
    live = client.execute("beside", "c.1", ["sh", "-c", "echo first; read word; echo got $word"])
    output = live.output()
    assert next(output) == ("stdout", b"first\n")
    live.send(b"second\n", end=True)
    assert b"".join(data for _, data in output) == b"got second\n"
    assert live.code == 0
    assert finish(client, "beside").state == "SUCCEEDED"
    gone = cluster.grass("job", "exec", "beside.c.0", "--", "true")
    assert gone.returncode == 2 and "beside.c.0" in gone.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("end", ["killed-rank", "ctrl-c"])
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_ranks_on_three_nodes_find_each_other_and_end_together(
    cluster: Cluster, client: Client, mpi: str, end: str
) -> None:
    ranks = start_ranks(cluster, client, f"{mpi}-{end}", mpi)
    if end == "killed-rank":
        cluster.lab.hosts[ranks[1].node].run("kill", "-KILL", str(ranks[1].pid))
    else:
        [launcher] = client.tasks(f"{mpi}-{end}", "launcher")
        cluster.lab.hosts[launcher.node].run("kill", "-INT", "--", f"-{launcher.pid}")
    assert_over(cluster, client, f"{mpi}-{end}", ranks)
