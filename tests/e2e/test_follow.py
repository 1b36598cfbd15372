"""A node that nobody reaches over SSH finds the master after a move, and follows nothing that others signed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc.jwk import RSAKey

from grass.api.client import Client
from grass.api.notice import sign
from grass.wire.notice import Notice
from tests.e2e.test_restore import job, tasks
from tests.support.lab import SessionLab
from tests.support.on_premises import Cluster, with_a_node
from tests.support.rsa_keys import raw_key
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nightly  # notices: contract/test_moved.py; who is admitted: contract/test_api_joins.py
LONG = "echo ran >> /tmp/runs; while [ ! -e /tmp/enough ]; do sleep 0.2; done"


@pytest.fixture
def cluster(lab: SessionLab, site: Path, tmp_path: Path) -> Iterator[Cluster]:
    lab.renew("master", "n1", "n2")
    with with_a_node(lab, site, tmp_path / "home") as made:
        yield made


def forget(cluster: Cluster, node: str) -> None:
    """Make the node one that this client does not reach over SSH."""
    path = cluster.client / "machines.json"
    known = json.loads(path.read_text())
    del known["nodes"][node]
    path.write_text(json.dumps(known))


def follow(cluster: Cluster, notice: str | None = None) -> tuple[int, str]:
    words = ["grass", "node", "follow", *(["-"] if notice is not None else [])]
    done = cluster.lab.ssh("n1", *words, text_in=notice or "", seconds=120)
    return done.code, done.stdout + done.stderr


def as_of_an_earlier_grass(cluster: Cluster) -> None:
    """Keep the node from following by itself."""
    cluster.lab.ssh("n1", "rm", "/etc/grass/e2e.pinned.json")


def state(cluster: Cluster) -> str:
    with Client(cluster.name, home=cluster.home) as client:
        return str(client.node("n1").state.value)


def test_a_node_out_of_reach_follows_its_master_and_no_other(cluster: Cluster) -> None:
    lab, n2 = cluster.lab, cluster.lab.hosts["n2"].address
    job(cluster, "long", LONG)
    wait_until(lambda: lab.ssh("n1", "cat", "/tmp/runs").stdout == "ran\n", 30, "the task")
    assert follow(cluster)[0] == 0, "its master is where it was"
    before = cluster.grass("cluster", "notice").stdout
    forget(cluster, "n1")
    as_of_an_earlier_grass(cluster)
    assert cluster.grass("cluster", "move", "--to", n2, "--nodes-later").returncode == 0
    wait_until(lambda: state(cluster) == "SILENT", 60, "the silence of a node that knows the old address only")

    url = json.loads((cluster.client / "profile.json").read_text())["url"]
    stranger = RSAKey(raw_key("ann"), raw_key("ann"))
    forged = sign(Notice(cluster.name, (url,), 9, 9), stranger)
    code, said = follow(cluster, forged)
    assert code == 4 and "not signed with the key of this cluster" in said, said
    code, said = follow(cluster, before.replace("grass-notice1", "grass-notice2"))
    assert code == 2 and "this is no notice of a cluster" in said, said
    assert follow(cluster, before)[0] == 0 and state(cluster) == "SILENT", "of before the move: it is at that address"

    code, said = follow(cluster)  # the old master's machine says where the new one is
    assert code == 0 and f"is at {url} now" in said, said
    as_of_an_earlier_grass(cluster)
    assert state(cluster) == "READY" and tasks(cluster, "long") == [("RUNNING", 1, None)]
    code, said = follow(cluster, before)
    assert code == 4 and "older than what is known here" in said, said

    old = lab.hosts["master"].address
    assert cluster.grass("cluster", "move", "--to", old, "--nodes-later").returncode == 0
    lab.hosts["n2"].kill()  # nobody is left whom the node knows
    code, said = follow(cluster)
    assert code == 3 and "`grass node follow FILE` here" in said, said
    code, said = follow(cluster, cluster.grass("cluster", "notice").stdout)
    assert code == 0, said
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: tasks(cluster, "long") == [("SUCCEEDED", 1, 0)], 60, "the task that went on")
    assert lab.ssh("n1", "cat", "/tmp/runs").stdout == "ran\n"


_HEARD = "/run/grass/e2e/heard-notice"
_ATTACK = f"""
run() {{ runuser -u grass -- "$@"; }}
gone() {{ while [ -e {_HEARD} ] || [ -L {_HEARD} ]; do sleep 0.1; done; }}
settled() {{ while systemctl is-active -q grass-follow@e2e; do sleep 0.1; done; }}
before=$(sha256sum /etc/shadow /etc/grass/e2e.pinned.json)
run ln -s /etc/shadow {_HEARD}; gone; settled
cat > /tmp/forged; chmod 644 /tmp/forged
run cp /tmp/forged {_HEARD}; gone; settled
run mv /var/lib/grass/installed /var/lib/grass/was && run mkdir /var/lib/grass/installed
run cp /var/lib/grass/clusters/e2e/cluster.json /var/lib/grass/installed/e2e+node.json
run cp /tmp/forged {_HEARD}; gone; settled
run rm -r /var/lib/grass/installed && run mv /var/lib/grass/was /var/lib/grass/installed
[ "$before" = "$(sha256sum /etc/shadow /etc/grass/e2e.pinned.json)" ] || echo files differ
journalctl -o cat --no-pager -t grass-follow-e2e
"""


def test_a_node_out_of_reach_follows_by_itself_and_its_agent_cannot_point_it_elsewhere(cluster: Cluster) -> None:
    lab, n2 = cluster.lab, cluster.lab.hosts["n2"].address
    job(cluster, "long", LONG)
    wait_until(lambda: lab.ssh("n1", "cat", "/tmp/runs").stdout == "ran\n", 30, "the task")
    forget(cluster, "n1")
    assert cluster.grass("cluster", "move", "--to", n2, "--nodes-later").returncode == 0
    url = json.loads((cluster.client / "profile.json").read_text())["url"]

    def pinned() -> dict[str, object]:
        return dict(json.loads(lab.ssh("n1", "cat", "/etc/grass/e2e.pinned.json").stdout))

    wait_until(lambda: pinned()["urls"] == [url], 60, "the node, which nobody told")
    wait_until(lambda: state(cluster) == "READY", 30, "the node at the new master")
    assert tasks(cluster, "long") == [("RUNNING", 1, None)]

    forged = sign(Notice(cluster.name, ("http://10.9.9.9:7470",), 9, 9), RSAKey(raw_key("ann"), raw_key("ann")))
    done = lab.ssh(
        "n1", "sh", "-s", text_in=_ATTACK.replace("cat > /tmp/forged", f"echo '{forged}' > /tmp/forged"), seconds=200
    )
    assert done.code == 0 and "files differ" not in done.stdout, done
    assert "this is no notice of a cluster" in done.stdout, "the link leads to what only root may read"
    assert "not signed with the key of this cluster" in done.stdout
    assert "/var/lib/grass/installed: is not root's" in done.stdout
    assert pinned()["urls"] == [url] and state(cluster) == "READY"
    lab.ssh("n1", "touch", "/tmp/enough")
    wait_until(lambda: tasks(cluster, "long") == [("SUCCEEDED", 1, 0)], 60, "the task that went on")
    assert lab.ssh("n1", "cat", "/tmp/runs").stdout == "ran\n"
