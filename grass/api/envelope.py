"""Compact JWE with ``dir`` and A256GCM (RFC 7516, RFC 7518). Used for replies and for calls of a session.

This module builds the format; the cipher is that of the package cryptography. joserfc is compatible, but takes 28 ms
more to import and six times as long per call. Pure, except for the random initialisation vector.
"""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from grass.errors import GrassError

Header = dict[str, Any]  # Any: unchecked JSON of the peer
"""Header of a JWE. The receiver compares it with the expected values."""
KEY_BYTES = 32
_IV_BYTES, _TAG_BYTES = 12, 16
_PINNED = {"alg": "dir", "enc": "A256GCM"}
MOST_HEADER = 1024
"""Most characters of a header; ours have fewer than 300."""


class EnvelopeError(GrassError):
    """A sealed object that cannot be opened. The message gives no reason: the peer may be an attacker."""

    code = "envelope"
    exit_code = 4
    http_status = 401


def seal(header: Header, content: bytes, key: bytes) -> str:
    """Encrypt ``content``. ``header`` is sent in clear text but is protected against changes."""
    protected = encode(json.dumps({**_PINNED, **header}, separators=(",", ":")).encode())
    iv = os.urandom(_IV_BYTES)
    sealed = AESGCM(key).encrypt(iv, content, protected.encode())
    return f"{protected}..{encode(iv)}.{encode(sealed[:-_TAG_BYTES])}.{encode(sealed[-_TAG_BYTES:])}"


def read_header(token: str | bytes) -> Header:
    """Return the unverified header. Raises EnvelopeError for another algorithm."""
    text = token if isinstance(token, str) else token[: MOST_HEADER + 1].decode("ascii", "replace")
    try:
        header = json.loads(decode(text[: MOST_HEADER + 1].partition(".")[0]))
        if any(header.pop(name) != value for name, value in _PINNED.items()):
            raise ValueError("another algorithm")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise EnvelopeError("a sealed object could not be opened") from error
    opened: Header = header
    return opened


def open_sealed(token: str | bytes, key: bytes) -> tuple[Header, bytes]:
    """Decrypt and verify; return header and content. Raises EnvelopeError."""
    try:
        text = token if isinstance(token, str) else token.decode("ascii")
        protected, wrapped, iv, content, tag = text.split(".")
        nonce, mac = decode(iv), decode(tag)
        if wrapped or len(nonce) != _IV_BYTES or len(mac) != _TAG_BYTES:
            raise ValueError("another form")
        opened = AESGCM(key).decrypt(nonce, decode(content) + mac, protected.encode("ascii"))
    except (InvalidTag, ValueError, TypeError, OverflowError) as error:
        raise EnvelopeError("a sealed object could not be opened") from error
    return read_header(text), opened


def encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
