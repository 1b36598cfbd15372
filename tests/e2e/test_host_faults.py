"""What goes wrong with machines in the middle of a job: no task is lost or counted twice, no line is missing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grass.api.client import Client
from grass.errors import UnreachableError
from grass.model.daemons import MASTER_DAEMONS, NODE_DAEMONS
from scripts.labkit.command import docker
from scripts.labkit.host import Host
from tests.support.clock import SHIFT, shifted_clock
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster
from tests.support.three_nodes import (
    BUSYBOX,
    COUNT,
    NODES,
    assert_complete,
    attempts,
    counting,
    finish,
    lines,
    places,
    started,
    states,
    three_nodes,
)
from tests.support.waiting import wait_until

ALL_READY = dict.fromkeys(NODES, "READY")
LOST_AFTER = 25.0
"""Seconds. A node that is silent is connected again well before."""
LISTED = 15.0
"""Seconds in which `grass node list` ends. The client gives a master that hangs up earlier, with an error."""
ON_NODE = (*NODE_DAEMONS, "share-fuse")
ON_MASTER = ("redis", "samba", *MASTER_DAEMONS)
ALL_DAEMONS = ("share", *ON_NODE, *ON_MASTER)


@pytest.fixture(scope="module")
def cluster(running_lab: SessionLab, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """n3 has no engine. A node that is silent for ``LOST_AFTER`` is given up."""

    def without_an_engine() -> None:
        running_lab.hosts["n3"].sh("systemctl disable --now docker.socket docker.service containerd.service")

    limits = {"silent_after": "5s", "lost_after": LOST_AFTER}
    with three_nodes(
        running_lab, site, tmp_path_factory.mktemp("faults"), "faults", without_an_engine, **limits
    ) as made:
        done = made.grass("image", "push", str(running_lab.busybox_image_tar))
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    """All nodes are READY before a test, and again after it, and no job of it is left."""
    with Client(cluster.name, home=cluster.home) as client:
        wait_until(lambda: states(client) == ALL_READY, 60, "all nodes READY", 0.2)
        yield client
        cluster.lab.make_whole()
        wait_until(lambda: answers(client), 60, "the API", 0.2)
        for job in client.jobs():
            client.stop(job.name, grace=0)
            client.wait(job.name, timeout=60)
        wait_until(lambda: states(client) == ALL_READY, 60, "all nodes READY again", 0.2)


def answers(client: Client) -> bool:
    try:
        client.status()
    except UnreachableError:
        return False
    return True


def job(name: str) -> dict[str, Any]:
    """A process on each node, a container on each that has an engine."""
    return counting(name, 3, 2)


def ends_well(client: Client, name: str) -> None:
    assert finish(client, name).state == "SUCCEEDED"
    assert_complete(client, name)


def counters(host: Host) -> int:
    """How many shells of counting tasks run there, in containers or not. A child that has not begun its program yet
    looks like its shell."""
    rows = [line.split(None, 2) for line in host.sh("ps -eo pid=,ppid=,args=").splitlines()]
    parents = {row[0]: row[1] for row in rows if row[2:] and row[2].startswith("/bin/sh -c trap")}
    return sum(parent not in parents for parent in parents.values())


def node_list_takes(cluster: Cluster) -> float:
    since = time.monotonic()
    done = cluster.grass("node", "list")
    assert done.returncode == 0, done.stderr
    return time.monotonic() - since


def test_a_node_that_is_cut_off_for_a_while_works_on_and_nothing_is_restarted(cluster: Cluster, client: Client) -> None:
    before = started(client, job("patient"))
    host = cluster.lab.hosts["n1"]
    host.cut()
    wait_until(lambda: states(client)["n1"] == "SILENT", LOST_AFTER, "the silence of n1", 0.2)
    assert counters(host) == 2
    host.heal()
    wait_until(lambda: states(client) == ALL_READY, 30, "the return of n1", 0.2)
    assert places(client, "patient") == before
    ends_well(client, "patient")
    assert set(attempts(client, "patient").values()) == {1}
    assert client.job("patient").restarts == 0


def test_the_tasks_of_a_node_that_is_cut_off_for_long_are_replaced_and_the_old_ones_stopped(
    cluster: Cluster, client: Client
) -> None:
    before = started(client, job("replaced"))
    host = cluster.lab.hosts["n1"]
    there = {task for task, node in before.items() if node == "n1"}
    host.cut()
    wait_until(lambda: states(client)["n1"] == "LOST", LOST_AFTER + 30, "n1 to be given up", 0.2)
    wait_until(lambda: len(places(client, "replaced")) == 5, 60, "tasks in their place", 0.2)
    after = places(client, "replaced")
    assert all(after[task] != "n1" for task in there)
    assert {task: after[task] for task in after if task not in there} == {
        task: before[task] for task in before if task not in there
    }
    assert counters(host) == 2
    assert node_list_takes(cluster) < LISTED
    host.heal()
    wait_until(lambda: states(client) == ALL_READY, 30, "the return of n1", 0.2)
    wait_until(lambda: counters(host) == 0, 30, "the end of what was replaced", 0.2)
    assert places(client, "replaced") == after
    ends_well(client, "replaced")
    assert attempts(client, "replaced") == {task: 2 if task in there else 1 for task in before}
    assert client.job("replaced").counts == {"SUCCEEDED": 5}


@pytest.mark.nightly  # in each run all machines lose power
def test_after_a_power_loss_a_node_mounts_the_share_and_its_tasks_start_again(cluster: Cluster, client: Client) -> None:
    before = started(client, job("power"))
    there = {task for task, node in before.items() if node == "n2"}
    host = cluster.lab.hosts["n2"]
    host.kill()
    host.start()
    expected = {task: 2 if task in there else 1 for task in before}
    again = lambda: attempts(client, "power") == expected and len(places(client, "power")) == 5  # noqa: E731
    wait_until(again, 90, "the tasks again", 0.2)
    wait_until(lambda: host.attempt("mountpoint", "-q", f"/srv/grass/{cluster.name}").code == 0, 30, "the share", 0.2)
    assert set(host.run("ls", f"/srv/grass/{cluster.name}").stdout.split()) >= {"data", "logs", "images", "jobs"}
    ends_well(client, "power")
    assert attempts(client, "power") == expected


def test_an_orderly_reboot_and_a_restart_of_the_engine_are_charged_to_no_task(cluster: Cluster, client: Client) -> None:
    """Its tasks have no restart policy. The node says first that it goes, so none is placed there meanwhile."""
    before = started(client, job("orderly"))
    contained = next(task for task, node in before.items() if node == "n1" and task.startswith("c."))
    cluster.lab.hosts["n1"].sh("systemctl restart docker.service")
    expected = {task: 2 if task == contained else 1 for task in before}
    wait_until(lambda: attempts(client, "orderly") == expected, 60, "the container again", 0.2)
    wait_until(lambda: len(places(client, "orderly")) == len(before), 60, "all tasks", 0.2)
    cluster.lab.hosts["n2"].reboot()
    expected |= {task: 2 for task, node in before.items() if node == "n2"}
    wait_until(lambda: attempts(client, "orderly") == expected, 60, "the tasks of n2 again", 0.2)
    assert "the machine shuts down" in str([each.message for each in client.events(limit=100)])
    ends_well(client, "orderly")
    assert attempts(client, "orderly") == expected
    assert client.job("orderly").restarts == 0


@pytest.mark.nightly  # in each run the master loses power for long, and again with all nodes
def test_a_reboot_of_the_master_costs_no_task_and_no_line(cluster: Cluster, client: Client) -> None:
    before = started(client, job("reboot"))
    host = cluster.lab.hosts["master"]
    host.reboot()
    wait_until(lambda: answers(client), 60, "the API after the reboot", 0.2)
    wait_until(lambda: states(client) == ALL_READY, 60, "all nodes", 0.2)
    assert places(client, "reboot") == before
    ends_well(client, "reboot")
    assert set(attempts(client, "reboot").values()) == {1}
    shared = host.sh(f"mktemp -p /srv/grass/{cluster.name}/data").strip()
    for node in NODES:
        sees = ("test", "-e", shared)
        wait_until(lambda: cluster.lab.hosts[node].attempt(*sees).code == 0, 40, f"the share on {node}", 0.2)  # noqa: B023


DAMAGE = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
[log] = [*folder.glob("**/*.incr.aof")] or [folder / "appendonly.aof"]
content = bytearray(log.read_bytes())
content[content.rindex(b"\\r\\n*") + 2] = ord("?")
log.write_bytes(content)
print(log)
"""


