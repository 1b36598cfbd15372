"""RSA key pairs for tests, by name. Made once on this machine and kept in ``.pytest_cache``: a pair takes 0.2 s of CPU.

A test about the making of keys calls ``grass.api.keyring`` instead.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from joserfc.jwk import RSAKey

from grass.api.keyring import KEY_BITS

_FOLDER = Path(__file__).parents[2] / ".pytest_cache" / "keys"


@cache
def raw_key(name: str) -> RSAPrivateKey:
    """Return the pair called ``name``: the same one in every process and run."""
    kept = _FOLDER / f"{KEY_BITS}-{name}.pem"
    try:
        pem = kept.read_bytes()
    except FileNotFoundError:
        pem = _keep(kept, _pem(generate_private_key(public_exponent=65537, key_size=KEY_BITS)))
    key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)  # this module wrote it
    assert isinstance(key, RSAPrivateKey)
    return key


def public_jwk(name: str) -> dict[str, Any]:
    key = RSAKey(raw_key(name).public_key(), raw_key(name).public_key())
    return dict(key.as_dict(private=False, kid=key.thumbprint()))


def write_key(path: Path, name: str) -> None:
    """Write the pair to ``path``, which only this user can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(b"")
    path.chmod(0o600)
    path.write_bytes(_pem(raw_key(name)))


def _pem(key: RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _keep(kept: Path, pem: bytes) -> bytes:
    """Keep the pair, and return the one that is kept: another process may have been faster."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=_FOLDER)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
        with suppress(FileExistsError):
            os.link(made, kept)  # unlike a rename, it replaces nothing
    finally:
        os.unlink(made)
    return kept.read_bytes()
