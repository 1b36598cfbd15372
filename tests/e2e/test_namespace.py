"""A namespace of a real Kubernetes as a node of a cluster on several hosts: its agent runs on the master."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grass.api.client import Client
from grass.cli.exits import Exit
from grass.kubernetes.api import ApiServer
from tests.support import kubernetes
from tests.support.engine import IMAGE
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, holds, settings
from tests.support.relay import Relay
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]
HOME = "/var/lib/grass/nodes/pods@e2e"
AGENT = "grass-node-agent@pods@e2e.service"


class Site:
    """A cluster of a master alone, a namespace, and a way from the master to the server of that."""

    def __init__(self, cluster: Cluster, server: ApiServer, namespace: str, relay: Relay, folder: Path) -> None:
        self.cluster, self.server, self.namespace, self.relay, self.folder = cluster, server, namespace, relay, folder
        self.lab = cluster.lab
        address = self.lab.hosts["master"].address.rpartition(".")[0]
        self.kubeconfig = self.changed("good", server=f"https://{address}.1:{relay.port}")

    def changed(self, name: str, user: dict[str, Any] | None = None, **of_cluster: str) -> Path:
        """Return a kubeconfig of the test's Kubernetes with another server, or user."""
        found = yaml.safe_load(kubernetes.KUBECONFIG.read_text())
        found["clusters"][0]["cluster"] |= {"tls-server-name": "localhost", **of_cluster}
        if user is not None:
            found["users"][0]["user"] = user
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(yaml.safe_dump(found))
        return path

    def words(self, kubeconfig: Path | None = None, place: str = "", name: str = "pods") -> list[str]:
        chosen = ["--kubernetes", place or self.namespace, "--kubeconfig", str(kubeconfig or self.kubeconfig)]
        return ["node", "add", *chosen, "--name", name, "--cpu", "2", "--memory", "2GiB"]

    def grass(self, *words: str, code: int = Exit.OK) -> str:
        """Run a command. Return what it printed, or said on stderr if it is to fail."""
        done = self.cluster.grass(*words)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout if code == Exit.OK else done.stderr

    def left(self) -> list[str]:
        """Return the lease, and pods that stay: all but those that only wait for the kubelet to end them."""
        leases, pods = (
            self.server.get(f"{group}/namespaces/{self.namespace}/{kind}", kubernetes.ANY)["items"]
            for group, kind in (("/apis/coordination.k8s.io/v1", "leases"), ("/api/v1", "pods"))
        )
        found = [each["metadata"] for each in pods]
        stay = [each for each in found if each.get("finalizers") or not each.get("deletionTimestamp")]
        return [each["metadata"]["name"] for each in leases] + [each["name"] for each in stay]

    def held(self) -> list[str]:
        """What the master holds, without what comes and goes while it works."""
        at_work = ("/srv/grass/e2e/", "/var/lib/grass/samba/e2e/", "/var/lib/grass/clusters/e2e/redis/")
        return [line for line in holds(self.lab) if not line.startswith(at_work)]

    def pid(self) -> str:
        return self.lab.ssh("master", "systemctl", "show", "--value", "-p", "MainPID", AGENT).stdout.strip()


@pytest.fixture
def site_of_pods(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Site]:
    lab.renew("master")
    address = lab.hosts["master"].address.rpartition(".")[0]
    with kubernetes.namespace() as (server, name), Relay(f"{address}.1", ("127.0.0.1", 16443)) as relay:
        cluster = Cluster(lab, site, tmp_path / "home", settings(lab, isolation=None))
        try:
            yield Site(cluster, server, name, relay, tmp_path)
        finally:
            lab.renew("master")


def job(name: str, command: str) -> dict[str, Any]:
    task = {"image": IMAGE, "command": command, "resources": {"cpu": 0.01, "memory": "16MiB"}}
    return {"name": name, "components": {"t": task}}


def refusals(made: Site) -> None:
    """Try what cannot be added. Each says why, and changes nothing on the master."""
    before = made.held()
    plugin = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "true", "interactiveMode": "Never"}}
    plugin["exec"]["command"] = str(made.folder / "plugin")
    status = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}'
    (made.folder / "plugin").write_text(f"#!/bin/sh\necho '{status}'\n")
    (made.folder / "plugin").chmod(0o755)
    away, here = made.changed("away", server="https://127.0.0.1:1"), made.changed("here")
    cases = [
        (Exit.BAD_INPUT, made.words(place=f"nocontext/{made.namespace}"), "nocontext"),
        (Exit.BAD_INPUT, made.words(place="no-such-namespace"), "no-such-namespace"),
        (Exit.BAD_INPUT, made.words(name="Bad Name!"), "--name 'Bad Name!'"),
        (Exit.BAD_INPUT, made.words(made.changed("plugin", plugin)), "its credentials come from the program"),
        (Exit.NOT_ALLOWED, made.words(made.changed("nobody", {"token": "wrong"})), ""),
        (Exit.UNREACHABLE, made.words(away), "does not answer"),
        (Exit.UNREACHABLE, made.words(here), "the master, where the agent of the namespace runs, cannot use"),
    ]
    for code, words, said in cases:
        assert said in made.grass(*words, code=code)
    assert made.held() == before
    assert json.loads((made.cluster.client / "machines.json").read_text())["namespaces"] == []


def interrupt_after(made: Site, path: str, *words: str) -> None:
    """Kill a command once this file is on the master."""
    begun = made.cluster.start(*words)
    wait_until(lambda: made.lab.ssh("master", "test", "-e", path).code == 0 or begun.poll() is not None, 60, path)
    begun.send_signal(signal.SIGKILL)
    begun.communicate()


