"""RSA keys on disk: created by `grass create`, loaded by the client and by the master-api-server.

A user's private key is created on the user's machine and never leaves it. The master gets the public key as a JWK. A
key's id is its RFC 7638 thumbprint. Folders have mode 0700 and private files 0600 from their creation on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from grass.errors import InputError, NotFoundError
from grass.system.private_file import write_private

if TYPE_CHECKING:
    from joserfc.jwk import RSAKey

KEY_BITS = 3072
OTHER = "other_profile.json"
"""The profile with which the API is reached at the standby, or where it was before a failover."""
_NUMBER = "notice.json"
Jwk = dict[str, Any]  # Any: JSON whose form is RFC 7517's; joserfc checks it


class Role(str, Enum):
    """What a user may do: everything, start and change own jobs, or look."""

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
    tunnel: dict[str, Any] | None = None  # Any: JSON that grass.api.tunnel or pod_tunnel reads and checks
    """``{address, username, port, key, known_hosts}`` if only SSH reaches the master, or the fields of a ``PodWay`` if
    only the API server of Kubernetes does. ``url`` is then as seen there."""


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
            return public_key(json.loads(_read(path)))


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


def save_other(client_dir: Path, other: Profile | None) -> None:
    """Note how the API is reached when it is not where the profile says. None: there is no standby any more."""
    if other is None:
        (client_dir / OTHER).unlink(missing_ok=True)
    else:
        write_private(client_dir / OTHER, json.dumps(asdict(other), indent=2) + "\n")


def load_other(client_dir: Path) -> Profile | None:
    """Return what ``save_other`` noted. Raises InputError if it is damaged."""
    try:
        text = (client_dir / OTHER).read_text()
    except OSError:
        return None
    with _damaged(client_dir / OTHER):
        return Profile(**json.loads(text))


def note_other_url(client_dir: Path, url: str) -> None:
    """Note where the cluster says that its standby's API would be; empty: it has none."""
    before = load_other(client_dir)
    if url != (before.url if before is not None else ""):
        save_other(client_dir, replace(load_profile(client_dir), url=url, tunnel=None) if url else None)


def exchange(client_dir: Path, found: Profile) -> None:
    """Note that the API was found there."""
    save_other(client_dir, load_profile(client_dir))
    write_private(client_dir / "profile.json", json.dumps(asdict(found), indent=2) + "\n")


def save_number(client_dir: Path, number: tuple[int, int]) -> None:
    """Note the number of the last notice that was followed. An older one is not followed any more."""
    write_private(client_dir / _NUMBER, json.dumps(number) + "\n")


def load_number(client_dir: Path) -> tuple[int, int] | None:
    """Return what ``save_number`` noted. Raises InputError if it is damaged."""
    try:
        text = (client_dir / _NUMBER).read_text()
    except OSError:
        return None
    with _damaged(client_dir / _NUMBER):
        term, moves = json.loads(text)
        return int(term), int(moves)


def load_master_key(master_dir: Path) -> RSAKey:
    """Return the key by which the master opens requests. Raises NotFoundError, InputError if it is damaged."""
    return _private_key(master_dir / "key.pem")


def load_profile(client_dir: Path) -> Profile:
    """Return the profile of a user on this machine. Raises NotFoundError, InputError if it is damaged."""
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


def public_key(jwk: Jwk) -> RSAKey:
    """Return the key. Raises InputError unless it is a public RSA key of at least ``KEY_BITS``."""
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