@pytest.mark.nightly
def test_a_damaged_log_of_redis_is_named_with_the_commands_that_repair_it(cluster: Cluster, client: Client) -> None:
    master, unit = cluster.lab.hosts["master"], f"grass-redis@{cluster.name}"
    master.sh(f"systemctl stop {unit}")
    damage = ("python3", "-c", DAMAGE, f"/var/lib/grass/clusters/{cluster.name}/redis")
    log = master.run(*damage).stdout.strip()
    master.sh(f"systemctl start {unit}")
    said = cluster.grass("status")
    assert said.returncode == 3
    assert f"redis cannot read its log {log}: damaged after byte" in said.stderr
    repair = re.findall("`((?:systemctl|runuser) [^`]*)`", said.stderr)
    assert len(repair) == 3
    for command in repair:
        master.sh(command)
    wait_until(lambda: answers(client), 60, "the API after the repair", 0.2)
    assert "redis cannot read" not in cluster.grass("status").stderr
    wait_until(lambda: states(client) == ALL_READY, 60, "all nodes", 0.2)
    client.start({"name": "repaired", "components": {"t": {"command": "true"}}})
    assert client.wait("repaired", timeout=60).state == "SUCCEEDED"


def test_a_master_without_power_for_long_hangs_no_node(cluster: Cluster, client: Client) -> None:
    before = started(client, job("outage"))
    nodes = [cluster.lab.hosts[node] for node in NODES]
    agents = [pid(host, cluster, "node-agent") for host in nodes]
    cluster.lab.hosts["master"].kill()
    since = time.monotonic()
    assert cluster.grass("node", "list").returncode == 3
    assert time.monotonic() - since < LISTED
    looks = f"timeout 60 ls /srv/grass/{cluster.name}/data"  # somebody who waits for the dead share
    for host in nodes:
        host.sh(f"{looks} >/dev/null 2>&1 &")
    wait_until(lambda: time.monotonic() - since > LOST_AFTER + 5, 60, "the deadline to be over", 1)
    assert [counters(host) for host in nodes] == [2, 2, 1]
    cluster.lab.hosts["master"].start()
    wait_until(lambda: answers(client), 60, "the API", 0.2)
    wait_until(lambda: states(client) == ALL_READY, 60, "all nodes", 0.2)
    assert node_list_takes(cluster) < LISTED
    assert [pid(host, cluster, "node-agent") for host in nodes] == agents
    assert places(client, "outage") == before
    ends_well(client, "outage")
    assert set(attempts(client, "outage").values()) == {1}


