"""Machines become nodes in each of the three ways, work, are emptied, and leave nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
import yaml

from grass.api.client import Client
from grass.api.invitation import parse_token
from grass.model.lifecycle import TaskState
from grass.system.entropy import request_id
from tests.support.bench_run import figures
from tests.support.capture import captured
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, holds, settings
from tests.support.process_watch import watched_processes
from tests.support.three_nodes import BUSYBOX, started
from tests.support.waiting import wait_until

JOB = {
    "name": "pair",
    "components": {"w": {"command": 'echo "on $GRASS_NODE"', "replicas": 2, "cwd": "/"}},
}
STATE = "/var/lib/grass/clusters/joins"
AS_ROOT = f"""
id -u; exec 2>/dev/null; arping -c 1 -w 1 -I lo 127.0.0.1 2>&1
cd "$GRASS_DATA"; for each in images/index.json images/x logs/x; do echo evil > $each && echo wrote $each; done
rm -r images logs && echo removed; mknod /tmp/disk b 8 0 && echo device; mount -t tmpfs none /mnt && echo mounted
cat {STATE}/secrets.json && echo secrets; ls /run/docker.sock && echo engine; echo over
"""
"""What root in a container tries where users are not isolated: it sniffs, changes images and logs, and leaves."""
SLEEPERS = {
    "name": "sleepers",
    "components": {"w": {"command": "sleep 600", "replicas": 4, "cwd": "/", "resources": {"cpu": 0.1}}},
}


@pytest.fixture(scope="module")
def cluster(running_lab: SessionLab, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master; its nodes come and go with the tests."""
    running_lab.renew("master", "n1", "n2")
    made = Cluster(running_lab, site, tmp_path_factory.mktemp("join"), settings(running_lab, name="joins"))
    made.created()
    yield made
    _clean(made, set())
    made.grass("delete", "--force", "joins")


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.name, home=cluster.home) as client:
        yield client


def add(cluster: Cluster, *hosts: str, **environment: str) -> Any:
    places = [f"ops@{cluster.lab.hosts[host].address}" for host in hosts]
    return cluster.grass("node", "add", *places, "-o", "json", **environment)


def added(cluster: Cluster, *hosts: str) -> list[dict[str, Any]]:
    done = add(cluster, *hosts)
    assert done.returncode == 0, done.stderr
    views: list[dict[str, Any]] = json.loads(done.stdout)
    return views


def token(cluster: Cluster, *options: str) -> str:
    done = cluster.grass("node", "token", "-o", "json", *options)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["token"])


def states(client: Client) -> dict[str, str]:
    return {view.name: view.state for view in client.nodes()}


def curl_join(cluster: Cluster, host: str, *options: str) -> Any:
    url = f"http://{cluster.lab.hosts['master'].address}:51812"
    fetch = f"python3 -c \"import urllib.request as u; print(u.urlopen('{url}/v1/join.py').read().decode())\""
    return cluster.lab.ssh(host, f"{fetch} | sudo python3 - {' '.join(options)}", user="ops", seconds=180)


def of_master(held: list[str]) -> list[str]:
    """Without what comes and goes while a master works: what jobs and probes print, and the databases of samba."""
    at_work = ("/srv/grass/joins/", "/var/lib/grass/samba/joins/")
    return [line for line in of_grass(held) if not line.startswith(at_work)]


def of_grass(held: list[str]) -> list[str]:
    """Without what an engine keeps for itself once a container has run."""
    return [line for line in held if not line.startswith("/var/lib/containerd/")]


@pytest.fixture
def empty(cluster: Cluster) -> None:
    """Whatever the test before left, no machine is a node."""
    _clean(cluster, set())


