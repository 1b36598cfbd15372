"""`grass delete` of a cluster on several hosts looks at all of them before it cleans the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.manifest.on_premises import HostSettings, Login
from grass.mode_file import write_mode
from grass.model.lifecycle import NodeState
from grass.provision.on_premises.delete import StayedError, delete
from grass.provision.on_premises.machines import KNOWN_HOSTS, Machines
from grass.provision.provisioner import Session
from grass.wire.codec import encode
from grass.wire.node_record import NodeRecord
from tests.support.api_world import ApiWorld, api_world
from tests.support.needs import require_root
from tests.support.sshd import SshServer, ssh_server

CLOSED = HostSettings("127.0.0.1", login=Login(username="root", port=1))


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
    with pytest.raises(StayedError, match=r"still exists.*nothing was changed\n  n2: "):
        delete(session, force=False, packages=False)
    assert said == []
    gone = delete(session, force=True, packages=False)
    assert list(gone.left) == ["n2"] and "127.0.0.1: nothing of cluster local is there" in said


def test_a_node_that_joined_by_itself_stops_it_before_another_is_cleaned(world: ApiWorld, sshd: SshServer) -> None:
    said: list[str] = []
    record = NodeRecord(name="own", state=NodeState.READY, address="10.0.0.9")
    world.backend.apply([("HSET", world.keys.nodes, "own", encode(record))])
    session = opened(world, sshd, said, n1=reached(sshd))
    with pytest.raises(StayedError, match=r"nothing was changed\n  own: it joined by itself: run `grass leave`"):
        delete(session, force=False, packages=False)
    assert said == []
    assert list(delete(session, force=True, packages=False).left) == ["own"]
