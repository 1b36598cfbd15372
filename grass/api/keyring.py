"""RSA keys on disk: created by `grass create`, loaded by the client and by the master-api-server.

A user's private key is created on the user's machine and never leaves it. The master gets the public key as a JWK. A
key's id is its RFC 7638 thumbprint. Folders have mode 0700 and private files 0600 from their creation on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from grass.errors import ConflictError, InputError, NotFoundError
from grass.private_file import write_private

if TYPE_CHECKING:
    from joserfc.jwk import RSAKey

KEY_BITS = 3072
Jwk = dict[str, Any]  # Any: JSON whose form is RFC 7517's; joserfc checks it

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


class Role(str, Enum):
    ADMIN = "admin"
    USER = "user"
    """Own jobs and schedules only."""
    VIEWER = "viewer"
    """Reads everything, changes nothing."""


@dataclass(frozen=True)
class Profile:
    """The file ``client/profile.json``: where a cluster is, and who this user is there."""

    cluster: str
    url: str
    user: str
    key_id: str
    tunnel: dict[str, Any] | None = None  # Any: JSON, read once, in grass.api.tunnel
    """``{address, username, port, key, known_hosts}`` if only SSH reaches the master. ``url`` is then as seen there."""


@dataclass(frozen=True)
class ClientKeys:
    """Profile and keys of a client. The keys are read only when a session must be opened."""

    profile: Profile
    folder: Path

    def private(self) -> RSAKey:
        """Load the private key. Raises NotFoundError for a missing file, InputError for a damaged one."""
        return _private_key(self.folder / "user.pem")

    def master(self) -> RSAKey:
        """Load the master's pinned public key. Raises as ``private`` does."""
        with _damaged(self.folder / "master.pub.json") as path:
            return _public_key(json.loads(_read(path)))


@dataclass(frozen=True)
class User:
    """A registered user with the public key that verifies the user's requests."""

    name: str
    role: Role
    key: RSAKey


def create_master_key(master_dir: Path) -> Jwk:
    """Write ``key.pem`` and return the public half."""
    return _create_key(master_dir / "key.pem")


def create_user_key(client_dir: Path) -> Jwk:
    """Write ``user.pem`` and return the public half, which an administrator registers."""
    return _create_key(client_dir / "user.pem")


def user_key(client_dir: Path) -> Jwk:
    """Return the public half of ``user.pem``; create the file if it does not exist."""
    if not (client_dir / "user.pem").exists():
        return create_user_key(client_dir)
    return _public_half(_private_key(client_dir / "user.pem"))


def master_key(master_dir: Path) -> Jwk:
    """Return the public half of ``key.pem``. Raises NotFoundError for a missing file, InputError for a damaged one."""
    return _public_half(load_master_key(master_dir))


def save_profile(client_dir: Path, profile: Profile, master: Jwk) -> None:
    _folder(client_dir)
    write_private(client_dir / "profile.json", json.dumps(asdict(profile), indent=2) + "\n")
    write_private(client_dir / "master.pub.json", json.dumps(master, indent=2) + "\n")


def register_user(master_dir: Path, user: str, role: Role | str, jwk: Jwk) -> None:
    """Register ``user`` with this public key. A user has one key: registering again replaces key and role.

    Raises InputError (bad name, or a key that is not a public RSA key of at least 3072 bits), ConflictError (another
    user's key).
    """
    if not _USER.fullmatch(user):
        raise InputError(
            f"user name {user!r}: letters, digits, '_', '.' and '-', at most 63, not starting with '.' or '-'"
        )
    key = _public_key(jwk)
    key_id = key.thumbprint()
    users = master_dir / "users"
    for other in load_users(master_dir).values():
        if other.name != user and other.key.thumbprint() == key_id:
            raise ConflictError(f"user {user}: this key already belongs to user {other.name}")
    _folder(users)
    record = {"user": user, "role": Role(role).value, "key": key.as_dict(private=False, kid=key_id)}
    write_private(users / f"{user}.json", json.dumps(record, indent=2) + "\n")


def load_users(master_dir: Path, damaged: Callable[[InputError], None] | None = None) -> dict[str, User]:
    """Return key id → user. Raises InputError for a damaged file, so that no user is missing silently.

    With ``damaged``: it is called with each such error, and the other users are returned.
    """
    users = {}
    for path in sorted((master_dir / "users").glob("*.json")):
        try:
            record = json.loads(path.read_text())
            user = User(record["user"], Role(record["role"]), _public_key(record["key"]))
        except (ValueError, KeyError, TypeError) as error:
            found = InputError(f"{path}: not a registered user ({error})")
            if damaged is None:
                raise found from error
            damaged(found)
            continue
        users[user.key.thumbprint()] = user
    return users


def load_master_key(master_dir: Path) -> RSAKey:
    return _private_key(master_dir / "key.pem")


def load_profile(client_dir: Path) -> Profile:
    with _damaged(client_dir / "profile.json") as path:
        profile = Profile(**json.loads(_read(path)))
        if not all(isinstance(value, str) for value in (profile.cluster, profile.url, profile.user, profile.key_id)):
            raise TypeError("cluster, url, user and key_id must be text")
        return profile


def load_client(client_dir: Path) -> ClientKeys:
    """Load profile and keys. Raises NotFoundError for a missing profile, InputError for a damaged one."""
    return ClientKeys(load_profile(client_dir), client_dir)


def _create_key(path: Path) -> Jwk:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from joserfc.jwk import RSAKey

    raw = generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    _folder(path.parent)
    pem = raw.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(path, pem.decode())
    return _public_half(RSAKey(raw.public_key(), raw.public_key()))


def _public_half(key: RSAKey) -> Jwk:
    return cast(Jwk, key.as_dict(private=False, kid=key.thumbprint()))


def _private_key(path: Path) -> RSAKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from joserfc.jwk import RSAKey

    # Validation of the primes takes 95 ms, half the time of a CLI call. Grass wrote this file itself.
    with _damaged(path):
        raw = load_pem_private_key(_read(path).encode(), None, unsafe_skip_rsa_key_validation=True)
        if not isinstance(raw, RSAPrivateKey):
            raise ValueError("not an RSA key")
    return RSAKey(raw, raw)


def _public_key(jwk: Jwk) -> RSAKey:
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey

    try:
        key: RSAKey = RSAKey.import_key({"kty": jwk["kty"], "n": jwk["n"], "e": jwk["e"]})
    except (JoseError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"not a public RSA key in JWK form: {error}") from error
    if jwk["kty"] != "RSA" or key.public_key.key_size < KEY_BITS:
        raise InputError(f"an RSA key of at least {KEY_BITS} bits is needed")
    return key


@contextmanager
def _damaged(path: Path) -> Iterator[Path]:
    """Add the file's name to errors about its content."""
    try:
        yield path
    except (InputError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged: {error}") from error


def _folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        raise NotFoundError(f"{path} does not exist; `grass create` makes it") from None
