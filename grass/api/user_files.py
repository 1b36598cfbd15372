"""The registered users: one private file per user in ``master/users``. Written by `grass create` and the API server.

Files and not the store: users survive the loss of the store, as the master's key does. All processes of a master see
a change at once, because ``Users`` of the API server watches the folder. Changes take a lock, so that two
administrators cannot remove each other as the last one.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from grass.api.keyring import Jwk, Role, public_key
from grass.config import ClusterConfig
from grass.errors import ConflictError, InputError, NotAllowedError, NotFoundError, UndecodableError
from grass.files.key import accept, check_files_key, fingerprint
from grass.files.rights import SHARED
from grass.model.names import is_user_name
from grass.network_address import network_address
from grass.system.exclusive import exclusive
from grass.system.private_file import write_private
from grass.wire.codec import Form, indented

if TYPE_CHECKING:
    from joserfc.jwk import RSAKey

_AGAIN = "an administrator makes another with `grass user rotate`"


class LoginOffer(msgspec.Struct, frozen=True):
    """An invitation that the user did not use yet, or used last. ``digest``: SHA-256 of its secret."""

    digest: str
    expires: float
    """Wall seconds of the master."""
    used_by: str = ""
    """Key id that it registered. The same key may be sent again: the reply may have been lost."""


class UserRecord(msgspec.Struct, frozen=True):
    """One file. ``key``: public, as a JWK; None until the user's first login."""

    user: str
    role: Role
    key: Jwk | None = None
    disabled: bool = False
    invitation: LoginOffer | None = None
    created: float = 0.0
    by: str = ""
    files_key: str = ""
    """Public key for files over SSH, as ``ssh-ed25519 BASE64``; empty: none yet."""


USER_RECORD: Form[UserRecord] = Form(UserRecord)


@dataclass(frozen=True)
class User:
    """A user who has a key, which verifies the user's requests."""

    name: str
    role: Role
    key: RSAKey
    disabled: bool = False


def check_user_name(user: str) -> None:
    """Raise InputError unless this may be the name of a user."""
    if not is_user_name(user):
        raise InputError(
            f"user name {user!r}: must be 1 to 63 letters, digits, '_', '.' or '-', and must not start with '.' or '-'"
        )


def register_user(master_dir: Path, user: str, role: Role | str, jwk: Jwk, files_key: str = "") -> None:
    """Register ``user`` with these public keys. A user has one of each: registering again replaces keys and role.

    Raises InputError (bad name, or a key that is not a public RSA key of at least 3072 bits), ConflictError (another
    user's key).
    """
    check_user_name(user)
    with _changing(master_dir):
        files = _free_files_key(master_dir, user, files_key)
        _write(master_dir, UserRecord(user, Role(role), _free_key(master_dir, user, jwk), files_key=files))


def records(master_dir: Path, damaged: Callable[[InputError], None] | None = None) -> list[UserRecord]:
    """Return all users, by name. Raises InputError for a damaged file, so that no user is missing silently.

    With ``damaged``: it is called with each such error, and the other users are returned.
    """
    found = []
    for path in sorted((master_dir / "users").glob("*.json")):
        try:
            found.append(_read(path))
        except InputError as error:
            if damaged is None:
                raise
            damaged(error)
    return found


def load_users(master_dir: Path, damaged: Callable[[InputError], None] | None = None) -> dict[str, User]:
    """Return key id → user, of all users who have a key. Raises as ``records``."""
    users = {}
    for record in records(master_dir, damaged):
        if record.key is not None:
            key = public_key(record.key)
            users[key.thumbprint()] = User(record.user, record.role, key, record.disabled)
    return users


def invite(master_dir: Path, record: UserRecord) -> None:
    """Add a user without a key. Raises InputError for a bad name, ConflictError for a user who exists."""
    check_user_name(record.user)
    if record.user == SHARED:
        raise InputError(f"user name {SHARED!r}: is the name of the folder of all users, data/{SHARED}; choose another")
    with _changing(master_dir):
        if _path(master_dir, record.user).exists():
            raise ConflictError(
                f"user {record.user}: exists already; `grass user rotate {record.user}` makes a new invitation"
            )
        _write(master_dir, record)


def change_user(master_dir: Path, user: str, **values: Any) -> UserRecord:
    """Change fields of a user. Raises NotFoundError; ConflictError if no active administrator would be left."""
    with _changing(master_dir):
        changed = replace(find_user(master_dir, user), **values)
        _keep_an_admin(master_dir, user, changed)
        _write(master_dir, changed)
        return changed


def remove_user(master_dir: Path, user: str) -> None:
    """Remove a user. Raises as ``change_user``."""
    with _changing(master_dir):
        find_user(master_dir, user)
        _keep_an_admin(master_dir, user, None)
        _path(master_dir, user).unlink()


