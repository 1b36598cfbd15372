"""Tokens and joins, over a real socket: what is admitted, what is refused, and that it is used up once."""

from __future__ import annotations

import grp
import json
import logging
import os
import pwd
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import UNSET, structs
from werkzeug.serving import make_server

import grass
from grass.api import certificates, master_certificate
from grass.api.invitation import Invitation, parse_token, secret_digest
from grass.api.join_client import JoinClient, open_join_client
from grass.api.node_token import node_token
from grass.config import ClusterConfig, MasterConfig, NodePolicy, RedisConfig, Secrets
from grass.errors import (
    CertificateError,
    ConflictError,
    InputError,
    NodeUnreachableError,
    NotAllowedError,
    NotFoundError,
    UnreachableError,
)
from grass.manifest.join_file import Offer
from grass.model.isolation import UIDS
from grass.model.lifecycle import TaskState
from grass.model.runtime import RuntimeName
from grass.node_config import NodeConfig, NodeHome
from grass.provision import host_certificate
from grass.provision.on_premises import join_steps, joining, node_paths
from grass.provision.on_premises.join_record import Own, record_path
from grass.provision.on_premises.node_design import NodeDesign
from grass.provision.on_premises.own_host import OwnHost
from grass.provision.on_premises.record import Made
from grass.provision.on_premises.steps import Call
from grass.supervision.moved import count_move
from grass.system import clock
from grass.tls_files import TlsFiles
from grass.wire import join_views, node_views
from grass.wire.codec import Form, builtins
from grass.wire.codec import encode as pack
from grass.wire.task_record import TaskRecord
from master.api.route import Access
from master.api.routes import ROUTES
from master.node_calls import client as node_client
from node.api.app import create_app as node_app
from tests.contract.test_api_replies import Checked, of_nobody_knows_where
from tests.support import sample_views
from tests.support.api_world import ApiWorld, api_world
from tests.support.rsa_keys import public_jwk
from tests.support.shapes import faults
from tests.support.waiting import wait_until

RESOURCES = {"cpu": 4000, "memory": 1 << 30, "gpu": 0}
NODE = {"state": "READY", "reason": None, "address": "10.0.0.9", "tasks": 0}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with api_world(tmp_path) as world:
        Secrets({"api": "x"}, "master-secret").save(world.config.home)
        policy = NodePolicy(
            reserve={"cpu": 500}, low_disk=2 << 30, topology_command=("/where", "x"), isolate=UIDS, read_only_data=True
        )
        master = MasterConfig(api_port=world.port, node_policy=policy)
        config = ClusterConfig("local", "grass/on-premises", world.config.home, world.config.runtime_dir, master=master)
        object.__setattr__(
            world.app.extensions["grass"], "config", config
        )  # frozen, and made before the port was known
        yield world


class Agent:
    """Takes tickets as the master-agent does, as far as joins need it."""

    def __init__(self, world: ApiWorld) -> None:
        self.world = world
        self.ended = threading.Event()
        self.taken: list[tuple[str, dict[str, Any]]] = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self) -> Agent:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def run(self) -> None:
        after = "0-0"
        while not self.ended.is_set():
            for entries in self.world.backend.wait({self.world.keys.tickets: after}, 0.02, 100).values():
                for entry_id, fields in entries:
                    after = entry_id
                    body = json.loads(fields["body"])
                    self.take(body.pop("kind"), body)

    def take(self, kind: str, body: dict[str, Any]) -> None:
        self.taken.append((kind, body))
        if kind == "node-join":
            known = self.world.store.node(body["name"])
            if known is None:
                put_node(self.world, body["name"], state="JOINING", digest=body["digest"])
        if kind == "node-remove":
            put_node(self.world, body["node"], state="LEFT")


def put_node(world: ApiWorld, name: str, **values: Any) -> None:
    event = {"time": 1.0, "kind": "node", "user": "", "message": "", "node": name}
    world.backend.apply(
        [
            ("HSET", world.keys.nodes, name, pack({**NODE, "name": name, **values})),
            ("XADD", world.keys.events, 0, "event", pack(event)),
        ]
    )