def test_a_namespace_is_added_works_and_is_removed_and_nothing_of_it_is_left(site_of_pods: Site) -> None:
    made = site_of_pods
    new = holds(made.lab)
    made.cluster.created()
    refusals(made)
    before = made.held()
    interrupt_after(made, f"{HOME}/secrets.json", *made.words())
    made.grass(*made.words())
    assert "node pods: exists already, as the namespace" in made.grass(*made.words(place="default"), code=2)
    status = json.loads(made.grass("status", "-o", "json"))
    states = {each["name"]: each["state"] for each in status["daemons"]}
    assert (states["node-agent@pods"], states["node-api-server@pods"]) == ("RUNNING", "RUNNING")

    with Client("e2e", home=made.cluster.home) as client:
        client.start(job("first", "echo I am $GRASS_TASK; exit 3"))
        assert client.wait("first", 60).state == "FAILED"
        assert [(each.node, each.exit_code) for each in client.tasks("first")] == [("pods", 3)]
        assert [line.text for line in client.logs("first")] == ["I am first.t.0"]

        client.start(job("long", "echo began; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo ended; sleep 1; exit 4"))
        wait_until(lambda: client.tasks("long")[0].state == "RUNNING", 60, "a task that runs")
        agent = made.pid()
        made.lab.ssh("master", "kill", "-9", agent)
        wait_until(lambda: made.pid() not in ("0", agent), 20, "a new agent")
        agent = made.pid()
        made.grass(*made.words())
        again = made.cluster.create()
        assert again.returncode == 0, again.stderr
        assert made.pid() == agent  # nothing has changed
        made.lab.ssh("master", "sh", "-c", f"'echo earlier > {HOME}/node.started'")
        assert made.cluster.create().returncode == 0
        assert made.pid() != agent  # as after an upgrade
        run = client.execute("long", "t.0", ["touch", "/tmp/go"])
        list(run.output())
        assert client.wait("long", 60).state == "FAILED"
        assert [(each.exit_code, each.attempt) for each in client.tasks("long")] == [(4, 1)]
        assert [line.text for line in client.logs("long")] == ["began", "ended"]
        client.start(job("left", "exec sleep 600"))
        wait_until(lambda: client.tasks("left")[0].state == "RUNNING", 60, "a task that runs")

    assert len(made.left()) >= 2  # the lease and a pod
    made.relay.away = True
    made.relay.cut()
    said = made.grass("node", "remove", "pods", "--yes", code=Exit.UNREACHABLE)
    assert "nothing was changed; `--force` leaves them behind" in said
    made.relay.away = False
    made.grass("node", "remove", "pods", "--force", "--yes")
    assert made.left() == []
    assert made.held() == before

    made.grass(*made.words())
    with Client("e2e", home=made.cluster.home) as client:
        wait_until(lambda: client.tasks("left")[0].state == "RUNNING", 60, "a task that runs again")
    made.grass("delete", "--yes", "e2e")
    assert made.left() == []
    assert holds(made.lab) == new


_TASK_REDIS = """
import sys
from grass.config import ClusterConfig, Secrets
from grass.network_address import host_and_port
from grass.store.embedded import TASKS_USER
from grass.store.redis_server import RedisServer
from grass.tls_files import MASTER, identity
config = ClusterConfig.load("/var/lib/grass/clusters/e2e/cluster.json")
host, port = host_and_port(config.task_redis_server)
tls = config.tls_files, identity("e2e", MASTER)
password = Secrets.load(config.home).redis[TASKS_USER]
print(RedisServer(tls=tls, host=host, port=port, password=password)._ask(*sys.argv[1:]))
"""


def test_a_namespace_and_the_redis_for_tasks_move_with_the_master(site_of_pods: Site) -> None:
    made = site_of_pods
    lab, cluster = made.lab, made.cluster
    cluster.settings["task_redis"] = True
    lab.renew("n1")

    def task_redis(host: str, *words: str) -> str:
        done = lab.ssh(host, "/opt/grass/venv/bin/python", "-", *words, text_in=_TASK_REDIS)
        assert done.code == 0, done
        return done.stdout.strip()

    try:
        cluster.created()
        made.grass(*made.words())
        with Client("e2e", home=cluster.home) as client:
            client.start(job("long", "echo began; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo ended; exit 4"))
            wait_until(lambda: client.tasks("long")[0].state == "RUNNING", 90, "a task that runs")
        task_redis("master", "SET", "theirs", "kept")
        made.relay.away = True
        made.relay.cut()
        said = made.grass("cluster", "move", "--to", lab.hosts["n1"].address, code=Exit.UNREACHABLE)
        assert "the master, where the agent of the namespace runs, cannot use the API server" in said
        made.relay.away = False
        made.grass("cluster", "move", "--to", lab.hosts["n1"].address)
        assert lab.ssh("master", "systemctl", "is-active", AGENT).stdout.strip() == "inactive"
        with Client("e2e", home=cluster.home) as client:
            assert [(each.node, each.attempt, each.state) for each in client.tasks("long")] == [("pods", 1, "RUNNING")]
            list(client.execute("long", "t.0", ["touch", "/tmp/go"]).output())
            assert client.wait("long", 60).state == "FAILED"
            assert [(each.exit_code, each.attempt) for each in client.tasks("long")] == [(4, 1)]
            assert [line.text for line in client.logs("long")] == ["began", "ended"]
        assert task_redis("n1", "GET", "theirs") == "kept"
        kept = "/var/lib/grass/clusters/e2e/redis/task-redis.rdb"
        wait_until(lambda: lab.ssh("n1", "test", "-e", kept).code == 1, 20, "the end of what the redis for tasks read")
        made.grass("node", "remove", "pods", "--yes")
        assert made.left() == []
    finally:
        cluster.grass("delete", "--yes", "--force", "e2e")
        lab.reset("n1")
