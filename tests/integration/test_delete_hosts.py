"""`grass delete` of a cluster on several hosts looks at all of them before it cleans the first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grass.hosts import HostUnreachableError
from grass.manifest.on_premises import HostSettings, Login
from grass.mode_file import write_mode
from grass.model.lifecycle import NodeState
from grass.provision.on_premises.delete import StayedError, delete
from grass.provision.on_premises.machines import KNOWN_HOSTS, Machines, load_machines
from grass.provision.on_premises.node_remove import remove_node
from grass.provision.provisioner import Session
from grass.wire.codec import encode
from grass.wire.node_record import NodeRecord
from tests.support.api_world import ApiWorld, api_world
from tests.support.needs import require_root
from tests.support.sshd import SshServer, ssh_server
from tests.support.waiting import wait_until

ONLY_ID = r'command="case \"$SSH_ORIGINAL_COMMAND\" in id*) exec $SSH_ORIGINAL_COMMAND;; *) exit 9;; esac"'
CLOSED = HostSettings("127.0.0.1", name="n2", login=Login(username="root", port=1))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    require_root()
    with api_world(tmp_path) as world:
        yield world


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[SshServer]:
    require_root()
    (tmp_path / "sshd").mkdir()
    with ssh_server(tmp_path / "sshd") as server:
        yield server


def opened(world: ApiWorld, sshd: SshServer, said: list[str], **nodes: HostSettings) -> Session:
    session = Session("local", world.home / "home-root", said.append)
    write_mode(session.folder, "grass/on-premises")
    Machines(reached(sshd), nodes).save(session.client_dir)
    (session.client_dir / KNOWN_HOSTS).write_text(sshd.known_hosts.read_text())
    return session


def reached(sshd: SshServer) -> HostSettings:
    return HostSettings("127.0.0.1", login=Login(username=sshd.user, port=sshd.port, key=str(sshd.key)))


def test_a_node_that_is_away_stops_it_before_another_is_cleaned(world: ApiWorld, sshd: SshServer) -> None:
    said: list[str] = []
    session = opened(world, sshd, said, n1=reached(sshd), n2=CLOSED)
    with pytest.raises(StayedError, match=r"still exists.*nothing was changed\n  n2: no SSH at "):
        delete(session, force=False, packages=False)
    assert said == []
    gone = delete(session, force=True, packages=False)
    assert list(gone.left) == ["n2"] and "127.0.0.1: nothing of cluster local is there" in said


def test_a_node_that_is_away_is_removed_only_by_force(world: ApiWorld, sshd: SshServer) -> None:
    said: list[str] = []
    session = opened(world, sshd, said, n2=CLOSED)
    said_first = (
        "^nothing was changed, because its machine cannot be cleaned, but --force removes the node anyway: no SSH "
    )
    with pytest.raises(HostUnreachableError, match=said_first):
        remove_node(session, "n2", lambda: said.append("taken out"), force=False, packages=False)
    assert said == []
    remove_node(session, "n2", lambda: said.append("taken out"), force=True, packages=False)
    assert said[-1] == "taken out"


def test_a_node_that_joined_by_itself_stops_it_before_another_is_cleaned(world: ApiWorld, sshd: SshServer) -> None:
    said: list[str] = []
    record = NodeRecord(name="own", state=NodeState.READY, address="10.0.0.9")
    world.backend.apply([("HSET", world.keys.nodes, "own", encode(record))])
    session = opened(world, sshd, said, n1=reached(sshd))
    with pytest.raises(StayedError, match=r"nothing was changed\n  own: it joined by itself: run `grass leave`"):
        delete(session, force=False, packages=False)
    assert said == []
    assert list(delete(session, force=True, packages=False).left) == ["own"]


def test_a_node_that_was_cleaned_before_another_failed_leaves_the_list_and_may_be_added_again(
    world: ApiWorld, sshd: SshServer, tmp_path: Path
) -> None:
    """The second host passes the look at all hosts: whoever logs in is root there. It refuses every later command."""

    def remove_as_the_master_agent_does() -> None:
        def removal() -> bool:
            tickets = [json.loads(fields["body"]) for _, fields in world.backend.stream(world.keys.tickets, "0", 10)]
            return [(each["kind"], each.get("node")) for each in tickets] == [("node-remove", "n1")]

        wait_until(removal, what="the request to remove n1, and no other")
        world.backend.apply([("HDEL", world.keys.nodes, "n1")])

    (tmp_path / "broken").mkdir()
    with ssh_server(tmp_path / "broken", ONLY_ID) as broken, ThreadPoolExecutor(1) as pool:
        session = opened(world, sshd, [], n1=reached(sshd), n2=reached(broken))
        known_hosts = session.client_dir / KNOWN_HOSTS
        known_hosts.write_text(known_hosts.read_text() + broken.known_hosts.read_text())
        for name in ("n1", "n2"):
            record = NodeRecord(name=name, state=NodeState.READY, address="127.0.0.1")
            world.backend.apply([("HSET", world.keys.nodes, name, encode(record))])
        removed = pool.submit(remove_as_the_master_agent_does)
        with pytest.raises(StayedError, match=r"still exists.*the other nodes have left it\n  n2: "):
            delete(session, force=False, packages=False)
        removed.result(20)
    assert [node.name for node in world.client("root").nodes()] == ["n2"]
    machines = load_machines("local", session.home)
    assert machines is not None and list(machines.nodes) == ["n2"]
