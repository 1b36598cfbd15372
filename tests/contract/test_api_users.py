"""Users over a real socket: invitations, roles, disabling and keys, as `grass user` and `grass login` use them."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from grass.api import user_files
from grass.api.client import Client
from grass.api.keyring import create_user_key, load_profile, save_profile
from grass.api.login import log_in, rotate_key
from grass.api.login_invitation import parse_invitation
from grass.config import FilesConfig
from grass.errors import ConflictError, GrassError, InputError, NotAllowedError, NotFoundError
from grass.files.access import FilesAccess, SshShare, access_in
from grass.files.key import FILES_KEY, files_key, fingerprint, marker
from grass.model.event_kind import EventKind
from grass.store.node_store import NodeStore
from grass.wire.codec import Form
from grass.wire.image_views import ImageView
from grass.wire.tickets import StopJob, StopSchedule, Ticket
from master.api.app import api_of
from tests.support.api_world import ApiWorld, api_world
from tests.support.rsa_keys import public_jwk, write_key
from tests.support.waiting import wait_until

JOB = {"name": "work", "components": {"main": {"command": "true"}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ApiWorld]:
    with api_world(tmp_path) as world:
        config = api_of(world.app).config
        object.__setattr__(config, "master", replace(config.master, api_port=world.port))  # invitations name it
        yield world


@pytest.fixture
def root(world: ApiWorld) -> Client:
    return world.client("root")


def signed_in(world: ApiWorld, user: str, text: str, *, own_key: bool = False) -> Client:
    """Log in. ``own_key``: with a key that the login makes, which takes long, as a person's does."""
    home = world.home / f"home-{user}"
    if not own_key:
        write_key(home / "clusters" / "local" / "client" / "user.pem", f"invited-{user}")
    log_in(parse_invitation(text), home / "clusters" / "local")
    return world.client(user)


def test_an_invited_user_makes_a_key_and_works_with_the_role_that_was_given(world: ApiWorld, root: Client) -> None:
    made = root.add_user("vera", "viewer")
    assert root.users()[-1].state == "invited"
    vera = signed_in(world, "vera", made.invitation, own_key=True)
    assert vera.status().role == "viewer"
    with pytest.raises(NotAllowedError, match="needs role user"):
        vera.start(JOB)
    root.set_user_role("vera", "user")
    vera.start(JOB)
    assert root.users()[-1].state == "active"


def test_an_invitation_is_good_once(world: ApiWorld, root: Client) -> None:
    made = root.add_user("vera")
    signed_in(world, "vera", made.invitation)
    thief = world.home / "thief" / "clusters" / "local"
    with pytest.raises(NotAllowedError, match="was used already"):
        log_in(parse_invitation(made.invitation), thief)
    assert not thief.exists()


def test_a_replaced_or_forged_invitation_is_refused(world: ApiWorld, root: Client) -> None:
    old = root.add_user("vera").invitation
    root.rotate_user("vera")
    with pytest.raises(NotAllowedError, match="does not know this invitation"):
        signed_in(world, "vera", old)
    forged = replace(parse_invitation(old), user="root", secret="guess")
    with pytest.raises(NotAllowedError, match="does not know this invitation"):
        log_in(forged, world.home / "forger" / "clusters" / "local")


def test_who_was_refused_before_a_restart_of_the_api_is_refused_after_it(world: ApiWorld, root: Client) -> None:
    used, replaced = root.add_user("vera").invitation, root.add_user("carl").invitation
    vera = signed_in(world, "vera", used)
    root.rotate_user("carl")
    root.join_token()
    root.revoke_join_token(root.join_tokens()[0].id)
    root.disable_user("vera")
    world.stop()
    world.serve()
    with pytest.raises(NotAllowedError):
        vera.jobs()
    for invitation in (used, replaced):
        with pytest.raises(NotAllowedError):
            log_in(parse_invitation(invitation), world.home / "thief" / "clusters" / "local")
    assert [row.state for row in root.join_tokens()] == ["revoked"]


def test_a_rotated_key_replaces_the_old_one(world: ApiWorld, root: Client) -> None:
    made = root.add_user("vera")
    vera = signed_in(world, "vera", made.invitation)
    home = world.home / "home-vera" / "clusters" / "local"
    kept = world.home / "home-old" / "clusters" / "local"
    shutil.copytree(home, kept)
    rotate_key(home)
    assert world.client("vera").status().user == "vera"
    for old in (vera, world.client("old")):
        with pytest.raises(GrassError):
            old.status()
    assert not (home / "client" / "rotating").exists()