def wish(token: str, name: str = "n1", **more: Any) -> dict[str, Any]:
    facts = {"address": "10.0.0.9", "api_port": 4100, "version": grass.__version__, "resources": RESOURCES}
    body = {"secret": parse_token(token).secret, "join_id": "ab" * 8, "password": "pw", "name": name, "facts": facts}
    return {**body, **more}


def join_client(token: str) -> JoinClient:
    return open_join_client(parse_token(token))


def asked_to_join(token: str, **more: Any) -> Any:
    """The answer of the API as it came, with what this version does not know."""
    return join_client(token)._transport.call("POST", "/v1/join", wish(token, **more), wait=10.0)


def test_a_machine_with_a_token_becomes_a_node(world: ApiWorld) -> None:
    made = world.client("root").join_token(name="n1", expires=60)
    assert made.uses == 1
    with Agent(world) as agent:
        sent = asked_to_join(made.token, node={"labels": {"disk": "ssd"}, "cpu": 2000})
    assert faults(sent, join_views.JoinedView, "reply") == []
    reply = join_views.JOINED.convert(sent)
    assert reply.config and reply.config["node"]["labels"] == {"disk": "ssd"}
    assert (reply.config["node"]["cpu"], reply.config["node"]["memory"]) == (2000, None)
    policy = world.app.extensions["grass"].config.master.node_policy
    assert Form[NodePolicy](NodePolicy).convert(reply.config["node"]) == policy
    assert reply.config["master"]["node_policy"] == {}, "it is said once"
    own = node_token("master-secret", "n1", secret_digest("pw"))
    assert reply.secrets == join_views.NodeSecrets({"node": "pw"}, own)
    [(kind, ticket)] = agent.taken
    assert (kind, ticket["name"], ticket["user"]) == ("node-join", "n1", "root")
    assert ticket["digest"] == secret_digest("pw")
    assert ticket["node"]["address"] == "10.0.0.9"


def test_an_administrator_asks_what_joining_would_be_and_nothing_is_made_or_used_up(world: ApiWorld) -> None:
    client = world.client("root")
    before = [entry.kind for entry in client.events()]
    assert faults(client._transport.call("GET", "/v1/join-terms"), join_views.JoinTerms, "terms") == []
    terms = client.join_terms()
    made = parse_token(client.join_token().token)
    assert (tuple(terms.urls), terms.key, terms.cluster) == (made.urls, made.key, made.cluster)
    question = {"name": "n1", "facts": wish(made.token())["facts"], "node": {}, "password": "pw"}
    assert faults(client._transport.call("POST", "/v1/join-terms", question), join_views.JoinedView, "answer") == []
    answer = client.join_check(question)
    asked = join_client(made.token()).join({**wish(made.token()), "check": True})
    assert answer == structs.replace(asked, time=answer.time)
    assert [entry.kind for entry in client.events()] == [*before, "join-token"]  # the one made here
    assert world.store.node("n1") is None
    put_node(world, "n1")
    with pytest.raises(ConflictError, match="node n1: exists already"):
        client.join_check(question)
    with pytest.raises(NotAllowedError):
        world.client("ann").join_check(question)


def test_a_machine_that_was_interrupted_while_it_joined_comes_again_with_another_token(world: ApiWorld) -> None:
    client = world.client("root")
    tokens = [client.join_token().token for _ in range(3)]
    with Agent(world) as agent:
        join_client(tokens[0]).join(wish(tokens[0]))
        with pytest.raises(ConflictError, match="node n1: exists already"):
            join_client(tokens[1]).join(wish(tokens[1], password="of another machine", join_id="cd" * 8))
        again = wish(tokens[1])
        assert client.join_check({**again, "node": {}}).cluster == "local"
        assert join_client(tokens[1]).join({**again, "check": True}).cluster == "local"
        joined = join_client(tokens[1]).join(again)
        assert (joined.secrets.redis, joined.already) == ({"node": "pw"}, False)
        put_node(world, "n1", state="READY", digest=secret_digest("pw"))
        with pytest.raises(ConflictError, match="node n1: exists already"):
            join_client(tokens[2]).join(wish(tokens[2], password="of another machine"))
        files = join_client(tokens[2]).join(wish(tokens[2]))  # as a node whose files were lost
        assert files.already is True
        assert files.secrets.node_token == node_token("master-secret", "n1", secret_digest("pw"))
    assert sorted(row.uses for row in client.join_tokens()) == [0, 0, 1]
    assert [ticket["digest"] for _, ticket in agent.taken] == [secret_digest("pw")] * 2