def enrol(master_dir: Path, user: str, digest: str, jwk: Jwk, now: float, files_key: str = "") -> UserRecord:
    """Use an invitation: register the user's public keys. May be repeated with the same keys.

    Raises NotAllowedError (unknown, used or expired), InputError and ConflictError as ``register_user``.
    """
    check_user_name(user)
    with _changing(master_dir):
        try:
            record = find_user(master_dir, user)
        except NotFoundError:
            record = UserRecord(user, Role.VIEWER)
        offer = record.invitation
        if offer is None or not compare_digest(offer.digest, digest):
            raise NotAllowedError(f"user {user}: this cluster does not know this invitation; {_AGAIN}")
        key = _free_key(master_dir, user, jwk)  # after the secret: its error names another user
        if offer.used_by and offer.used_by != key["kid"]:
            raise NotAllowedError(f"user {user}: this invitation was used already; {_AGAIN}")
        if offer.expires <= now:
            raise NotAllowedError(f"user {user}: this invitation has expired; {_AGAIN}")
        if record.disabled:
            raise NotAllowedError(f"user {user}: disabled by an administrator")
        files = _free_files_key(master_dir, user, files_key)
        enrolled = replace(record, key=key, invitation=replace(offer, used_by=key["kid"]), files_key=files)
        _write(master_dir, enrolled)
        return enrolled


def replace_key(master_dir: Path, user: str, jwk: Jwk, files_key: str = "") -> UserRecord:
    """Replace a user's keys by new ones of the same user. Raises InputError and ConflictError as ``register_user``."""
    with _changing(master_dir):
        files = _free_files_key(master_dir, user, files_key)
        key = _free_key(master_dir, user, jwk)
        changed = replace(find_user(master_dir, user), key=key, invitation=None, files_key=files)
        _write(master_dir, changed)
        return changed


def find_user(master_dir: Path, user: str) -> UserRecord:
    """Return the user's record. Raises NotFoundError, InputError (bad name or damaged file)."""
    check_user_name(user)
    return _read(_path(master_dir, user))


def files_record(master_dir: Path, user: str) -> UserRecord:
    """Return the user's record as ``find_user``, but do not check the key of the API, which takes long to load."""
    check_user_name(user)
    try:
        return USER_RECORD.decode(_path(master_dir, user).read_bytes())
    except FileNotFoundError:
        raise NotFoundError(f"user {user}: not found; `grass user list` lists all users") from None
    except UndecodableError as error:
        raise InputError(f"{_path(master_dir, user)} is damaged: {error}") from error


def accept_files_keys(config: ClusterConfig) -> None:
    """Let sshd on this machine accept the files keys of all active users and the key of the standby, and no others.
    Raises OSError."""
    if config.files is None:
        return
    program = config.files.python
    lines = []
    for record in records(config.master_dir, lambda _: None):
        if record.files_key and not record.disabled:
            words = [program, "-I", "-m", "grass.provision.files_command", str(config.path), record.user]
            command = shlex.join([*words, fingerprint(record.files_key)])
            lines.append(f'restrict,command="{command}" {record.files_key}')
    if config.standby is not None:
        command = shlex.join([program, "-I", "-m", "grass.provision.standby_command", str(config.path)])
        way = network_address(config.redis.host or "", config.redis.port or 0)
        lines.append(f'restrict,port-forwarding,permitopen="{way}",command="{command}" {config.standby.key}')
    accept(Path(config.files.authorized_keys), config.name, lines)


def _free_files_key(master_dir: Path, user: str, line: str) -> str:
    """Return the files key in its one form, or empty if none is given. Raises ConflictError if it is another user's.

    sshd uses the first line with a key, and would take the one user for the other.
    """
    if not line:
        return ""
    key = check_files_key(line)
    for other in records(master_dir, lambda _: None):
        if other.user != user and other.files_key == key:
            raise ConflictError(f"user {user}: this files key already belongs to user {other.user}")
    return key


def _free_key(master_dir: Path, user: str, jwk: Jwk) -> Jwk:
    """Return the public key in its one form. Raises ConflictError if it is another user's."""
    key = public_key(jwk)
    key_id = key.thumbprint()
    for other in records(master_dir):
        if other.user != user and other.key is not None and public_key(other.key).thumbprint() == key_id:
            raise ConflictError(f"user {user}: this key already belongs to user {other.user}")
    return dict(key.as_dict(private=False, kid=key_id))


def _keep_an_admin(master_dir: Path, user: str, changed: UserRecord | None) -> None:
    """Raise ConflictError if this change takes the rights of the last administrator who can sign in."""
    before = [record for record in records(master_dir) if _rules(record)]
    after = [record for record in before if record.user != user]
    if changed is not None and _rules(changed):
        return
    if not after and before:
        raise ConflictError(f"user {user}: is the last active administrator; give another user the role admin first")


def _rules(record: UserRecord) -> bool:
    return record.role is Role.ADMIN and not record.disabled and record.key is not None


@contextmanager
def _changing(master_dir: Path) -> Iterator[None]:
    """Let one process at a time change users."""
    (master_dir / "users").mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(master_dir / "users.lock"):
        yield


def _path(master_dir: Path, user: str) -> Path:
    return master_dir / "users" / f"{user}.json"


def _read(path: Path) -> UserRecord:
    try:
        record = USER_RECORD.decode(path.read_bytes())
        if record.key is not None:
            public_key(record.key)
        return record
    except FileNotFoundError:
        raise NotFoundError(f"user {path.stem}: not found; `grass user list` lists all users") from None
    except (UndecodableError, InputError) as error:
        raise InputError(f"{path}: not a registered user ({error})") from error


def _write(master_dir: Path, record: UserRecord) -> None:
    write_private(_path(master_dir, record.user), indented(record))