def test_when_all_machines_lost_power_no_task_starts_without_the_share(cluster: Cluster, client: Client) -> None:
    wanted = job("blackout")
    for part in wanted["components"].values():
        part["command"] = 'test -d "$GRASS_DATA/logs" || exit 9; ' + part["command"]
    before = started(client, wanted)
    hosts = [cluster.lab.hosts[name] for name in ("master", *NODES)]
    for host in hosts:
        host.kill()
    for host in reversed(hosts):  # the master is the last to come back
        host.start()
    again = dict.fromkeys(before, 2)
    wait_until(lambda: answers(client), 60, "the API", 0.2)
    wait_until(lambda: attempts(client, "blackout") == again, 90, "the tasks again", 0.2)
    wait_until(lambda: len(places(client, "blackout")) == 5, 60, "the tasks again", 0.2)
    ends_well(client, "blackout")


def pid(host: Host, cluster: Cluster, daemon: str) -> int:
    """Of a service that is up; 0 while it is not."""
    unit = f"grass-{daemon}@{cluster.name}.service"
    said = host.sh(f"systemctl is-active {unit}; systemctl show -p MainPID --value {unit}").split()
    return int(said[1]) if said[0] == "active" else 0


def told(client: Client, name: str) -> set[str]:
    """Return the daemons of which an event says that they were killed, on a node or on the master."""
    whose = "" if name == "master" else f"node {name}: "
    found = [each.message for each in client.events(limit=500) if each.kind == "daemon-ended"]
    return {
        daemon for daemon in ALL_DAEMONS if f"{whose}{daemon}: ended by signal SIGKILL; it is started again" in found
    }