def test_the_store_holds_no_secret_of_a_token(world: ApiWorld) -> None:
    token = world.client("root").join_token().token
    secret = parse_token(token).secret
    assert world.backend.get(world.keys.join(secret_digest(secret))) is not None
    assert secret not in repr(vars(world.backend))


def test_a_token_used_twice_is_refused_and_says_by_whom_it_was_used(world: ApiWorld) -> None:
    token = world.client("root").join_token().token
    with Agent(world) as agent:
        join_client(token).join(wish(token))
        with pytest.raises(ConflictError, match=r"used up \(by n1\)"):
            join_client(token).join(wish(token, "n2", join_id="cd" * 8))
    assert len(agent.taken) == 1


def test_a_machine_does_not_come_again_with_a_token_that_was_revoked(world: ApiWorld) -> None:
    client = world.client("root")
    token = client.join_token().token
    with Agent(world) as agent:
        join_client(token).join(wish(token))
        client.revoke_join_token(client.join_tokens()[0].id)
        with pytest.raises(ConflictError, match="was revoked"):
            join_client(token).join(wish(token))
    assert len(agent.taken) == 1


def test_a_token_of_two_uses_is_good_for_two_machines_at_once(world: ApiWorld) -> None:
    token = world.client("root").join_token(uses=2).token

    def one(number: int) -> str:
        try:
            join_client(token).join(wish(token, f"n{number}", join_id=f"{number:016x}"))
        except ConflictError as error:
            return str(error)
        return "joined"

    with Agent(world) as agent, ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(one, range(6)))
    assert outcomes.count("joined") == 2
    assert len(agent.taken) == 2
    assert all("used up" in text for text in outcomes if text != "joined")


def test_a_join_whose_reply_was_lost_may_be_repeated(world: ApiWorld) -> None:
    token = world.client("root").join_token().token
    with Agent(world):
        first = join_client(token).join(wish(token))
        again = join_client(token).join(wish(token))
    assert again.secrets == first.secrets


def test_a_node_gets_its_files_again_without_a_token_and_nobody_else_does(world: ApiWorld) -> None:
    token = world.client("root").join_token().token
    with Agent(world):
        join_client(token).join(wish(token))
    client = join_client(token)
    put_node(world, "n1", state="SILENT", digest=secret_digest("pw"))
    reply = client.join(wish(token, secret=""))
    assert reply.already is True and reply.number == (0, 0) and reply.secrets is not UNSET
    count_move(world.config.master_dir)
    assert client.join(wish(token, secret="", check=True)).number == (0, 1)
    for changed in ({"password": "guess"}, {"name": "n2"}):
        with pytest.raises(NotAllowedError, match="a machine needs a join token"):
            client.join(wish(token, secret="", **changed))
    for state in ("QUARANTINED", "LEFT", "JOINING"):
        put_node(world, "n1", state=state, digest=secret_digest("pw"))
        with pytest.raises(NotAllowedError, match="a machine needs a join token"):
            client.join(wish(token, secret=""))


def test_no_token_is_good_again_after_a_restart_of_the_api(world: ApiWorld) -> None:
    root = world.client("root")
    used, expired = root.join_token().token, root.join_token(expires=0.001).token
    with Agent(world):
        join_client(used).join(wish(used))
    revoked = root.join_token().token
    root.revoke_join_token(next(row.id for row in root.join_tokens() if row.state == "valid"))
    world.stop()
    world.serve()
    for token in (used, expired, revoked):
        with pytest.raises(ConflictError, match=r"used up|expired|revoked"):
            join_client(token).join(wish(token, "n2", join_id="cd" * 8))
    foreign = Invitation((f"http://127.0.0.1:{world.port}",), public_jwk("ann")["kid"], "s").token()
    with pytest.raises(NotAllowedError, match="for another master"):
        join_client(foreign)


def test_an_expired_token_is_refused(world: ApiWorld) -> None:
    token = world.client("root").join_token(expires=0.001).token
    with pytest.raises(ConflictError, match="expired"):
        join_client(token).join(wish(token))