def test_a_rotation_whose_reply_was_lost_is_finished_by_the_next(world: ApiWorld) -> None:
    home = world.home / "home-ann" / "clusters" / "local"
    draft = home / "client" / "rotating"
    jwk = create_user_key(draft)
    user_files.replace_key(world.config.master_dir, "ann", jwk)  # the master took it, and the client never knew
    profile = load_profile(home / "client")
    save_profile(draft, type(profile)(profile.cluster, profile.url, "ann", jwk["kid"]), public_jwk("master"))
    rotate_key(home)
    assert load_profile(home / "client").key_id == jwk["kid"]
    assert world.client("ann").status().user == "ann"


def test_a_login_registers_a_key_for_files_that_ends_with_the_user(world: ApiWorld, root: Client) -> None:
    lines = world.home / "authorized_keys"
    files = FilesConfig("10.0.0.1", 2222, "ssh-ed25519 AAAA", "grass", str(lines), "/opt/python")
    object.__setattr__(api_of(world.app).config, "files", files)
    signed_in(world, "vera", root.add_user("vera").invitation)
    folder = world.home / "home-vera" / "clusters" / "local"
    client = folder / "client"
    access = access_in(folder)
    assert isinstance(access, SshShare)
    assert access.access == FilesAccess("10.0.0.1", 2222, "grass", str(client / FILES_KEY), str(client / "known_hosts"))
    assert (client / "known_hosts").read_text() == "[10.0.0.1]:2222 ssh-ed25519 AAAA\n"
    first = files_key(client)
    [line] = lines.read_text().splitlines()
    assert line.startswith('restrict,command="/opt/python -I -m grass.provision.files_command ')
    assert line.endswith(f' vera {fingerprint(first)}" {first} {marker("local")}')
    rotate_key(folder)
    second = files_key(client)
    assert second != first and first not in lines.read_text() and second in lines.read_text()
    with pytest.raises(ConflictError, match="this files key already belongs to user vera"):
        user_files.replace_key(world.config.master_dir, "ann", public_jwk("ann"), second)
    root.disable_user("vera")
    assert lines.read_text() == ""
    root.enable_user("vera")
    assert second in lines.read_text()
    root.remove_user("vera")
    assert lines.read_text() == ""


def test_no_user_has_the_name_of_the_folder_of_all(root: Client) -> None:
    with pytest.raises(InputError, match="is the name of the folder of all users, data/shared"):
        root.add_user("shared")


def test_a_disabled_user_is_refused_at_once_and_works_again_when_enabled(world: ApiWorld, root: Client) -> None:
    ann = world.client("ann")
    ann.start(JOB)
    root.disable_user("ann")
    for client in (ann, world.client("ann")):
        with pytest.raises(NotAllowedError, match="disabled by an administrator"):
            client.jobs()
    assert root.jobs()[0].name == "work"  # its jobs go on
    root.enable_user("ann")
    assert ann.jobs()[0].name == "work"


def test_the_open_stream_of_a_disabled_user_ends(world: ApiWorld, root: Client) -> None:
    stream = world.client("eve").events(follow=True)
    root.add_user("first")
    next(stream)
    ended = threading.Event()
    seen: list[str] = []

    def follow() -> None:
        try:
            seen.extend(event.message for event in stream)
        except NotAllowedError:
            ended.set()

    thread = threading.Thread(target=follow)
    thread.start()
    root.disable_user("eve")
    world.store.log_event(EventKind.EXEC, "root", "what eve must not see")
    thread.join(10)
    assert ended.is_set()
    assert "what eve must not see" not in seen


@pytest.mark.alone
def test_a_waiting_call_of_a_disabled_user_ends_within_a_second(world: ApiWorld, root: Client) -> None:
    world.backend.apply([("HSET", world.keys.nodes, "n1", '{"name": "n1", "state": "READY"}')])
    root.set_user_role("ann", "admin")
    ann = world.client("ann")
    seen = ann.watch_node("n1", None).mark
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(ann.watch_node, "n1", seen, 20.0)
        wait_until(lambda: api_of(world.app).waiting_slots.taken == 1, 5, "the call")
        disabled = time.monotonic()
        root.disable_user("ann")
        with pytest.raises(NotAllowedError, match="disabled"):
            waits.result(20)
        assert time.monotonic() - disabled < 1


def test_the_jobs_and_schedules_of_a_removed_user_end_on_request(world: ApiWorld, root: Client) -> None:
    started = world.client("ann").start(JOB).id
    world.client("bob").start({**JOB, "name": "of-bob"})
    gone = root.remove_user("ann", stop_jobs=True)
    assert gone.jobs_stopped == 1
    tickets = [
        Form[Ticket](Ticket).decode(fields["body"]) for _, fields in world.backend.stream(world.keys.tickets, "0", 99)
    ]
    assert [ticket for ticket in tickets if isinstance(ticket, StopJob | StopSchedule)] == [
        StopJob(started, "root", address="127.0.0.1")
    ]
    with pytest.raises(NotAllowedError):
        world.client("ann").status()