@pytest.mark.parametrize(("name", "daemons"), [("n1", ON_NODE), ("master", ON_MASTER)])
def test_killing_each_daemon_costs_no_task_and_no_line(
    name: str, daemons: tuple[str, ...], cluster: Cluster, client: Client
) -> None:
    before = started(client, job(f"kill-{name}"))
    host = cluster.lab.hosts[name]
    for daemon in daemons:
        old = pid(host, cluster, daemon)
        assert old, daemon
        host.run("kill", "-KILL", str(old))
        wait_until(lambda: pid(host, cluster, daemon) not in (0, old), 30, f"{daemon} again", 0.1)  # noqa: B023
    wait_until(lambda: answers(client) and states(client) == ALL_READY, 60, "all nodes", 0.2)
    assert places(client, f"kill-{name}") == before
    wait_until(
        lambda: told(client, name) == {daemon.replace("-fuse", "") for daemon in daemons},
        30,
        "the events of the ends",
        0.2,
    )
    ends_well(client, f"kill-{name}")
    assert set(attempts(client, f"kill-{name}").values()) == {1}
    if name != "master":
        for daemon in NODE_DAEMONS:  # each has a view of its own of what is mounted
            sees = ("nsenter", "-t", str(pid(host, cluster, daemon)), "-m", "ls", f"/srv/grass/{cluster.name}/data")
            wait_until(lambda: host.attempt(*sees).code == 0, 30, f"the share seen by {daemon}", 0.2)  # noqa: B023


def test_a_node_without_an_engine_offers_processes_only_and_says_so(cluster: Cluster, client: Client) -> None:
    assert [client.node(name).runtimes for name in NODES] == [
        ("process", "docker"),
        ("process", "docker"),
        ("process",),
    ]
    wanted = {"command": "true", "image": "lab-busybox", "runtime": "docker", "avoid": ["n1", "n2"]}
    client.start({"name": "nowhere", "components": {"t": wanted}})
    wait_until(lambda: client.job("nowhere").components["t"].reason, 20, "a reason", 0.1)
    why = client.why("nowhere")
    assert "n3" in str(why) and "docker" in str(why), why
    client.stop("nowhere")
    client.wait("nowhere", timeout=20)


@pytest.mark.nightly  # test_docker_runtime.py has other containers beside its own in every run
def test_containers_of_others_are_never_touched(cluster: Cluster, client: Client) -> None:
    started(client, job("among"))  # brings the image
    host = cluster.lab.hosts["n1"]
    labels = (["--label", "grass.cluster=other", "--label", "grass.node=n1"], ["--label", "com.example=1"], [])
    run = ("docker", "run", "--detach", "--entrypoint", "sleep")
    foreign = [host.run(*run, *label, "lab-busybox", "600").stdout.strip() for label in labels]
    host.run("systemctl", "restart", f"grass-node-agent@{cluster.name}.service")
    wait_until(lambda: states(client) == ALL_READY, 30, "n1", 0.2)
    ends_well(client, "among")
    done = cluster.grass("node", "drain", "n1", "--deadline", "1s")
    assert done.returncode == 0, done.stderr
    assert cluster.grass("node", "uncordon", "n1").returncode == 0
    running = host.run("docker", "ps", "--no-trunc", "--quiet").stdout.split()
    assert set(foreign) <= set(running)
    host.run("docker", "rm", "--force", *foreign)