def test_a_token_for_one_node_is_for_no_other(world: ApiWorld) -> None:
    token = world.client("root").join_token(name="n7").token
    with pytest.raises(ConflictError, match="for the node n7, not for n1"):
        join_client(token).join(wish(token))


def test_a_token_that_nobody_issued_is_refused(world: ApiWorld) -> None:
    token = Invitation(
        (f"http://127.0.0.1:{world.port}",), public_jwk("master")["kid"], "guessed", cluster="local"
    ).token()
    with pytest.raises(ConflictError, match="does not know"):
        join_client(token).join(wish(token))


def test_a_master_with_another_key_is_not_spoken_to(world: ApiWorld) -> None:
    token = Invitation((f"http://127.0.0.1:{world.port}",), "another", "s", cluster="local").token()
    with pytest.raises(NotAllowedError, match="the join token is for another master"):
        join_client(token)


def test_a_master_that_is_away_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="no master answers"):
        join_client(Invitation(("http://127.0.0.1:1",), "k", "s").token())


def test_a_name_that_exists_is_refused_and_the_token_stays_good(world: ApiWorld) -> None:
    put_node(world, "n1")
    token = world.client("root").join_token().token
    with pytest.raises(ConflictError, match="node n1: exists already"):
        join_client(token).join(wish(token))
    with Agent(world):
        join_client(token).join(wish(token, "n2"))


def test_the_name_of_a_node_that_left_is_free(world: ApiWorld) -> None:
    put_node(world, "n1", state="LEFT")
    token = world.client("root").join_token().token
    assert join_client(token).join(wish(token, check=True)).cluster == "local"


def test_another_version_is_refused(world: ApiWorld) -> None:
    token = world.client("root").join_token().token
    body = wish(token)
    body["facts"]["version"] = "9.9.9"
    with pytest.raises(ConflictError, match=r"runs Grass 9\.9\.9, this cluster"):
        join_client(token).join(body)


@pytest.mark.parametrize("name", ["", "-n", "a/b", "a b", "x" * 64])
def test_a_name_that_is_none_is_refused(world: ApiWorld, name: str) -> None:
    token = world.client("root").join_token().token
    with pytest.raises(InputError):
        join_client(token).join(wish(token, name))


def test_the_step_that_joins_writes_the_files_of_a_node_that_its_daemons_read(world: ApiWorld, tmp_path: Path) -> None:
    invitation = parse_token(world.client("root").join_token().token)
    user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    paths = node_paths.of_user("local", user, group, str(tmp_path / "user"), str(tmp_path / "run"))
    Path(paths.home).mkdir(parents=True)
    offer = Offer(name="n1", address="10.0.0.9", memory=2 << 30, labels={"disk": "ssd"}, topology=("r1", "s2"))
    design = NodeDesign("n1", "python3", (RuntimeName.PROCESS, RuntimeName.DOCKER), None, (), "")
    own = Own(name="n1")
    asked = join_steps.join_request(invitation, offer, own, check=True)
    client = open_join_client(invitation)
    assert client.join(builtins(asked)).cluster == "local"
    new: list[str] = []
    [claim] = join_steps.claim_step(
        client, invitation, offer, design, paths, own, Made(), new_node=lambda: new.append("new")
    ).actions
    assert isinstance(claim, Call)
    with Agent(world) as agent:
        claim.do(OwnHost("this machine"))
    node = NodeHome.load(paths.config).node
    assert (node.name, node.address, node.memory, node.cpu) == ("n1", "10.0.0.9", 2 << 30, None)
    assert (node.labels, node.path, node.runtimes) == ({"disk": "ssd"}, ("r1", "s2"), ("process", "docker"))
    assert Secrets.load(paths.home).node_token == own.node_token
    assert Path(paths.secrets).stat().st_mode & 0o777 == 0o600
    kept = Made.parse(Path(record_path(paths)).read_text())
    assert kept.details["node_token"] == own.node_token and kept.details["join_id"] == own.join_id
    assert [kind for kind, _ in agent.taken] == ["node-join"] and new.pop() == "new"
    put_node(world, "n1", state="READY", digest=secret_digest(own.password))
    claim.do(OwnHost("this machine"))  # as a node that needs its files again
    assert not new  # its shepherd goes on
    there = json.loads(Path(paths.config).read_text())
    there["node"]["isolate"] = [2000, 3000]
    for other in (json.dumps(there), "damaged"):
        Path(paths.config).write_text(other)
        claim.do(OwnHost("this machine"))
        assert new.pop() == "new", other


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"join_id": "not hexadecimal"}, "join_id"),
        ({"facts": {"address": "10.0.0.9", "api_port": 0, "version": "1"}}, r"facts\.api_port"),
        ({"facts": {"address": "10.0.0.9", "api_port": True, "version": "1"}}, r"facts\.api_port"),
        ({"facts": {"api_port": 1, "version": "1"}}, "address"),
        ({"node": {"cpu": -1}}, r"node\.cpu"),
        ({"node": {"labels": {"a b": "c"}}}, r"node\.labels: 'a b'"),
        ({"node": {"labels": {"a": 1}}}, r"node\.labels"),
        ({"node": {"labels": {"topology": "r 1"}}}, r"node\.labels\.topology: must be at most 8 names .*, got 'r 1'"),
        ({"node": {"path": ["r1"] * 9}}, r"node\.path"),
        ({"node": {"runtimes": ["podman"]}}, "unknown runtime 'podman'; use process or docker or kubernetes"),
        ({"node": {"mounts": "/data"}}, r"node\.mounts"),
        ({"password": ""}, "password"),
    ],
)
def test_a_join_of_the_wrong_form_is_refused_with_the_field_and_uses_nothing_up(
    world: ApiWorld, wrong: dict[str, Any], said: str
) -> None:
    token = world.client("root").join_token().token
    with pytest.raises(InputError, match=said):
        join_client(token).join(wish(token, **wrong))
    with Agent(world):
        join_client(token).join(wish(token))


