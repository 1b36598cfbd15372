"""`grass create --plan` looks at the machines of its nodes, and says of each what would be done or is in the way."""

from __future__ import annotations

import shutil
from pathlib import Path

from grass.config import RedisConfig, SambaConfig
from grass.hosts import LocalHost
from grass.manifest.join_file import Offer
from grass.manifest.on_premises import HostSettings, Login
from grass.node_config import NodeConfig, NodeHome
from grass.provision.on_premises import facts
from grass.provision.on_premises.machines import KNOWN_HOSTS
from grass.provision.on_premises.node_plan import PlannedMaster, plan_node
from grass.provision.provisioner import Session
from tests.support.needs import require_root
from tests.support.sshd import ssh_server

CONFIG = NodeHome(
    "lab",
    "grass/on-premises",
    "/var/lib/grass/clusters/lab",
    "/run/grass/lab",
    RedisConfig(True, "/run/grass/lab/redis.sock", "10.0.0.1", 6379),
    node=NodeConfig(name="", address="10.0.0.1"),
    samba=SambaConfig("10.0.0.1", 51445),
)
MASTER = PlannedMaster(CONFIG, HostSettings("10.0.0.1"), "http://10.0.0.1:51812", "0" * 64, ())


def test_a_machine_is_looked_at_and_what_is_in_the_way_is_said(tmp_path: Path) -> None:
    require_root()
    said: list[str] = []
    session = Session("lab", tmp_path / "home", said.append)
    session.client_dir.mkdir(parents=True)
    (tmp_path / "sshd").mkdir()
    with ssh_server(tmp_path / "sshd") as server:
        shutil.copy(server.known_hosts, session.client_dir / KNOWN_HOSTS)
        there = HostSettings("127.0.0.1", login=Login(username=server.user, port=server.port, key=str(server.key)))
        lines = list(plan_node(session, MASTER, there, Offer(name="n1", address="127.0.0.1")))
    assert lines[0].startswith(f"node 127.0.0.1 (root@127.0.0.1:{server.port}): ") and said
    if facts.gather(LocalHost(), "lab").systemd:
        assert any("join the cluster lab as n1" in line for line in lines)
    else:
        assert lines[1].startswith("node 127.0.0.1: cannot join: ") and "systemd does not run there" in lines[1]
    [line] = plan_node(session, MASTER, HostSettings("127.0.0.1", login=Login(username="root", port=1)), Offer())
    assert line.startswith("node 127.0.0.1: cannot join: 127.0.0.1: no SSH at 127.0.0.1:1 (")
