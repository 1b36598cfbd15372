"""Clients at the address of an old master: they go where a proven notice leads, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask
from joserfc.jwk import RSAKey
from msgspec import structs
from redis import Redis
from werkzeug.serving import make_server

from grass.api import keyring
from grass.api.client import Client
from grass.api.join_client import ask_notice
from grass.api.notice import ForgedNoticeError, OldNoticeError, open_notice, sign
from grass.config import StandbyConfig
from grass.errors import InputError, StoreRefusesError, UnreachableError
from grass.provision.on_premises.following import newest
from grass.provision.on_premises.hearing import hear
from grass.provision.on_premises.join_record import Own
from grass.provision.on_premises.pinned import Pinned
from grass.store.api_store import ApiStore
from grass.store.embedded import find_server
from grass.store.keys import Keys
from grass.supervision.moved import TERM, count_move
from grass.wire.notice import Notice
from master.api.app import api_of, close_app, create_app
from master.api.fenced import found_notice, watch_fence
from tests.support.api_world import ApiWorld, api_world, write_client, write_cluster
from tests.support.example_run import listening
from tests.support.redis_server import RedisServer
from tests.support.rsa_keys import public_jwk, raw_key
from tests.support.waiting import wait_until

KEY = public_jwk("master")["kid"]


def notice(url: str, *, cluster: str = "local", term: int = 0, moves: int = 1, key: str = "master") -> str:
    return sign(Notice(cluster, (url,), term, moves), RSAKey(raw_key(key), raw_key(key)))


@pytest.fixture
def old(tmp_path: Path) -> Iterator[ApiWorld]:
    with api_world(tmp_path / "old") as world:
        yield world


@pytest.fixture
def new(tmp_path: Path) -> Iterator[ApiWorld]:
    """Its notices name the port that it has."""
    with api_world(tmp_path / "new") as world:
        world.stop()
        world.master = replace(world.master, api_port=world.port)
        world.serve()
        yield world


@contextmanager
def serving(app: Flask) -> Iterator[int]:
    with listening() as own:
        port = own.getsockname()[1]
        server = make_server("127.0.0.1", port, app, threaded=True, fd=own.fileno())
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield port
    finally:
        close_app(app)
        server.shutdown()
        thread.join()
        server.server_close()


def url(world: ApiWorld) -> str:
    return f"http://127.0.0.1:{world.port}"


def known_url(world: ApiWorld) -> str:
    return keyring.load_profile(world.home / "home-ann/clusters/local/client").url


def test_a_client_follows_a_notice_of_its_cluster_and_notes_the_new_address(old: ApiWorld, new: ApiWorld) -> None:
    said: list[str] = []
    client = old.client()
    client.on_away(said.append)
    assert client.jobs() == []
    old.app.moved = notice(url(new))
    assert client.jobs() == [] and client.jobs() == []
    assert said == [f"cluster local has moved to {url(new)}; noted for later calls"]
    assert known_url(old) == url(new)
    folder = old.home / "home-ann/clusters/local/client"
    assert keyring.load_number(folder) == (0, 1)
    assert old.client().nodes() == []  # goes there at once


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"key": "ann"}, "not signed with the key of this cluster"),
        ({"cluster": "other"}, "cluster local is meant here"),
        ({"moves": 1}, "older than what is known"),
    ],
)
def test_a_notice_that_is_forged_or_old_leads_nowhere(
    old: ApiWorld, new: ApiWorld, changed: dict[str, object], says: str
) -> None:
    keyring.save_number(old.home / "home-ann/clusters/local/client", (0, 2))
    before = known_url(old)
    old.app.moved = notice(url(new), **{"moves": 3, **changed})  # type: ignore[arg-type]
    with pytest.raises(UnreachableError, match=says):
        old.client(timeout=0.3).jobs()
    assert known_url(old) == before


def test_what_is_no_notice_leads_nowhere(old: ApiWorld) -> None:
    for text in ("http://10.0.0.1:7470", "grass-notice1.", "grass-notice1.a.b.c", notice("http://a:1")[:-5], "\xff"):
        old.app.moved = text
        with pytest.raises(UnreachableError, match="another server answers instead"):
            old.client(timeout=0.2).jobs()


def test_two_old_masters_that_name_each_other_do_not_hold_a_client(old: ApiWorld, new: ApiWorld) -> None:
    old.app.moved, new.app.moved = notice(url(new)), notice(url(old))
    with pytest.raises(UnreachableError, match="one old master leads to the next"):
        old.client(timeout=0.3).jobs()


def test_a_client_of_a_tunnel_is_told_where_the_cluster_is(old: ApiWorld, new: ApiWorld) -> None:
    old.app.moved = notice(url(new))
    client = old.client(timeout=0.2)
    transport = client._transport
    transport._profile = replace(transport._profile, tunnel={})
    with pytest.raises(UnreachableError, match=f"moved to {url(new)}, and only SSH leads there: log in again"):
        client.jobs()


def test_the_number_of_a_master_grows_with_each_move_and_each_term(new: ApiWorld) -> None:
    def number() -> tuple[int, int]:
        return open_notice(ask_notice(url(new)), KEY, "local").number

    assert number() == (0, 0)
    count_move(new.config.master_dir)
    assert number() == (0, 1)
    count_move(new.config.master_dir)
    (Path(new.config.home) / TERM).write_text("4\n")  # as a restore and a failover leave it
    assert number() == (4, 2)
    text = new.client().notice()
    assert open_notice(text, KEY, "local", (4, 2)).number == (4, 2)
    with pytest.raises(OldNoticeError):
        open_notice(text, KEY, "local", (4, 3))
    with pytest.raises(ForgedNoticeError):
        open_notice(text, public_jwk("ann")["kid"], "local")
    with pytest.raises(InputError, match="damaged"):
        open_notice(text.replace(text[300], "A" if text[300] != "A" else "B"), KEY, "local")


def test_a_node_asks_the_addresses_that_it_knows_and_takes_the_latest_notice_that_its_cluster_signed(
    old: ApiWorld, new: ApiWorld
) -> None:
    known = Pinned.of(Own(urls=[url(old)], others=["http://127.0.0.1:1"], key=KEY))
    count_move(new.config.master_dir)
    old.app.moved = notice(url(new))
    assert newest(known, "local")[0].urls == (url(new),)
    assert newest(structs.replace(known, number=(0, 1)), "local")[0].number == (0, 1)
    with pytest.raises(UnreachableError, match="older than what is known here"):
        newest(structs.replace(known, number=(1, 0)), "local")  # it joined a later master, of another term
    for forged in (notice(url(new), key="ann"), notice(url(new), cluster="other"), "grass-notice1.x"):
        old.app.moved = forged
        with pytest.raises(UnreachableError, match="`grass node follow FILE` here"):
            newest(known, "local")
    known = structs.replace(known, others=(url(new),))
    assert newest(known, "local")[0].urls == (url(new),), "the standby that it knows became the master"


def test_a_node_hears_only_of_a_later_master_that_its_cluster_signed(
    old: ApiWorld, new: ApiWorld, tmp_path: Path
) -> None:
    known, heard = Pinned(key=KEY, urls=(url(old),), number=(0, 1)), tmp_path / "heard-notice"
    count_move(new.config.master_dir)
    assert not hear("local", known, heard), "the master is where it was"
    for other in (
        notice(url(new), moves=2, key="ann"),
        notice(url(new), moves=2, cluster="other"),
        notice(url(new), moves=0),
        notice(url(new), moves=1),
        "grass-notice1.x",
    ):
        old.app.moved = other
        assert not hear("local", known, heard) and not heard.exists()
    aim = tmp_path / "aim"
    heard.symlink_to(aim)
    old.app.moved = notice(url(new), moves=2)
    assert hear("local", known, heard)
    assert heard.read_text() == old.app.moved and not aim.exists()


@pytest.mark.needs_redis
def test_a_master_whose_redis_refuses_it_sends_clients_to_the_standby(tmp_path: Path, new: ApiWorld) -> None:
    redis = RedisServer(find_server(), "grass:local:")
    redis.start()
    home = tmp_path / "fenced"
    config = replace(write_cluster(home, 1, {"ann": "user"}), standby=StandbyConfig("10.0.0.2", "", url(new)))
    try:
        with (
            closing(redis.backend("api")) as backend,
            closing(redis.backend("admin")) as admin,
            Redis(unix_socket_path=str(redis.socket), username="admin", password=redis.passwords["admin"]) as raw,
        ):
            app = create_app(config, ApiStore(backend, Keys("grass:local:")))
            with serving(app) as port:
                own = write_client(home, "ann", f"http://127.0.0.1:{port}")
                folder = own / "clusters/local/client"
                here = keyring.load_profile(folder)
                with closing(Client("local", home=own, timeout=0.3)) as client:
                    client.jobs()
                    keyring.save_other(folder, replace(here, url="http://127.0.0.1:1"))
                    least = "min-replicas-to-write"
                    raw.config_set(least, 1)
                    with pytest.raises(StoreRefusesError):  # it lives: nobody looks for it elsewhere
                        client.start({"name": "j", "components": {"w": {"command": "true"}}})
                    raw.config_set(least, 0)
                    admin.delete_users(["api"])
                    keyring.save_other(folder, replace(here, url=url(new)))
                    assert client.jobs() == [], "it answers that it is away, so the other address is tried"
                    assert keyring.load_profile(folder).url == url(new)
                keyring.save_other(folder, None)
                keyring.save_profile(folder, here, public_jwk("master"))
                (Path(config.home) / TERM).write_text("5\n")
                assert not found_notice(api_of(app), url(new)), "that one is no later master than this one"
                (Path(config.home) / TERM).unlink()
                stop = watch_fence(app, api_of(app), 0.05)
                wait_until(lambda: bool(app.moved), 10, "the notice of the new master")
                with closing(Client("local", home=own, timeout=0.3)) as client:
                    assert client.jobs() == [], "it says where the master is"
                assert keyring.load_profile(folder).url == url(new)
                stop.set()
    finally:
        redis.remove()