def test_asking_first_uses_nothing_up_and_names_what_must_be_reached(world: ApiWorld) -> None:
    token = world.client("root").join_token().token
    answer = asked_to_join(token, check=True)
    assert faults(answer, join_views.JoinedView, "reply") == []
    assert "secrets" not in answer
    with Agent(world):
        join_client(token).join(wish(token))


def test_only_administrators_make_tokens(world: ApiWorld) -> None:
    for user in ("ann", "eve"):
        with pytest.raises(NotAllowedError, match="needs role admin"):
            world.client(user).join_token()


@pytest.mark.parametrize("wrong", [{"uses": 0}, {"uses": 1001}, {"expires": 0.0}, {"expires": 1e9}, {"name": "a b"}])
def test_a_wish_for_a_token_is_checked(world: ApiWorld, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        world.client("root").join_token(**wrong)


def test_a_machine_with_a_wrong_clock_is_understood(world: ApiWorld) -> None:
    from grass.system import clock

    token = world.client("root").join_token().token
    late = open_join_client(parse_token(token), wall=lambda: clock.wall() - 7200)
    assert late.join(wish(token, check=True)).cluster == "local"


def test_a_node_sees_itself_with_its_own_token_only(world: ApiWorld) -> None:
    put_node(world, "n1")
    asked = join_client(world.client("root").join_token().token)
    own = node_token("master-secret", "n1")
    assert asked.wait("n1", own, None, 5).node.state == "READY"
    for token in (node_token("master-secret", "n2"), "", "x"):
        with pytest.raises(NotAllowedError, match="node n1: wrong node token"):
            asked.wait("n1", token, None, 5)


def test_a_machine_that_was_removed_has_no_part_in_the_next_node_of_its_name(world: ApiWorld) -> None:
    asked = join_client(world.client("root").join_token().token)
    before, now = (node_token("master-secret", "n1", secret_digest(password)) for password in ("old", "new"))
    put_node(world, "n1", digest=secret_digest("new"))
    assert asked.wait("n1", now, None, 5).node.state == "READY"
    for call in (lambda: asked.wait("n1", before, None, 5), lambda: asked.leave("n1", before, force=True)):
        with pytest.raises(NotAllowedError, match="node n1: wrong node token"):
            call()
    put_node(world, "n1", state="LEFT", digest=secret_digest("new"))
    assert asked.wait("n1", before, None, 5).node.state == "LEFT"


def test_a_node_gets_certificates_for_itself_until_it_leaves(world: ApiWorld, tmp_path: Path) -> None:
    token = world.client("root").join_token().token
    asked, own, key = join_client(token), node_token("master-secret", "n1"), certificates.new_key()
    put_node(world, "n1")
    request = certificates.request_for(key)
    assert asked.certificate("n1", own, request) == join_views.CertificateView("", "", redis=False)
    config = replace(world.app.extensions["grass"].config, tls=True)
    object.__setattr__(world.app.extensions["grass"], "config", config)
    with pytest.raises(CertificateError, match=r"ca\.key: cannot be read"):  # before the machine has changed anything
        asked.join({**wish(token, "n2"), "check": True})
    master_certificate.make(config, clock.wall())
    answer = asked.certificate("n1", own, request)
    files = TlsFiles(tmp_path / "n1")
    certificates.install(files, key, answer.certificate, answer.authority)
    assert b"grass://local/node/n1" in x509.load_pem_x509_certificate(files.host.read_bytes()).public_bytes(
        Encoding.DER
    )
    with pytest.raises(NotAllowedError, match="node n2: wrong node token"):
        asked.certificate("n2", own, request)
    put_node(world, "n1", state="LEFT")
    with pytest.raises(NotFoundError, match="node n1: it left the cluster, so it gets no certificate"):
        asked.certificate("n1", own, request)


def test_a_node_renews_a_certificate_that_is_due_or_lost(world: ApiWorld, tmp_path: Path) -> None:
    master = replace(world.app.extensions["grass"].config, tls=True)
    object.__setattr__(world.app.extensions["grass"], "config", master)
    master_certificate.make(master, clock.wall())
    invitation, home = parse_token(world.client("root").join_token().token), tmp_path / "n1"
    home.mkdir()
    own = NodeHome("local", "grass/on-premises", str(home), str(home), RedisConfig(False), node=NodeConfig("n1"))
    own.save()
    put_node(world, "n1")
    token = node_token("master-secret", "n1")
    Secrets({}, token).save(home)
    answer = open_join_client(invitation).certificate("n1", token, host_certificate.request(home))
    signed = host_certificate.Signed(answer, host_certificate.Master(invitation.urls, invitation.key))
    host_certificate.install(home, pack(signed))
    config = ClusterConfig.load(home / "cluster.json")
    assert config.tls and not host_certificate.renew(config.path, clock.wall())
    before = config.tls_files.host.read_text()
    assert host_certificate.renew(config.path, clock.wall() + 6 * 86_400)
    config.tls_files.authority.unlink()
    assert host_certificate.renew(config.path, clock.wall())
    assert host_certificate.why_incomplete(home, clock.wall()) == "" and config.tls_files.host.read_text() != before
    put_node(world, "n1", state="LEFT")
    with pytest.raises(NotFoundError, match="it left the cluster"):
        host_certificate.renew(config.path, clock.wall() + 6 * 86_400)


def test_whoever_waits_for_a_node_is_woken(world: ApiWorld) -> None:
    put_node(world, "n1", state="JOINING")
    asked = join_client(world.client("root").join_token().token)
    own = node_token("master-secret", "n1")
    mark = asked.wait("n1", own, None, 5).mark
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(asked.wait, "n1", own, mark, 20)
        put_node(world, "n1", state="READY")
        assert waiting.result(10).node.state == "READY"


@contextmanager
def node_api(token: str, port: int = 0) -> Iterator[int]:
    """A real node-api-server; its port. There is no shepherd behind it, which is for it to say."""
    app = node_app(NodeHome("local", "grass/on-premises", "/nowhere", "/nowhere", node=NodeConfig()), token)
    server = make_server("127.0.0.1", port, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def joined(world: ApiWorld) -> tuple[JoinClient, Own]:
    """As the machine is that has just become n1."""
    token = world.client("root").join_token().token
    own = Own(name="n1", node_token=node_token("master-secret", "n1"), urls=["http://10.0.0.1:51812"])
    return join_client(token), own


def test_a_node_learns_whether_the_master_reaches_its_api(world: ApiWorld) -> None:
    asked, own = joined(world)
    with node_api(own.node_token) as port:
        put_node(world, "n1", address="127.0.0.1", api_port=port)
        sent = asked._transport.call("GET", "/v1/join/n1/reach", {"token": own.node_token})
        assert faults(sent, node_views.NodeReached, "reply") == []
        assert asked.reach("n1", own.node_token) == node_views.NodeReached(f"127.0.0.1:{port}", None)
    refused = asked.reach("n1", own.node_token)
    assert refused == node_views.NodeReached(f"127.0.0.1:{port}", "connection refused")
    with node_api("of another node") as port:
        put_node(world, "n1", address="127.0.0.1", api_port=port)
        assert "another program answers there" in str(asked.reach("n1", own.node_token).error)
    with pytest.raises(NotAllowedError, match="node n1: wrong node token"):
        asked.reach("n1", node_token("master-secret", "n2"))


def test_a_master_that_cannot_reach_a_node_says_so_to_whoever_joined_it(world: ApiWorld) -> None:
    asked, own = joined(world)
    with node_api(own.node_token) as port:
        put_node(world, "n1", address="127.0.0.1", api_port=port)
        view = joining.wait_until_ready(asked, "n1", own, lambda _: None)
        joining.check_reached(asked, "n1", own, view)
    with pytest.raises(joining.NotReachedError) as told:
        joining.check_reached(asked, "n1", own, view, seconds=0.1)
    assert (told.value.exit_code, told.value.view.state) == (1, "READY")
    place = rf"n1 joined, but the master cannot reach it at 127\.0\.0\.1:{port} \(connection refused\)"
    assert re.match(rf"{place}: open this TCP port for 10\.0\.0\.1 on n1;", str(told.value))


def test_a_join_gives_the_share_of_a_master_that_has_moved_time_to_answer(world: ApiWorld) -> None:
    asked, own = joined(world)
    said: list[str] = []
    away = {"code": "share", "message": "the share does not answer"}
    put_node(world, "n1", state="QUARANTINED", reason=away)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(joining.wait_until_ready, asked, "n1", own, said.append)
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        put_node(world, "n1")
        assert waiting.result(20).state == "READY"
    assert said == ["n1: the share does not answer", "n1: READY"]
    put_node(world, "n1", state="QUARANTINED", reason=away)
    assert joining.wait_until_ready(asked, "n1", own, lambda _: None, share_seconds=0.0).state == "QUARANTINED"


def test_a_node_api_that_is_just_starting_is_given_time(world: ApiWorld) -> None:
    asked, own = joined(world)
    with node_api(own.node_token) as port:
        pass
    put_node(world, "n1", address="127.0.0.1", api_port=port)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(joining.check_reached, asked, "n1", own, sample_views.node("n1"))
        with pytest.raises(TimeoutError):
            looking.result(0.2)
        with node_api(own.node_token, port):
            looking.result(10)


def test_a_command_on_a_node_that_cannot_be_reached_blames_the_node_and_not_the_cluster(world: ApiWorld) -> None:
    with node_api("x") as port:
        pass
    put_node(world, "n1", address="127.0.0.1", api_port=port)
    job = world.client("root").start({"name": "j", "components": {"w": {"command": "true"}}})
    task = TaskRecord(TaskState.RUNNING, 1, "n1")
    world.backend.apply([("HSET", world.keys.tasks(job.id), "w.0", pack(task))])
    with pytest.raises(NodeUnreachableError) as told:  # each try has the time that a call to a node may take
        world.client("root", timeout=0.5).execute("j", "w.0", ["true"])
    assert str(told.value).startswith(f"node n1: the master cannot reach it at 127.0.0.1:{port} (connection refused)")


def test_a_node_leaves_by_itself(world: ApiWorld) -> None:
    put_node(world, "n1")
    asked = join_client(world.client("root").join_token().token)
    with Agent(world) as agent:
        asked.leave("n1", node_token("master-secret", "n1"))
        wait_until(
            lambda: (
                agent.taken
                == [("node-remove", {"address": "127.0.0.1", "node": "n1", "user": "node n1", "force": False})]
            )
        )


def test_a_removed_node_does_not_come_back_with_the_token_that_it_has(world: ApiWorld) -> None:
    client = world.client("root")
    token, other = client.join_token(uses=2).token, client.join_token().token
    with Agent(world):
        join_client(token).join(wish(token))
        client.remove_node("n1")
        wait_until(lambda: (record := world.store.node("n1")) is not None and record.state.value == "LEFT")
        for name, join_id in (("n1", "ab" * 8), ("n2", "cd" * 8)):  # also not under another name
            with pytest.raises(ConflictError, match="was revoked by an administrator"):
                join_client(token).join(wish(token, name, join_id=join_id))
        assert any("revoked, because node n1" in event.message for event in client.events())
        join_client(other).join(wish(other, "n3", join_id="ef" * 8))  # other tokens stay good


def test_administrators_change_nodes_and_the_client_keeps_to_the_document(
    world: ApiWorld,
) -> None:
    put_node(world, "n1")
    checked = Checked(world, "root")
    client = checked.client
    client.cordon("n1"), client.uncordon("n1"), client.drain("n1", 5.0), client.watch_node("n1", None)
    put_node(world, "n2", state="DRAINED", drain=["root", None, False, ""])
    client.stop_node("n2", "its disk is still paid")
    client.remove_node("n1"), client.join_token()
    assert checked.found == []
    assert of_nobody_knows_where(world) == []
    assert checked.seen == {
        *(f"nodes.{verb}" for verb in ("cordon", "uncordon", "drain", "stop", "wait", "remove")),
        "joins.token",
    }
    assert {route.operation for route in ROUTES if route.access is Access.UNSIGNED} == {
        *(f"joins.{verb}" for verb in ("join", "show", "reach", "certificate", "leave")),
        "users.login",
    }


def test_a_node_that_is_not_drained_and_empty_is_not_stopped(world: ApiWorld) -> None:
    put_node(world, "n1")
    put_node(world, "n2", state="DRAINING", tasks=1, drain=["root", None, False, ""])
    for name, state in (("n1", "READY"), ("n2", "DRAINING")):
        with pytest.raises(ConflictError, match=f"node {name}: is {state}, not drained; `grass node drain {name}`"):
            world.client("root").stop_node(name)


def test_a_node_with_tasks_is_not_removed_unless_forced(world: ApiWorld) -> None:
    put_node(world, "n1", tasks=3)
    with pytest.raises(ConflictError, match=r"has 3 task\(s\)"):
        world.client("root").remove_node("n1")


def test_the_clusters_own_node_cannot_be_removed_and_takes_its_own_token(world: ApiWorld) -> None:
    config = replace(world.app.extensions["grass"].config, master=replace(world.config.master, own_node="n1"))
    object.__setattr__(world.app.extensions["grass"], "config", config)
    put_node(world, "n1")
    with pytest.raises(ConflictError, match="node n1: cannot be removed, it runs the cluster itself; `grass delete`"):
        world.client("root").remove_node("n1", force=True)
    with node_api("master-secret") as port:
        put_node(world, "n1", address="127.0.0.1", api_port=port)
        put_node(world, "n2", address="127.0.0.1", api_port=port)
        nodes = {name: world.store.node(name) for name in ("n1", "n2")}
        assert node_client.why_unreachable(config, nodes["n1"]) is None
        assert "its token is different" in node_client.why_unreachable(config, nodes["n2"])


def test_changing_a_node_needs_an_administrator_and_a_node(world: ApiWorld) -> None:
    put_node(world, "n1")
    with pytest.raises(NotAllowedError):
        world.client("ann").cordon("n1")
    with pytest.raises(NotFoundError, match="node nix: not found"):
        world.client("root").cordon("nix")


def test_a_guest_gets_into_no_other_route(world: ApiWorld) -> None:
    asked: Any = join_client(world.client("root").join_token().token)
    for method, path in (("GET", "/v1/nodes"), ("POST", "/v1/join-tokens"), ("GET", "/v1/jobs")):
        with pytest.raises(NotAllowedError, match="refuses to open"):
            asked._transport.call(method, path, {})


def test_two_machines_that_join_under_one_name_at_once_do_not_both(world: ApiWorld) -> None:
    token = world.client("root").join_token(uses=2).token

    def one(number: int) -> str:
        try:
            join_client(token).join(wish(token, "n1", join_id=f"{number:016x}"))
        except ConflictError as error:
            return str(error)
        return "joined"

    with Agent(world) as agent, ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(one, range(2)))
    assert outcomes[1] == "joined"
    assert "n1" in outcomes[0]
    assert len(agent.taken) == 1