def test_a_node_with_a_full_disk_takes_no_tasks_loses_no_line_and_recovers_by_itself(
    cluster: Cluster, client: Client
) -> None:
    host = cluster.lab.hosts["n2"]
    units = " ".join(f"grass-{daemon}@{cluster.name}.service" for daemon in ("node-agent", "shepherd"))
    folder = f"/var/lib/grass/clusters/{cluster.name}/node"
    small = f"mount -t tmpfs -o size=24M,mode=0755 tmpfs {folder}; chown grass:grass {folder}"
    host.sh(f"systemctl stop {units}; cp -a {folder} /var/tmp/kept; {small}; cp -a /var/tmp/kept/. {folder}/")
    here = {"command": "echo it works", "cwd": "/", "avoid": ["n1", "n3"]}
    inside = {**here, "image": BUSYBOX, "runtime": "docker"}
    try:
        host.sh(f"systemctl start {units}")
        wait_until(lambda: states(client) == ALL_READY, 60, "n2 with a small disk", 0.2)
        client.start({"name": "works", "components": {"t": {**inside, "command": COUNT}}})
        wait_until(lambda: next(client.logs("works"), None), 30, "a first line", 0.2)
        host.sh(f"cat /dev/zero > {folder}/filler 2>/dev/null || true")
        wait_until(lambda: client.node("n2").usage.disk_free < 64 << 10, 20, "the node to say so", 0.2)

        wait_until(lambda: states(client)["n2"] == "QUARANTINED", 20, "n2 in quarantine", 0.2)
        assert "disk almost full" in client.node("n2").reason.message
        client.start({"name": "waits", "components": {"t": inside}})
        wait_until(lambda: "disk almost full" in str(client.why("waits").groups), 20, "the reason", 0.2)
        assert not places(client, "waits")

        host.sh(f"rm {folder}/filler")
        wait_until(lambda: states(client) == ALL_READY, 20, "n2 back by itself", 0.2)
        assert client.wait("waits", timeout=60).state == "SUCCEEDED"
        assert lines(client, "waits") == {("t.0", 1): ["it works"]}
        ends_well(client, "works")
        client.start({"name": "roomy", "components": {"t": here}})
        assert client.wait("roomy", timeout=60).state == "SUCCEEDED"
        assert lines(client, "roomy") == {("t.0", 1): ["it works"]}
    finally:
        host.sh(f"systemctl stop {units}; umount --lazy {folder}; systemctl start {units}")


def test_a_share_that_hangs_or_goes_under_a_node_holds_its_starts_back_and_not_its_agent(
    cluster: Cluster, client: Client
) -> None:
    host = cluster.lab.hosts["n2"]
    unit = f"grass-share-fuse@{cluster.name}.service"
    here = {"command": 'cat "$GRASS_DATA/hello"', "cwd": "/", "avoid": ["n1", "n3"]}
    cluster.lab.hosts["master"].sh(f"echo hello > /srv/grass/{cluster.name}/hello")
    for ill, well in (
        (f"systemctl kill -s STOP {unit}", f"systemctl kill -s CONT {unit}"),
        (f"systemctl stop {unit}", f"systemctl start {unit}"),
    ):
        host.sh(ill)
        try:
            wait_until(lambda: states(client)["n2"] == "QUARANTINED", 30, f"n2 in quarantine after {ill}", 0.2)
            assert client.node("n2").reason.code == "share"
            client.start({"name": "shares", "components": {"t": here}})
            wait_until(lambda: "the share" in str(client.why("shares").groups), 20, "the reason", 0.2)
            seen = client.node("n2").seen
            wait_until(lambda: client.node("n2").seen > seen + 4, 20, "heartbeats", 0.2)  # noqa: B023
        finally:
            host.sh(well)
        wait_until(lambda: states(client) == ALL_READY, 60, "n2 back by itself", 0.2)
        assert client.wait("shares", timeout=60).state == "SUCCEEDED"
        assert [each.text for each in client.logs("shares")] == ["hello"]