def joined(cluster: Cluster, client: Client, *hosts: str) -> None:
    """These are the nodes, added by the test before or now."""
    _clean(cluster, set(hosts))
    found = {view.name: view for view in client.nodes()}
    for host in hosts:
        if host in found and found[host].cordoned:
            cluster.grass("node", "uncordon", host)
    missing = [host for host in hosts if host not in found]
    if missing:
        added(cluster, *missing)
    wait_until(lambda: states(client) == dict.fromkeys(hosts, "READY"), 40, f"only {hosts}, READY")


def _clean(cluster: Cluster, keep: set[str]) -> None:
    cluster.lab.make_whole()
    done = cluster.grass("node", "list", "-o", "quiet")
    for name in set(done.stdout.split()) - keep:
        cluster.grass("node", "remove", "--force", name)
    for host in sorted({"n1", "n2"} - (keep & set(done.stdout.split()))):
        cluster.lab.ssh(
            host, "test ! -e /opt/grass/venv/bin/grass || /opt/grass/venv/bin/grass leave --force", seconds=120
        )


@pytest.mark.usefixtures("empty")
def test_two_machines_are_added_over_ssh_run_a_job_are_entered_and_leave_nothing(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    before = {host: holds(cluster.lab, host) for host in ("n1", "n2")}
    with captured(cluster.lab.hosts["master"], tmp_path) as seen:
        views = added(cluster, "n1", "n2")
        client.start(JOB)
        assert client.wait("pair", timeout=60).state == "SUCCEEDED"
    assert [(view["name"], view["state"]) for view in views] == [("n1", "READY"), ("n2", "READY")]
    assert all({"process", "docker"} <= set(view["runtimes"]) for view in views)
    assert all(view["resources"]["memory"] > psutil.virtual_memory().total / 2 for view in views)
    assert not [text for text in (*secrets(cluster, "n1", "n2"), "grass.pair-", "on $GRASS_NODE") if seen.finds(text)]
    said = {piece.text.strip() for piece in client.logs("pair")}
    assert said <= {"on n1", "on n2"} and said
    leaves_things(cluster, client)
    again = added(cluster, "n1")  # finds everything as it should be
    assert again[0]["state"] == "READY"
    place = f"ops@{cluster.lab.hosts['n1'].address}"
    other = cluster.grass("node", "add", place, "--cpu", "1", "--labels", "disk=ssd")
    assert other.returncode == 2 and "--labels: joined with none, now disk=ssd" in other.stderr, other.stderr
    twice = cluster.grass("node", "add", place, place.replace("ops@", "root@"))
    assert twice.returncode == 2 and "is named twice" in twice.stderr, twice.stderr
    assert states(client) == {"n1": "READY", "n2": "READY"}
    a_shell_and_commands_run_as_whoever_added_the_node_with_its_host_key_checked(cluster)
    done = cluster.grass("node", "remove", "--drain", "n1", "n2")
    assert done.returncode == 0, done.stderr
    assert states(client) == {}
    for host, held in before.items():
        assert of_grass(holds(cluster.lab, host)) == of_grass(held)
        assert not cluster.lab.hosts[host].run("docker", "images", "--quiet").stdout.strip()


@pytest.mark.nightly  # the test before this one looks at a join and a job
@pytest.mark.usefixtures("empty")
def test_nothing_that_is_secret_crosses_the_network_in_plain_text(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    """A join over SSH and one by token, a job, an exec, a page and a push, as the master's interface sees them."""
    word = {name: f"planted {name} {request_id()}" for name in ("command", "line", "exec", "answer", "file", "page")}
    (tmp_path / "pushed").write_text(word["file"] * 1000)
    there = '"$GRASS_DATA/secret/pushed"'  # a mount shows what is new within a second
    sees = f"until [ -e {there} ]; do sleep 0.1; done; cat {there}; echo {word['line']}; sleep 600 # {word['command']}"
    part = {"command": sees, "cwd": "/", "replicas": 2, "spread": "node"}
    page = f"mkdir p; echo {word['page']} > p/planted; exec python3 -m http.server -d p -b 127.0.0.1 $GRASS_PORT_WEB"
    web = {"command": page, "ports": ["web"], "web": "web", "ready": {"port": "web"}}
    with watched_processes() as processes, captured(cluster.lab.hosts["master"], tmp_path) as seen:
        text = token(cluster)
        assert [view["name"] for view in added(cluster, "n1")] == ["n1"]
        joined_by_itself = curl_join(cluster, "n2", "--token", text)
        assert joined_by_itself.code == 0, joined_by_itself
        pushed = cluster.grass("data", "push", str(tmp_path / "pushed"), "secret/pushed")
        assert pushed.returncode == 0, pushed.stderr
        client.start({"name": "secret", "components": {"w": part, "page": web}})
        wait_until(lambda: said(client, "secret").count(word["line"]) == 2, 60, "what both tasks print")
        assert said(client, "secret").count(word["file"]) == 2000
        for task in ("w.0", "w.1"):
            script = f"cat >/dev/null; echo {word['exec']}"
            live = client.execute("secret", task, ["sh", "-c", script])
            live.send(word["answer"].encode(), end=True)
            assert b"".join(data for _, data in live.output()).decode().strip() == word["exec"]
        forwarding = client.forward("secret", "page")
        threading.Thread(target=forwarding.serve, daemon=True).start()
        with contextlib.closing(forwarding), urlopen(f"{forwarding.url}planted", timeout=30) as got:
            assert got.read().decode().strip() == word["page"]
        client.stop("secret")
        client.wait("secret", timeout=60)
    assert seen.lost == 0 and all(seen.ports().get(port, 0) > 1000 for port in (6379, 24224, 51445, 51812, 51813))
    readable = seen.finds("/v1/join")  # the path of a call, which is not sealed: so this test can fail
    assert readable and all(51812 in ports for ports in readable)
    for planted in (
        *word.values(),
        text,
        parse_token(text).secret,
        *secrets(cluster, "n1", "n2"),
        "/v1/exec",
        "grass.secret-",
    ):
        assert seen.finds(planted) == [], planted
    assert processes.finds(word["command"])  # of the task: so this can fail
    for planted in secrets(cluster, "n1", "n2"):
        assert processes.finds(planted) == []


def secrets(cluster: Cluster, *nodes: str) -> list[str]:
    """Return the passwords and tokens of these nodes, and the password of the share."""
    hosts = cluster.lab.hosts
    found = [json.loads(hosts[host].sh(f"cat {STATE}/secrets.json")) for host in ("master", *nodes)]
    return [found[0]["samba"], *(value for own in found[1:] for value in (own["redis"]["node"], own["node_token"]))]


@pytest.mark.nightly  # test_api_joins.py renews certificates against the API in every run
def test_a_node_gets_its_certificate_again_and_only_for_itself(cluster: Cluster, client: Client) -> None:
    joined(cluster, client, "n1", "n2")
    master, n1 = cluster.lab.hosts["master"], cluster.lab.hosts["n1"]
    program = "runuser -u grass -- /opt/grass/venv/bin/python -m grass.provision.host_certificate"
    renew = f"{program} renew {STATE}/cluster.json"
    part = {"command": "echo begun; sleep 600", "cwd": "/", "replicas": 2, "spread": "node"}
    where = started(client, {"name": "certified", "components": {"w": part}})
    task = next(f"certified.{task}" for task, node in where.items() if node == "n1")
    before = n1.sh(f"cat {STATE}/tls/host.pem")
    n1.sh(f"rm {STATE}/tls/ca.pem")
    again = cluster.grass("node", "add", f"ops@{n1.address}")
    assert again.returncode == 0 and "get a certificate of the cluster: done" in again.stderr, again.stderr
    assert n1.sh(f"cat {STATE}/tls/host.pem") != before
    assert cluster.grass("job", "exec", task, "--", "true").returncode == 0
    n1.sh(f"rm {STATE}/tls/host.pem; {renew}; test -s {STATE}/tls/host.pem")
    master.sh(f"rm {STATE}/tls/host.pem; {renew}; test -s {STATE}/tls/host.pem")  # redis reads it
    assert cluster.grass("job", "exec", task, "--", "true").returncode == 0
    n1.sh(f"cp {STATE}/tls/host.pem /tmp/own.pem")
    try:
        copy = cluster.lab.hosts["n2"].sh(f"cat {STATE}/tls/host.pem")
        n1.run("sh", "-c", f"cat > {STATE}/tls/host.pem", text_in=copy)
        stolen = cluster.grass("job", "exec", task, "--", "true")
        assert stolen.returncode == 3 and "/node/n2, not of grass://joins/node/n1" in stolen.stderr, stolen.stderr
    finally:
        n1.sh(f"cat /tmp/own.pem > {STATE}/tls/host.pem; rm /tmp/own.pem")
    client.stop("certified")
    client.wait("certified", timeout=60)


def said(client: Client, job: str) -> str:
    return "".join(piece.text for piece in client.logs(job))


def leaves_things(cluster: Cluster, client: Client) -> None:
    """In the home of its user, and an image in the engine; what lies in the share can be run."""
    pushed = cluster.grass("image", "push", "--file", str(cluster.lab.busybox_image_tar))
    assert pushed.returncode == 0, pushed.stderr
    script = f"/srv/grass/{cluster.name}/run.sh"
    cluster.lab.hosts["master"].sh(f"printf '#!/bin/sh\\necho it ran\\n' > {script}")
    part = {"cwd": "/", "replicas": 2, "spread": "node"}
    seen = 'until [ -e "$GRASS_DATA/run.sh" ]; do sleep 0.1; done'  # a mount shows what is new within a second
    home = {**part, "command": f'mkdir -p ~/.cache && echo x > ~/.cache/left && {seen}; exec "$GRASS_DATA/run.sh"'}
    inside = {**part, "command": AS_ROOT, "image": BUSYBOX, "runtime": "docker"}
    client.start({"name": "leaves", "components": {"home": home, "inside": inside}})
    assert client.wait("leaves", timeout=60).state == "SUCCEEDED", client.why("leaves")
    said = sorted(piece.text for piece in client.logs("leaves"))
    assert said == sorted(["it ran", "0", "arping: socket: Operation not permitted", "over"] * 2)
    for host in ("n1", "n2"):
        assert cluster.lab.hosts[host].run("docker", "images", "--quiet").stdout.strip()


@pytest.mark.usefixtures("empty")
def test_a_node_is_added_with_a_sudo_password_behind_a_closed_port_and_its_machine_is_replaced(
    cluster: Cluster, client: Client
) -> None:
    hosts_that_cannot_be_reached_or_entered_are_refused_and_nothing_changes(cluster)
    a_node_that_the_master_cannot_reach_is_said_to_be_one_until_its_port_is_open(cluster, client)
    another_machine_at_the_address_of_a_node_is_refused(cluster, client)


def add_with_password(cluster: Cluster, password: str) -> Any:
    place = f"grass-admin@{cluster.lab.hosts['n1'].address}"
    return cluster.grass("node", "add", place, "-o", "json", GRASS_BECOME_PASSWORD=password)


def hosts_that_cannot_be_reached_or_entered_are_refused_and_nothing_changes(cluster: Cluster) -> None:
    lab = cluster.lab
    before = holds(lab, "n1")
    wrong = add_with_password(cluster, "wrong")
    assert wrong.returncode == 2 and "sudo" in wrong.stderr
    assert holds(lab, "n1") == before
    lab.hosts["n2"].cut()
    away = add(cluster, "n2")
    assert away.returncode == 3, away.stderr
    lab.make_whole()


def a_node_that_the_master_cannot_reach_is_said_to_be_one_until_its_port_is_open(
    cluster: Cluster, client: Client
) -> None:
    address = cluster.lab.hosts["n1"].address
    rule = "INPUT -p tcp --dport 51813 -j REJECT"
    assert cluster.lab.ssh("n1", f"iptables -A {rule}").code == 0
    try:
        closed = add_with_password(cluster, cluster.lab.password)
        blamed = (
            f"n1 joined, but the master cannot reach it at {address}:51813 (connection refused): open this TCP port"
        )
        assert closed.returncode == 1 and blamed in closed.stderr, closed.stderr
        assert states(client) == {"n1": "READY"}
        client.start(SLEEPERS)
        wait_until(lambda: client.job("sleepers").counts.get(TaskState.RUNNING) == 4, seconds=30)
        done = cluster.grass("job", "exec", "sleepers.w.0", "--", "true")
        assert done.returncode == 3 and f"node n1: the master cannot reach it at {address}:51813" in done.stderr
        assert "cluster joins" not in done.stderr
    finally:
        cluster.lab.ssh("n1", f"iptables -D {rule}")
    again = add_with_password(cluster, cluster.lab.password)
    assert again.returncode == 0, again.stderr
    assert cluster.grass("job", "exec", "sleepers.w.0", "--", "true").returncode == 0
    client.stop("sleepers")
    client.wait("sleepers", timeout=60)
    client.delete("sleepers")


def another_machine_at_the_address_of_a_node_is_refused(cluster: Cluster, client: Client) -> None:
    cluster.lab.reset("n1")
    other = add(cluster, "n1")
    assert other.returncode == 2 and "key" in other.stderr
    kept = cluster.grass("node", "remove", "n1")
    assert kept.returncode == 2 and "--force" in kept.stderr
    gone = cluster.grass("node", "remove", "--force", "n1")
    assert gone.returncode == 0, gone.stderr
    assert states(client) == {}


@pytest.mark.usefixtures("empty")
def test_more_than_a_machine_has_is_refused_before_anything_is_changed(cluster: Cluster, client: Client) -> None:
    before = holds(cluster.lab, "n1")
    place = f"ops@{cluster.lab.hosts['n1'].address}"
    done = cluster.grass("node", "add", place, "--cpu", "9999", "--memory", "9000GiB", "--gpu", "99")
    assert done.returncode == 2 and "n1 cannot become a node; nothing was changed" in done.stderr, done.stderr
    assert all(f"--{what}" in done.stderr for what in ("cpu 9999", "memory 9000GiB", "gpu 99"))
    assert client.nodes() == []
    assert holds(cluster.lab, "n1") == before


@pytest.mark.usefixtures("empty")
def test_a_plan_names_the_steps_and_makes_no_token_no_node_and_no_file(cluster: Cluster, client: Client) -> None:
    before, events = holds(cluster.lab, "n1"), [(each.id, each.kind) for each in client.events()]
    done = cluster.grass("node", "add", "--plan", "--become", "sudo", f"ops@{cluster.lab.hosts['n1'].address}")
    assert done.returncode == 0, done.stderr
    assert "join the cluster" in done.stdout and "start" in done.stdout
    assert [(each.id, each.kind) for each in client.events()] == events
    assert client.nodes() == []
    assert holds(cluster.lab, "n1") == before


@pytest.mark.nightly  # in every run, a cluster is deleted whose node is away (test_create.py)
def test_a_node_whose_machine_is_away_is_left_for_force(cluster: Cluster, client: Client) -> None:
    joined(cluster, client, "n1", "n2")
    cluster.lab.hosts["n2"].cut()
    kept = cluster.grass("node", "remove", "n2")
    assert kept.returncode == 3 and "--force" in kept.stderr
    assert "n2" in states(client)
    forced = cluster.grass("node", "remove", "--force", "n2")
    assert forced.returncode == 0, forced.stderr
    assert "n2" not in states(client)
    cluster.lab.make_whole()
    left = cluster.lab.ssh("n2", "/opt/grass/venv/bin/grass", "leave", seconds=120)
    assert left.code == 0, left


@pytest.mark.nightly  # in every run, test_work.py drains nodes, and test_host_faults.py kills and starts them
def test_nodes_are_drained_and_rebooted(cluster: Cluster, client: Client) -> None:
    joined(cluster, client, "n1", "n2")
    a_node_is_cordoned_drained_during_a_job_and_opened_again(cluster, client)
    a_node_with_a_task_is_not_removed_after_the_time_limit(cluster, client)
    the_share_comes_back_after_a_reboot_of_the_node(cluster, client)


def a_node_with_a_task_is_not_removed_after_the_time_limit(cluster: Cluster, client: Client) -> None:
    part = {"command": "sleep 300", "replicas": 2, "spread": "node", "resources": {"cpu": 0.1}}
    client.start({"name": "stays", "components": {"w": part}})
    wait_until(lambda: client.job("stays").counts.get(TaskState.RUNNING) == 2, 30, "a task on each node", 0.2)
    late = cluster.grass("node", "remove", "n1", "--drain", "--timeout", "1s")
    assert late.returncode == 124, late.stderr
    assert "waits for 1 task: stays/w." in late.stderr and "was not removed" in late.stderr, late.stderr
    client.stop("stays", grace=0)
    assert cluster.grass("node", "uncordon", "n1").returncode == 0
    wait_until(lambda: states(client)["n1"] == "READY", 30, "n1 again", 0.2)


def a_shell_and_commands_run_as_whoever_added_the_node_with_its_host_key_checked(cluster: Cluster) -> None:
    done = cluster.grass("node", "ssh", "n1", "--", "sh", "-c", 'echo "$(hostname) $(whoami) $1"; exit 7', "x", "a  b")
    assert (done.returncode, done.stdout) == (7, "n1 ops a  b\n"), done.stderr
    piped = cluster.grass("node", "ssh", "n1", "echo one | tr a-z A-Z")
    assert piped.stdout == "ONE\n"
    assert on_a_terminal(cluster, "echo it is $((40 + 2)) on $(hostname); exit 3\n") == (3, True)

    pins = cluster.client / "known_hosts"
    kept = pins.read_text()
    address = cluster.lab.hosts["n1"].address
    other = next(line.split(maxsplit=1)[1] for line in kept.splitlines() if not line.startswith(f"{address} "))
    lines = [f"{address} {other}" if line.startswith(f"{address} ") else line for line in kept.splitlines()]
    pins.write_text("\n".join(lines) + "\n")
    try:
        refused = cluster.grass("node", "ssh", "n1", "--", "touch", "/tmp/was-here")
    finally:
        pins.write_text(kept)
    assert refused.returncode == 255 and "IDENTIFICATION HAS CHANGED" in refused.stderr
    assert cluster.grass("node", "ssh", "n1", "--", "test", "-e", "/tmp/was-here").returncode == 1
    unknown = cluster.grass("node", "ssh", "n9", "true")
    assert unknown.returncode != 0 and "n9" in unknown.stderr


def on_a_terminal(cluster: Cluster, typed: str) -> tuple[int, bool]:
    """What a shell on n1 ends with that is typed at, and whether it printed the answer."""
    ours, theirs = os.openpty()
    env = {**os.environ, "GRASS_HOME": str(cluster.home), "PYTHONPATH": str(cluster.site)}
    command = [sys.executable, str(cluster.site / "bin" / "grass"), "node", "ssh", "n1"]
    with subprocess.Popen(
        command, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as shell:
        os.close(theirs)
        said, until = b"", time.monotonic() + 30
        os.write(ours, typed.encode())
        with contextlib.suppress(OSError):  # the terminal is gone with the shell
            while time.monotonic() < until and select.select([ours], [], [], 30)[0] and (piece := os.read(ours, 4096)):
                said += piece
        os.close(ours)
        return shell.wait(30), b"it is 42 on n1" in said


@pytest.mark.usefixtures("empty")
def test_a_machine_without_grass_joins_by_the_masters_script_and_leaves_by_itself(
    cluster: Cluster, client: Client
) -> None:
    before = holds(cluster.lab, "n2")
    made = token(cluster, "--name", "second")
    master = cluster.lab.hosts["master"].address
    file = f"mode: grass/on-premises\nmaster: {{address: {master}}}\nnode: {{labels: {{disk: ssd}}}}\ntoken: {made}\n"
    cluster.lab.ssh("n2", "cat > /tmp/join.yml", text_in=file)
    done = curl_join(cluster, "n2", "/tmp/join.yml", "--name", "second", "--cpu", "1.5")
    cluster.lab.ssh("n2", "rm", "/tmp/join.yml")
    assert done.code == 0, done
    view = client.node("second")
    assert (view.state, view.labels["disk"], view.resources.cpu) == ("READY", "ssd", 1500)
    share = cluster.lab.ssh("n2", "echo hello > /srv/grass/joins/jobs/from-n2")
    assert share.code == 0, share
    wait_until(
        lambda: cluster.lab.ssh("master", "cat", "/srv/grass/joins/jobs/from-n2").stdout == "hello\n", seconds=20
    )
    journal = cluster.lab.ssh("n2", "sudo journalctl --no-pager -o cat -u 'grass-*@joins.service'", user="ops")
    assert "node-agent" in journal.stdout, journal  # as docs/guide/joining.md has it
    refused = cluster.grass("delete", "joins")
    assert refused.returncode == 3 and "nothing was changed\n  second: it joined by itself" in refused.stderr
    assert states(client) == {"second": "READY"}
    other = cluster.lab.ssh("n2", "sudo", "grass", "join", "--token", made, "--name", "second", user="ops", seconds=120)
    assert other.code == 2 and "second is already a node with another offer; nothing was changed" in other.stderr, other
    tokens_that_expired_and_names_that_exist_are_refused(cluster, client)
    left = cluster.lab.ssh("n2", "sudo", "grass", "leave", user="ops", seconds=120)
    assert left.code == 0, left
    assert states(client) == {}
    assert of_grass(holds(cluster.lab, "n2")) == of_grass(before)


def tokens_that_expired_and_names_that_exist_are_refused(cluster: Cluster, client: Client) -> None:
    before = holds(cluster.lab, "n1")
    taken = curl_join(cluster, "n1", "--token", token(cluster), "--name", "second")
    assert taken.code == 2 and "node second: exists already" in taken.stderr
    stale = token(cluster, "--expires", "0.2s")
    expired = curl_join(cluster, "n1", "--token", stale)
    assert expired.code == 2 and "expired" in expired.stderr
    assert holds(cluster.lab, "n1") == before
    assert states(client) == {"second": "READY"}


@pytest.mark.usefixtures("empty")
def test_a_user_who_is_not_root_joins_and_leaves(cluster: Cluster, client: Client) -> None:
    lab = cluster.lab
    before = lab.ssh("n1", "find ~ | sort", user="ops").stdout
    url = f"http://{lab.hosts['master'].address}:51812"
    fetch = f"python3 -c \"import urllib.request as u; print(u.urlopen('{url}/v1/join.py').read().decode())\""
    run = f"{fetch} | python3 - --rootless --token {token(cluster)} --name mine"
    leave = "~/.grass/venv/bin/grass leave --rootless --force"
    done = lab.ssh("n1", f"{run} && ls ~/.grass && {leave}", user="ops", seconds=180)
    assert done.code == 0, done
    assert "mine: READY" in done.stderr
    assert states(client) == {}
    after = lab.ssh("n1", "find ~ | sort", user="ops").stdout
    assert [line for line in after.splitlines() if ".config" not in line] == before.splitlines()


@pytest.mark.nightly  # a machine joins by the same script in the test before; unit tests read the file
@pytest.mark.usefixtures("empty")
def test_maros_join_file_is_taken_as_it_is(cluster: Cluster, client: Client, tmp_path: Path) -> None:
    lab = cluster.lab
    file = {
        "mode": "grass/on-premises",
        "master": {
            "private_ip_address": lab.hosts["master"].address,
            "api_server": {"port": 51812},
            "redis": {"port": 6379},
        },
        "node": {
            "hostname": "by-file",
            "username": "ops",
            "public_ip_address": lab.hosts["n1"].address,
            "private_ip_address": lab.hosts["n1"].address,
            "resources": {"cpu": "all", "memory": "2048m", "gpu": 0},
            "ssh": {"port": 22},
        },
        "configs": {"install_node_runtime": True, "install_node_gpu_support": False},
    }
    lab.ssh("n1", "cat > /root/join.yml", text_in=yaml.safe_dump(file))
    done = curl_join(cluster, "n1", "--token", token(cluster), "/root/join.yml")
    assert done.code == 0, done
    view = client.node("by-file")
    assert (view.state, view.resources.memory) == ("READY", 2 << 30)
    assert set(view.runtimes) == {"process", "docker"}


@pytest.mark.nightly  # two machines join in every run
@pytest.mark.usefixtures("empty")
def test_the_bench_of_joining_nodes_prints_its_figures(cluster: Cluster) -> None:
    """The other benches are in ``tests/integration/test_benches.py``."""
    given = {"GRASS_LAB": cluster.lab.name, "GRASS_BENCH_HOME": str(cluster.home)}
    found = figures("node_add", "--rounds", "1", "--nodes", "1", seconds=300, **given)
    assert [(figure["name"], figure["unit"], len(figure["samples"])) for figure in found] == [("one", "s", 1)]


@pytest.mark.nightly  # other hosts join and leave in the same way in every run; unit tests have what the two share
@pytest.mark.usefixtures("empty")
def test_the_master_host_is_a_node_too_and_stays_the_master_when_that_leaves(cluster: Cluster, client: Client) -> None:
    before = holds(cluster.lab, "master")
    views = added(cluster, "master")
    assert [(view["name"], view["state"]) for view in views] == [("master", "READY")]
    done = cluster.grass("node", "remove", "master")
    assert done.returncode == 0, done.stderr
    assert states(client) == {}
    assert client.status().cluster == "joins"
    assert of_master(holds(cluster.lab, "master")) == of_master(before)


def a_node_is_cordoned_drained_during_a_job_and_opened_again(cluster: Cluster, client: Client) -> None:
    client.start(SLEEPERS)
    wait_until(lambda: client.job("sleepers").counts.get(TaskState.RUNNING) == 4, seconds=30)
    assert cluster.grass("node", "cordon", "n2").returncode == 0
    assert client.node("n2").cordoned
    assert cluster.grass("node", "uncordon", "n2").returncode == 0
    done = cluster.grass("node", "drain", "n1", "--deadline", "1s")
    assert done.returncode == 0, done.stderr
    assert client.node("n1").state == "DRAINED"
    wait_until(lambda: client.job("sleepers").counts.get(TaskState.RUNNING) == 4, seconds=30)
    assert {task.node for task in client.tasks("sleepers") if task.state == "RUNNING"} == {"n2"}
    assert client.job("sleepers").restarts == 0
    assert cluster.grass("node", "uncordon", "n1").returncode == 0
    client.stop("sleepers")
    client.wait("sleepers", timeout=60)


def the_share_comes_back_after_a_reboot_of_the_node(cluster: Cluster, client: Client) -> None:
    host = cluster.lab.hosts["n2"]
    host.reboot()
    host.wait_booted()
    wait_until(lambda: cluster.lab.ssh("n2", "ls", "/srv/grass/joins").stdout.split() != [], seconds=40)
    wait_until(lambda: states(client) == {"n1": "READY", "n2": "READY"}, seconds=40)
