from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from grass.api import keyring, user_files
from grass.api.keyring import Profile, Role
from grass.errors import ConflictError, InputError, NotFoundError
from tests.support.rsa_keys import public_jwk, write_key


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_pair_is_private_and_named_by_its_thumbprint(tmp_path: Path) -> None:
    jwk = keyring.create_user_key(tmp_path / "client")
    assert mode(tmp_path / "client" / "user.pem") == 0o600
    assert mode(tmp_path / "client") == 0o700
    assert jwk.keys() == {"kty", "n", "e", "kid"}
    keyring.save_profile(tmp_path / "client", Profile("local", "http://h:1", "ann", jwk["kid"]), public_jwk("master"))
    keys = keyring.load_client(tmp_path / "client")
    assert keys.private().thumbprint() == jwk["kid"] == keys.profile.key_id
    private = keys.private().private_key
    assert private is not None and private.key_size == 3072


def test_the_master_key_is_private(tmp_path: Path) -> None:
    jwk = keyring.create_master_key(tmp_path / "master")
    assert mode(tmp_path / "master" / "key.pem") == 0o600
    assert keyring.load_master_key(tmp_path / "master").thumbprint() == jwk["kid"]


def test_a_registered_user_is_found_by_key_id(tmp_path: Path) -> None:
    user_files.register_user(tmp_path, "ann", "user", public_jwk("ann"))
    user = user_files.load_users(tmp_path)[public_jwk("ann")["kid"]]
    assert (user.name, user.role) == ("ann", Role.USER)
    assert mode(tmp_path / "users" / "ann.json") == 0o600


def test_registering_again_replaces_role_and_key(tmp_path: Path) -> None:
    user_files.register_user(tmp_path, "ann", Role.USER, public_jwk("ann"))
    user_files.register_user(tmp_path, "ann", Role.ADMIN, public_jwk("bob"))
    [(key_id, user)] = user_files.load_users(tmp_path).items()
    assert (key_id, user.role) == (public_jwk("bob")["kid"], Role.ADMIN)


def test_one_key_cannot_belong_to_two_users(tmp_path: Path) -> None:
    user_files.register_user(tmp_path, "ann", Role.USER, public_jwk("ann"))
    with pytest.raises(ConflictError, match="already belongs to user ann"):
        user_files.register_user(tmp_path, "bob", Role.USER, public_jwk("ann"))


def test_a_removed_user_is_gone(tmp_path: Path) -> None:
    user_files.register_user(tmp_path, "ann", Role.USER, public_jwk("ann"))
    (tmp_path / "users" / "ann.json").unlink()
    assert user_files.load_users(tmp_path) == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", ".hidden", "a b", "x" * 64, "ann\n"])
def test_a_user_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="user name"):
        user_files.register_user(tmp_path, name, Role.USER, public_jwk("ann"))
    assert not (tmp_path / "users").exists()


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
    ],
)
def test_only_a_long_rsa_key_is_registered(tmp_path: Path, jwk: dict[str, str]) -> None:
    with pytest.raises(InputError):
        user_files.register_user(tmp_path, "ann", Role.USER, jwk)


def test_a_private_key_given_by_mistake_is_not_kept(tmp_path: Path) -> None:
    write_key(tmp_path / "user.pem", "ann")
    private = keyring._private_key(tmp_path / "user.pem").as_dict(private=True)
    user_files.register_user(tmp_path, "ann", Role.USER, dict(private))
    stored = json.loads((tmp_path / "users" / "ann.json").read_text())
    assert stored["key"].keys() == {"kty", "n", "e", "kid"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("profile.json", b""),
        ("profile.json", b"[]"),
        ("profile.json", b'{"cluster": "local"}'),
        ("profile.json", b'{"cluster": "local", "url": null, "user": "ann", "key_id": "x"}'),
        ("profile.json", b"\xff\xfe"),
        ("user.pem", b""),
        ("user.pem", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        ("user.pem", b"\xff\xfe"),
        ("master.pub.json", b"{}"),
        ("master.pub.json", b"null"),
        ("master.pub.json", b"{"),
    ],
)
def test_a_damaged_file_of_a_client_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    keyring.create_user_key(tmp_path)
    keyring.save_profile(tmp_path, Profile("local", "http://h:1", "ann", "x"), public_jwk("master"))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is damaged: .+"):
        keys = keyring.load_client(tmp_path)
        keys.private(), keys.master()


def test_missing_keys_say_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="grass create"):
        keyring.load_client(tmp_path)