def test_after_the_end_of_the_shares_helper_running_containers_see_the_share_again(
    cluster: Cluster, client: Client
) -> None:
    """Killed, restarted by an operator, and hung for good: the container goes on with the next mount each time."""
    host, unit = cluster.lab.hosts["n1"], f"grass-share-fuse@{cluster.name}.service"
    look = 'trap "exit 0" TERM; while :; do cat "$GRASS_DATA/turn" 2>&1; sleep 0.5; done'
    inside = {"command": look, "image": BUSYBOX, "runtime": "docker", "avoid": ["n2", "n3"]}
    shared = cluster.lab.hosts["master"]
    shared.sh(f"echo turn-0 > /srv/grass/{cluster.name}/turn")
    client.start({"name": "looks", "components": {"t": inside, "u": {**inside, "container": {"data": "/d"}}}})
    wait_until(lambda: said_by(client, "looks", "turn-0") == {"t.0", "u.0"}, 60, "the first looks", 0.2)
    for turn, ill in enumerate(
        (f"systemctl kill -s KILL {unit}", f"systemctl restart {unit}", f"systemctl kill -s STOP {unit}"), start=1
    ):
        host.sh(ill)
        shared.sh(f"echo turn-{turn} > /srv/grass/{cluster.name}/turn")
        again = lambda: said_by(client, "looks", f"turn-{turn}") == {"t.0", "u.0"}  # noqa: B023, E731
        wait_until(again, 60, f"looks after {ill}", 0.2)
    wait_until(lambda: states(client) == ALL_READY, 30, "n1", 0.2)
    assert set(attempts(client, "looks").values()) == {1}


def said_by(client: Client, job: str, line: str) -> set[str]:
    return {each.task for each in client.logs(job) if each.text == line}


def test_appends_from_two_nodes_through_fuse_break_nothing_and_those_of_one_are_all_kept(
    cluster: Cluster, client: Client
) -> None:
    """What the guide says of it: the last to close the file wins. No error, no dead mount, and no folder U+FF0E."""
    append = "for i in $(seq 100); do echo $GRASS_NODE.$i >> $GRASS_DATA/data/%s || exit 1; done"
    both = {"command": append % "both", "cwd": "/", "replicas": 2, "spread": "node", "avoid": ["n3"]}
    alone = {"command": append % "alone", "cwd": "/", "avoid": ["n1", "n2"]}
    mounts = [pid(cluster.lab.hosts[node], cluster, "share-fuse") for node in NODES]
    client.start({"name": "appends", "components": {"both": both, "alone": alone}})
    assert client.wait("appends", timeout=120).state == "SUCCEEDED"
    master, folder = cluster.lab.hosts["master"], f"/srv/grass/{cluster.name}"
    kept = lambda name: master.sh(f"cat {folder}/data/{name}").split()  # noqa: E731
    # rclone uploads a file after it is closed
    wait_until(lambda: kept("alone") == [f"n3.{number}" for number in range(1, 101)], 20, "all appends of n3")
    of_both = {f"{node}.{number}" for node in ("n1", "n2") for number in range(1, 101)}
    wait_until(
        lambda: {"n1.100", "n2.100"} & set(found := kept("both")) and set(found) <= of_both, 20, "the last of n1 and n2"
    )
    assert states(client) == ALL_READY
    assert [pid(cluster.lab.hosts[node], cluster, "share-fuse") for node in NODES] == mounts
    assert client.node("n1").labels["share"] == "fuse"
    cluster.lab.hosts["n1"].sh(f"touch {folder}/at-the-top '{folder}/ends with a dot.'")
    names = lambda: master.sh(f"ls {folder}").splitlines()  # noqa: E731
    wait_until(lambda: {"at-the-top", "ends with a dot."} <= set(names()), 20, f"the files of n1 in {folder}")
    assert all(name.isascii() for name in names())


