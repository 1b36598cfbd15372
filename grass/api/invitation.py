"""Join tokens: the text that lets a machine join, ``grass1.<base64url of JSON>``. Pure.

A token contains the cluster's name, the URLs of the master's API, the thumbprint of the master's key (RFC 7638), the
SHA-256 of the bundle of programs, and a secret. The secret is valid for a number of joins until it expires. The master
stores only the secret's digest. Used by this package, ``grass.cli``, ``grass.provision`` and ``master.api``.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from grass.errors import InputError

_KIND = "grass1"
_LONGEST = 4096


@dataclass(frozen=True)
class Invitation:
    """The content of a join token.

    ``urls``: the API's, in the order to try. ``bundle``: empty if the master offers none (same machine).
    """

    urls: tuple[str, ...]
    key: str
    secret: str = field(repr=False)
    bundle: str = ""
    cluster: str = ""

    def token(self) -> str:
        wire = {"api": list(self.urls), "key": self.key, "secret": self.secret}
        wire |= {"bundle": self.bundle, "cluster": self.cluster}
        return pack_text(_KIND, json.dumps(wire, separators=(",", ":")))


def parse_token(text: str) -> Invitation:
    """Decode a token. Raises InputError, whose message never contains the token."""
    if not text.strip().startswith(_KIND + "."):
        raise InputError(f"this is not a join token: a token begins with `{_KIND}.`; `grass node token` makes one")
    try:
        wire = json.loads(unpack_text(_KIND, text))
        urls = tuple(url_of(url) for url in wire["api"])
        words = [wire["key"], wire["secret"], wire.get("bundle", ""), wire["cluster"]]
    except (ValueError, KeyError, TypeError):
        raise InputError(
            "this join token is damaged (was it copied whole?); `grass node token` makes another"
        ) from None
    if not urls or not all(isinstance(word, str) for word in words):
        raise InputError("this join token is damaged (was it copied whole?); `grass node token` makes another")
    return Invitation(urls, *words)


def secret_digest(secret: str) -> str:
    """Return the digest by which the master knows a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def url_of(text: str) -> str:
    """Return the URL of an API. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("not text")
    parts = urlsplit(text)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise ValueError(text)
    return text


def pack_text(kind: str, content: str) -> str:
    """Return ``kind.<base64url of content>``, which survives being copied between windows."""
    return f"{kind}.{urlsafe_b64encode(content.encode()).rstrip(b'=').decode()}"


def unpack_text(kind: str, text: str) -> str:
    """Return the content. Raises ValueError."""
    found, _, rest = text.strip().partition(".")
    if found != kind or len(text) > _LONGEST:
        raise ValueError(kind)
    return urlsafe_b64decode(rest + "=" * (-len(rest) % 4)).decode()