def test_every_change_is_an_event_with_who_and_from_where(world: ApiWorld, root: Client) -> None:
    signed_in(world, "vera", root.add_user("vera").invitation)
    root.set_user_role("vera", "admin")
    root.disable_user("vera")
    root.enable_user("vera")
    root.rotate_user("vera")
    root.remove_user("vera")
    kinds = ["added", "login", "role", "disabled", "enabled", "invited", "removed"]
    events = [event for event in root.events() if event.kind.startswith("user-")]
    assert [event.kind for event in events] == [f"user-{kind}" for kind in kinds]
    assert [event.user for event in events] == ["root", "vera", *["root"] * 5]
    assert {event.address for event in events} == {"127.0.0.1"}


@pytest.mark.parametrize("user", ["ann", "eve"])
def test_only_administrators_manage_users(world: ApiWorld, user: str) -> None:
    client = world.client(user)
    for attempt in (
        client.users,
        partial(client.add_user, "x"),
        partial(client.set_user_role, user, "admin"),
        partial(client.rotate_user, "root"),
        partial(client.remove_user, "root"),
        client.join_tokens,
    ):
        with pytest.raises(NotAllowedError):
            attempt()


@pytest.mark.parametrize("name", ["", "..", "../root", "a b", "-x", "x" * 64, "ann\n", "é"])
def test_an_odd_user_name_is_refused(root: Client, name: str) -> None:
    with pytest.raises((InputError, NotFoundError), match="name"):
        root.add_user(name)
    assert len(root.users()) == 4


def test_bad_input_changes_nothing(world: ApiWorld, root: Client) -> None:
    before = root.users()
    with pytest.raises(ConflictError, match="exists already"):
        root.add_user("ann")
    with pytest.raises(InputError, match="role"):
        root.add_user("vera", "king")
    with pytest.raises(InputError, match="expires"):
        root.add_user("vera", expires=-1.0)
    with pytest.raises(ConflictError, match="last active administrator"):
        root.disable_user("root")
    with pytest.raises(NotFoundError, match="user nobody: not found"):
        root.remove_user("nobody")
    assert root.users() == before


def test_after_a_restart_of_the_api_only_administrators_rule_and_the_last_one_stays(
    world: ApiWorld, root: Client
) -> None:
    root.set_user_role("ann", "admin")
    root.set_user_role("ann", "user")  # what ann was, she is no more
    world.stop()
    world.serve()
    for change in (root.disable_user, root.remove_user):
        with pytest.raises(ConflictError, match="last active administrator"):
            change("root")
    with pytest.raises(ConflictError, match="last active administrator"):
        root.set_user_role("root", "user")
    with pytest.raises(NotAllowedError):
        world.client("ann").disable_user("root")


def test_join_tokens_are_listed_and_revoked_without_their_secrets(world: ApiWorld, root: Client) -> None:
    made = root.join_token("n7", uses=1)
    [row] = root.join_tokens()
    assert (row.name, row.state, row.by) == ("n7", "valid", "root")
    assert made.token not in str(row)
    assert root.revoke_join_token(row.id).state == "revoked"
    assert root.join_tokens()[0].state == "revoked"
    with pytest.raises(NotFoundError, match="join token 123: not found"):
        root.revoke_join_token("123")


def test_join_tokens_of_a_disabled_administrator_are_revoked(world: ApiWorld, root: Client) -> None:
    root.set_user_role("ann", "admin")
    world.client("ann").join_token()
    root.disable_user("ann")
    assert [row.state for row in root.join_tokens()] == ["revoked"]


def test_an_image_belongs_to_the_user_who_pushed_it_first(world: ApiWorld, root: Client) -> None:
    ann, bob = world.client("ann"), world.client("bob")
    assert ann.sign_off_image("net", "a" * 64) == ImageView("net:latest", "a" * 64, "ann")
    ann.sign_off_image("net", "b" * 64)
    for attempt in (partial(bob.sign_off_image, "net:latest", "c" * 64), partial(bob.forget_image, "net")):
        with pytest.raises(NotAllowedError, match="belongs to ann"):
            attempt()
    node = NodeStore(world.backend, world.keys, "n1")
    assert (node.signed_off("net:latest"), node.signed_off("other:1")) == ("b" * 64, None)
    root.forget_image("net")
    assert node.signed_off("net:latest") is None
    with pytest.raises(NotFoundError, match="image net:latest: not found"):
        root.forget_image("net")


@pytest.mark.parametrize(
    ("name", "digest"), [("", "a" * 64), ("x" * 600, "a" * 64), ("a\nb", "a" * 64), ("net", "../../x")]
)
def test_a_digest_or_a_name_that_is_none_is_refused(root: Client, name: str, digest: str) -> None:
    with pytest.raises(InputError):
        root.sign_off_image(name, digest)