@pytest.mark.parametrize(
    ("shift", "words"), [(7200, "2.0 h ahead of"), pytest.param(-7200, "2.0 h behind", marks=pytest.mark.nightly)]
)
def test_a_machine_whose_clock_is_wrong_by_hours_is_refused_with_what_to_do(
    shift: int, words: str, cluster: Cluster, client: Client
) -> None:
    host = cluster.lab.hosts["master"]  # no node yet
    clock = f'#!/bin/sh\n[ "$*" = +%s ] || exec /bin/date "$@"\necho $(( $(/bin/date +%s) + {shift} ))\n'
    host.run("sh", "-c", "cat > /usr/local/bin/date; chmod +x /usr/local/bin/date", text_in=clock)
    try:
        done = cluster.grass("node", "add", f"ops@{host.address}", "--name", "late", "--api-port", "51999")
        assert done.returncode == 2, done.stderr
        assert words in done.stderr and "timedatectl set-ntp true" in done.stderr, done.stderr
        assert states(client) == ALL_READY
    finally:
        host.run("rm", "/usr/local/bin/date")


@pytest.mark.parametrize("hours", [1, pytest.param(-1, marks=pytest.mark.nightly)])
def test_a_node_whose_clock_is_an_hour_off_works_and_its_tasks_last_as_long_as_they_last(
    hours: int, cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    host = cluster.lab.hosts["n1"]
    with another_clock(host, cluster, hours, shifted_clock(tmp_path)):
        wait_until(lambda: states(client) == ALL_READY, 60, "n1 with its clock", 0.2)
        name = f"off-by-{hours + 1}"
        since = time.monotonic()
        before = started(client, counting(name, 3, 0))
        running = time.monotonic()
        wait_until(lambda: time.monotonic() - running > 5, 10, "some lines", 0.2)
        ended = finish(client, name)
        took = time.monotonic() - since
        assert ended.state == "SUCCEEDED" and 0 < ended.ended - ended.started < took
        assert_complete(client, name)
        assert places(client, name) == {} and before
        lasted = {one.node: one.ended - one.started for one in client.tasks(name)}
        assert all(4 < seconds < took for seconds in lasted.values()), lasted
        assert all(abs(one.ended - ended.ended) < 30 for one in client.tasks(name))
        since = time.monotonic()
        short = {"command": "sleep 60", "cwd": "/", "avoid": ["n2", "n3"]}
        client.start({"name": f"short-{name}", "timeout": "3s", "components": {"t": short}})
        assert client.wait(f"short-{name}", timeout=60).state == "FAILED"
        assert 3 <= time.monotonic() - since < 30


@contextmanager
def another_clock(host: Host, cluster: Cluster, hours: int, library: Path) -> Iterator[None]:
    """The daemons of the node, and its processes, see another time than the master."""
    there, units = "/usr/local/lib/libshifted.so", NODE_DAEMONS
    folders = [f"/etc/systemd/system/grass-{daemon}@{cluster.name}.service.d" for daemon in units]
    names = " ".join(f"grass-{daemon}@{cluster.name}.service" for daemon in units)
    drop_in = f"[Service]\nEnvironment=LD_PRELOAD={there} {SHIFT}={3600 * hours}\n"
    docker("cp", str(library), f"{host.container}:{there}")
    try:
        for folder in folders:
            host.run("sh", "-c", 'mkdir -p "$0" && cat > "$0/clock.conf"', folder, text_in=drop_in)
        host.sh(f"systemctl daemon-reload; systemctl restart {names}")
        agent = pid(host, cluster, "node-agent")
        seen = host.sh(f"tr '\\0' '\\n' < /proc/{agent}/environ | grep -c ^LD_PRELOAD={there}")
        assert seen.strip() == "1"
        yield
    finally:
        host.sh(f"rm -rf {' '.join(folders)} {there}; systemctl daemon-reload; systemctl restart {names}")
