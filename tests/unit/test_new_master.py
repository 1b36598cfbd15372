"""A node learns where another master is, and its daemons end once, so that they start again with it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from grass.api.known_master import MASTER, Master, master_file
from grass.config import RedisConfig
from grass.errors import ConflictError
from grass.node_config import NodeConfig, NodeHome
from grass.supervision.address_watch import watch_address
from grass.wire.codec import encode
from grass.wire.node_api import NewMaster
from node.api.new_master import take

ASKED = NewMaster(3, "10.0.0.2", 6379, "10.0.0.2:24224", "10.0.0.2:51814")


@pytest.fixture
def home(tmp_path: Path) -> NodeHome:
    redis = RedisConfig(embedded=False, host="10.0.0.1", port=6379, tls=True)
    made = NodeHome(
        name="lab", mode="m", home=str(tmp_path), runtime_dir=str(tmp_path), redis=redis, node=NodeConfig(name="n1")
    )
    made.save()
    made.path.chmod(0o644)
    return made


def test_a_node_writes_the_addresses_of_a_new_master_and_nothing_else(home: NodeHome) -> None:
    take(home, ASKED)
    found = NodeHome.load(home.path)
    asked = {"collector": ASKED.collector, "task_redis_server": ASKED.task_redis_server}
    assert found == replace(home, redis=replace(home.redis, host="10.0.0.2"), **asked)
    assert home.path.stat().st_mode & 0o777 == 0o644, "programs of other users read it"


def test_a_node_asks_a_new_master_for_its_next_certificate(home: NodeHome) -> None:
    home.tls_files.folder.mkdir()
    take(home, structs.replace(ASKED, url="https://10.0.0.2:7470"))
    assert not master_file(home.tls_files).exists(), "a join writes it"
    before = Master(("https://10.0.0.1:7470",), "thumb")
    master_file(home.tls_files).write_text(encode(before))
    take(home, ASKED)
    assert MASTER.decode(master_file(home.tls_files).read_bytes()) == before, "an older master does not say"
    take(home, structs.replace(ASKED, url="https://10.0.0.2:7470"))
    assert MASTER.decode(master_file(home.tls_files).read_bytes()) == Master(("https://10.0.0.2:7470",), "thumb")


def test_a_node_refuses_a_master_of_before(home: NodeHome) -> None:
    take(home, ASKED)
    with pytest.raises(ConflictError):
        take(home, NewMaster(2, "10.0.0.1", 6379, "", ""))
    assert NodeHome.load(home.path).redis.host == "10.0.0.2"


def test_what_a_master_of_another_cluster_of_the_same_name_told_counts_for_nothing(home: NodeHome) -> None:
    take(home, ASKED, "before")
    with pytest.raises(ConflictError):
        take(home, NewMaster(2, "10.0.0.1", 6379, "", ""), "before")
    take(home, NewMaster(1, "10.0.0.3", 6379, "", ""), "now")
    assert NodeHome.load(home.path).redis.host == "10.0.0.3"
    with pytest.raises(ConflictError):
        take(home, NewMaster(0, "10.0.0.1", 6379, "", ""), "now")


def test_daemons_end_once_when_the_address_changes(home: NodeHome) -> None:
    ended = threading.Event()
    watch_address(home, ended.set)
    home.save()  # the same address
    assert not ended.wait(1.5)
    take(home, ASKED)
    assert ended.wait(10)
