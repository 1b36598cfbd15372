"""The node-api-server over TLS: the real daemon, the calls of the master and of other nodes, and wrong certificates."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grass import tls
from grass.api.node_token import node_token
from grass.config import ClusterConfig, Secrets
from grass.errors import NodeUnreachableError, NotAllowedError
from grass.model.lifecycle import NodeState
from grass.node_config import NodeConfig, NodeHome
from grass.system import clock
from grass.tls_files import TlsFiles, node_identity
from grass.wire.membership import Member, Membership
from grass.wire.node_api import NOTHING, STATUS
from grass.wire.node_record import NodeRecord
from master.node_calls.client import call_node, why_unreachable
from node.membership import revoked_nodes
from node.membership.forwarding import Forwarding
from node.membership.memberships import Memberships
from tests.support.certificates import ClusterFiles, answer, client_of, cluster_files
from tests.support.example_run import free_port
from tests.support.templates import template
from tests.support.waiting import wait_until

SECRET = "of the master"
TOKEN = node_token(SECRET, "n1")


@dataclass
class Node:
    """A running node-api-server of the node n1, and the master that calls it."""

    files: ClusterFiles
    config: NodeHome
    master: ClusterConfig
    record: NodeRecord

    def call(self, files: TlsFiles, path: str, token: str = TOKEN) -> tuple[int, Any]:
        """Call as whoever has these certificates."""
        connection = http.client.HTTPConnection("127.0.0.1", self.config.node.api_port, timeout=10)
        connection.connect()
        connection.sock = tls.wrap(connection.sock, files, node_identity("x", "n1"))
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("tls")
    files = cluster_files(folder, "x", "n1", "n2")
    home, api = folder / "n1", NodeConfig(name="n1", api_port=free_port())
    config = NodeHome("x", "test", str(home), str(home), node=api, tls=True)
    config.save()
    Secrets(redis={}, node_token=TOKEN).save(home)
    master = replace(config, home=str(folder / "master"))
    Secrets(redis={}, node_token=SECRET).save(master.home)
    record = NodeRecord(name="n1", state=NodeState.READY, address="127.0.0.1", api_port=api.api_port)
    daemon = subprocess.Popen([sys.executable, "-m", "node.api", str(config.path)])
    try:
        wait_until(lambda: why_unreachable(master, record) is None, what="the first answer")
        yield Node(files, config, master, record)
    finally:
        daemon.kill()
        daemon.wait()


def test_the_master_calls_a_node(node: Node) -> None:
    assert call_node(node.master, node.record, STATUS, NOTHING).node == "n1"


def test_another_node_may_not_act_as_the_master_even_with_its_token(node: Node) -> None:
    status, answer = node.call(node.files.nodes["n2"], "/v1/status")
    assert status == 403 and "not the master's" in answer["error"]["message"]


def test_another_node_passes_on_calls_of_tasks_which_need_a_token_of_their_own(node: Node) -> None:
    status, answer = node.call(node.files.nodes["n2"], "/v1/tasks/exec/none/output")
    assert status == 403 and "certificate" not in answer["error"]["message"]


def test_a_certificate_from_before_its_node_was_removed_counts_no_more(node: Node, tmp_path: Path) -> None:
    def answer(files: TlsFiles) -> str:
        return str(node.call(files, "/v1/tasks/exec/none/output")[1]["error"]["message"])

    old = node.files.add(tmp_path, "n4", days=1)
    assert "certificate" not in answer(old)
    revoked_nodes.add(node.config, {"n4": clock.wall() - 3600})
    revoked_nodes.add(node.config, {"other": clock.wall()})
    assert "of grass://x/node/n4 is no longer valid: the node was removed" in answer(old)
    assert "certificate" not in answer(node.files.add(tmp_path, "n4"))  # it joined again
    assert call_node(node.master, node.record, STATUS, NOTHING).node == "n1"


def test_a_node_agent_passes_on_a_call_of_a_task_over_tls(node: Node) -> None:
    config = replace(node.config, home=str(Path(node.config.home).parent / "n2"), node=NodeConfig(name="n2"))
    memberships = Memberships(config)
    port = node.config.node.api_port
    members = tuple(Member("w.0", 1, name, "127.0.0.1", 1, 0, api_port=port) for name in ("n1", "n3"))
    memberships.reset({"j-1/w": Membership(1, 1, 1, 1, 1, 1, members)}, {"j-1/w": template(secret="s")})
    forwarding = Forwarding(config, memberships)
    with pytest.raises(NotAllowedError):  # the answer of n1, which runs no task of this job
        forwarding.call("j-1", "n1", "token", "GET", "none/output", b"")
    with pytest.raises(NodeUnreachableError, match="is of grass://x/node/n1, not of grass://x/node/n3"):
        forwarding.call("j-1", "n3", "token", "GET", "none/output", b"")


def test_plain_http_gets_no_answer(node: Node) -> None:
    with socket.create_connection(("127.0.0.1", node.config.node.api_port), 10) as peer:
        peer.sendall(f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert b"HTTP" not in peer.recv(1000)


def test_a_peer_that_speaks_tls_1_2_or_shows_no_certificate_is_refused(node: Node) -> None:
    address, files = ("127.0.0.1", node.config.node.api_port), node.files.nodes["n2"]
    assert "alert certificate required" in answer(address, client_of(None))
    assert answer(address, client_of(files), b"GET / HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 4")
    assert "alert protocol version" in answer(address, client_of(files, ssl.TLSVersion.TLSv1_2))


def test_a_certificate_that_has_expired_is_refused(node: Node, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)alert.certificate.expired"):
        node.call(node.files.add(tmp_path, "n2", days=40), "/v1/status")


def test_a_node_whose_certificate_has_expired_is_not_called(node: Node) -> None:
    folder = Path(node.config.home).parent
    node.files.add(folder, "n1", days=40)
    try:
        assert "certificate has expired" in (why_unreachable(node.master, node.record) or "")
        with pytest.raises(ssl.SSLError, match="certificate has expired"):
            node.call(node.files.nodes["n2"], "/v1/tasks/exec/none/output")
    finally:
        node.files.add(folder, "n1")
    assert why_unreachable(node.master, node.record) is None


def test_a_certificate_of_another_authority_is_refused_on_both_sides(node: Node, tmp_path: Path) -> None:
    foreign = cluster_files(tmp_path, "x", "n2").nodes["n2"]
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        node.call(foreign, "/v1/status")
    foreign.authority.write_bytes(node.files.master.authority.read_bytes())
    with pytest.raises(ssl.SSLError, match=r"(?i)alert.unknown.ca"):
        node.call(foreign, "/v1/status")


def test_a_node_with_the_certificate_of_another_is_not_called(node: Node) -> None:
    other = msgspec.structs.replace(node.record, name="n2")
    assert "is of grass://x/node/n1, not of grass://x/node/n2" in (why_unreachable(node.master, other) or "")


def test_a_master_without_its_authority_says_which_file_is_missing(node: Node, tmp_path: Path) -> None:
    shutil.copytree(node.master.home, tmp_path / "master")
    broken = replace(node.master, home=str(tmp_path / "master"))
    broken.tls_files.authority.unlink()
    with pytest.raises(NodeUnreachableError, match=r"ca\.pem: cannot be read"):
        call_node(broken, node.record, STATUS, NOTHING)


def test_a_renewed_certificate_is_used_without_a_restart(node: Node) -> None:
    def serial() -> str:
        plain = socket.create_connection(("127.0.0.1", node.config.node.api_port), 10)
        with tls.wrap(plain, node.files.nodes["n2"], node_identity("x", "n1")) as secure:
            return str((secure.getpeercert() or {}).get("serialNumber"))

    before = serial()
    node.files.add(Path(node.config.home).parent, "n1")
    assert serial() != before
    assert call_node(node.master, node.record, STATUS, NOTHING).node == "n1"
