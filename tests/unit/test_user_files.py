from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from grass.api import user_files
from grass.api.keyring import Role
from grass.api.login_invitation import LoginInvitation, parse_invitation
from grass.api.user_files import LoginOffer, UserRecord
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError
from tests.support.rsa_keys import public_jwk


def invited(folder: Path, user: str, expires: float = 100.0, role: Role = Role.USER) -> None:
    user_files.invite(folder, UserRecord(user, role, None, False, LoginOffer("digest", expires)))


def test_an_invitation_registers_one_key_and_may_be_repeated_with_it(tmp_path: Path) -> None:
    invited(tmp_path, "ann")
    for _ in range(2):
        user_files.enrol(tmp_path, "ann", "digest", public_jwk("ann"), 99.0)
    assert [user.name for user in user_files.load_users(tmp_path).values()] == ["ann"]
    with pytest.raises(NotAllowedError, match="was used already"):
        user_files.enrol(tmp_path, "ann", "digest", public_jwk("mallory"), 99.0)


@pytest.mark.parametrize(
    ("user", "digest", "now", "said"),
    [
        ("ann", "digest", 100.0, "has expired"),
        ("ann", "other", 1.0, "does not know this invitation"),
        ("bob", "digest", 1.0, "does not know this invitation"),
    ],
)
def test_an_invitation_is_refused(tmp_path: Path, user: str, digest: str, now: float, said: str) -> None:
    invited(tmp_path, "ann")
    with pytest.raises(NotAllowedError, match=said):
        user_files.enrol(tmp_path, user, digest, public_jwk("ann"), now)
    assert user_files.load_users(tmp_path) == {}


def test_an_invitation_of_a_disabled_user_is_refused(tmp_path: Path) -> None:
    invited(tmp_path, "ann")
    user_files.change_user(tmp_path, "ann", disabled=True)
    with pytest.raises(NotAllowedError, match="disabled"):
        user_files.enrol(tmp_path, "ann", "digest", public_jwk("ann"), 1.0)


def test_nobody_registers_the_key_of_another_user(tmp_path: Path) -> None:
    user_files.register_user(tmp_path, "ann", Role.USER, public_jwk("ann"))
    invited(tmp_path, "bob")
    with pytest.raises(ConflictError, match="already belongs to user ann"):
        user_files.enrol(tmp_path, "bob", "digest", public_jwk("ann"), 1.0)


def test_who_has_no_invitation_learns_of_no_key(tmp_path: Path) -> None:
    user_files.register_user(tmp_path, "ann", Role.ADMIN, public_jwk("ann"))
    with pytest.raises(NotAllowedError, match="does not know this invitation"):
        user_files.enrol(tmp_path, "mallory", "guess", public_jwk("ann"), 1.0)


def test_the_last_active_administrator_stays(tmp_path: Path) -> None:
    user_files.register_user(tmp_path, "root", Role.ADMIN, public_jwk("root"))
    invited(tmp_path, "ann", role=Role.ADMIN)  # has no key yet, so she cannot rule
    for change in ({"disabled": True}, {"role": Role.USER}):
        with pytest.raises(ConflictError, match="last active administrator"):
            user_files.change_user(tmp_path, "root", **change)
    with pytest.raises(ConflictError, match="last active administrator"):
        user_files.remove_user(tmp_path, "root")
    user_files.enrol(tmp_path, "ann", "digest", public_jwk("ann"), 1.0)
    user_files.remove_user(tmp_path, "root")
    assert [record.user for record in user_files.records(tmp_path)] == ["ann"]


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    record = {"user": "ann", "role": "viewer", "key": public_jwk("ann")}
    (tmp_path / "users" / "ann.json").write_text(json.dumps(record))
    [user] = user_files.load_users(tmp_path).values()
    assert (user.name, user.role, user.disabled) == ("ann", Role.VIEWER, False)


def test_an_unknown_user_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="user nobody: not found"):
        user_files.change_user(tmp_path, "nobody", disabled=True)


def test_an_invitation_survives_its_text() -> None:
    made = LoginInvitation("lab", "ann", ("http://10.0.0.1:51810",), "thumbprint", "secret")
    assert parse_invitation(made.text() + "\n") == made
    inside = replace(made, pod="/api/v1/namespaces/team/pods/grass-lab-0")
    assert parse_invitation(inside.text()) == inside
    with pytest.raises(InputError, match="damaged"):  # what it names is requested with the user's own rights
        parse_invitation(replace(made, pod="/api/v1/namespaces/team/pods/x/exec?command=sh").text())
    assert "secret" not in repr(made)


@pytest.mark.parametrize("text", ["", "grass1.e30", "grass-login1.", "grass-login1.e30", "grass-login1.é", "x" * 9000])
def test_a_damaged_invitation_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_invitation(text)
    assert not text or text not in str(refused.value)
