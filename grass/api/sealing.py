"""Requests and replies of the master-api-server as JOSE objects (design, section 6). Pure: keys, times are arguments.

    request = JWE(RSA-OAEP-256, A256GCM, JWS(PS256, claims and body))
    guest's = JWE(RSA-OAEP-256, A256GCM, claims and body): of nobody; what it may do, its body must prove (a join token)
    reply   = JWE(dir, A256GCM) under the key that the request carried

The RSA operation that opens a request needs only its content key, and the one that seals it needs only the content:
a client may send the wrapped key ahead (``ContentKey``), and both sides work at the same time.

The claims tie a request to one user, method, path with query, id and moment; the protected header of a reply ties it
to that id, to the HTTP status, and (in a stream) to its place. Algorithms are pinned here and nowhere negotiated.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from joserfc import jwe, jws
from joserfc.errors import JoseError
from joserfc.jwk import OctKey, RSAKey
from joserfc.registry import HeaderParameter

from grass.errors import GrassError

MAX_REQUEST = 2 * 1024 * 1024
"""Bytes of a sealed request. A manifest of 1 MiB fits: sealing adds 78 % (base64 twice)."""
MAX_REPLY = 256 * 1024 * 1024
FRESH_SECONDS = 120.0
"""How far a request's time may lie from the server's. Ids are remembered longer (`keys.REQUEST_SECONDS`)."""
KEY_BYTES = 32
KEY_AHEAD = "JOSE-Content-Key"
"""The header of a POST that carries the wrapped content key of its body, base64url. It may be left out."""
_REQUEST_ID = re.compile(r"[0-9a-f]{16,64}")


class EnvelopeError(GrassError):
    """A sealed object that cannot be opened. It never says why: the other side may be an attacker."""

    code = "envelope"
    exit_code = 4
    http_status = 401


class _Signatures(jws.JWSRegistry):
    max_payload_length = MAX_REQUEST


@dataclass(frozen=True)
class ContentKey:
    """What encrypts the content of one request: the key itself, and as it travels, for the master's eyes only."""

    raw: bytes
    wrapped: bytes

    @property
    def text(self) -> str:
        """``wrapped``, as a header carries it."""
        return _encode(self.wrapped)


class _Requests(jwe.JWERegistry):
    max_ciphertext_length = MAX_REQUEST

    def __init__(self, known: ContentKey | None = None) -> None:
        """``known`` is taken for the content key, instead of making a new one or of opening its wrapped form."""
        super().__init__(algorithms=["RSA-OAEP-256", "A256GCM"])
        self._known = known

    def get_alg(self, name: str) -> Any:
        algorithm, known = super().get_alg(name), self._known
        if known is None:
            return algorithm
        made: Any = copy(algorithm)
        made.encrypt_cek = lambda _key, _recipient: known.wrapped
        made.decrypt_cek = lambda given: known.raw if given.encrypted_key == known.wrapped else b""
        return made

    def get_enc(self, name: str) -> Any:
        cipher, known = super().get_enc(name), self._known
        if known is None:
            return cipher
        made: Any = copy(cipher)
        made.generate_cek = lambda: known.raw
        return made


class _Replies(jwe.JWERegistry):
    max_ciphertext_length = MAX_REPLY


_SIGNATURES = _Signatures(algorithms=["PS256"])
_REQUESTS = _Requests()
_REPLIES = _Replies(
    algorithms=["dir", "A256GCM"],
    header_registry={
        "request": HeaderParameter("Request id", "str", True),
        "status": HeaderParameter("HTTP status", "int", True),
        "number": HeaderParameter("Place in the stream", "int", True),
        "last": HeaderParameter("Whether the stream ends here", "bool", True),
    },
)


@dataclass(frozen=True)
class Claims:
    """What a request says about itself. ``issued_at`` is the sender's wall clock."""

    user: str
    key_id: str
    method: str
    path: str
    request_id: str
    issued_at: float


@dataclass(frozen=True)
class ReplyKey:
    """The key of all replies to one request. Each is bound to its status and place; the random IV keeps them apart."""

    request_id: str
    key: OctKey

    def seal(self, status: int, body: bytes, number: int = 0, last: bool = True) -> str:
        header = {"alg": "dir", "enc": "A256GCM", **self._binding(status, number, last)}
        return jwe.encrypt_compact(header, body, self.key, registry=_REPLIES)

    def open(self, token: str | bytes, status: int, number: int = 0) -> tuple[bytes, bool]:
        """The body, and whether it is the last of its stream. Raises EnvelopeError."""
        try:
            reply = jwe.decrypt_compact(token, self.key, registry=_REPLIES)
        except (JoseError, ValueError, TypeError) as error:
            raise EnvelopeError("a reply could not be opened") from error
        header = reply.headers()
        last = header.pop("last")
        if header != {"alg": "dir", "enc": "A256GCM", **self._binding(status, number)} or reply.plaintext is None:
            raise EnvelopeError("a reply belongs to another request, status or place")
        return reply.plaintext, last

    def _binding(self, status: int, number: int, last: bool | None = None) -> dict[str, Any]:
        binding = {"request": self.request_id, "status": status, "number": number}
        return binding if last is None else {**binding, "last": last}


def new_reply_key(request_id: str, random: bytes) -> ReplyKey:
    return ReplyKey(request_id, OctKey.import_key({"kty": "oct", "k": _encode(random)}))


def _registry(ahead: ContentKey | None) -> _Requests:
    return _REQUESTS if ahead is None else _Requests(ahead)


def new_content_key(master: RSAKey) -> ContentKey:
    """For one request. What travels ahead tells nobody but the master anything."""
    cipher, wrapping = _REQUESTS.get_enc("A256GCM"), _REQUESTS.get_alg("RSA-OAEP-256")
    raw: bytes = cipher.generate_cek()
    return ContentKey(raw, wrapping.encrypt_cek(raw, _recipient(master)))


def open_content_key(text: str, master: RSAKey) -> ContentKey | None:
    """None for what is no key of a request to this master; the request that follows is refused for it."""
    recipient = _recipient(master)
    try:
        recipient.encrypted_key = _decode(text)
        return ContentKey(_REQUESTS.get_alg("RSA-OAEP-256").decrypt_cek(recipient), recipient.encrypted_key)
    except (JoseError, ValueError, TypeError):
        return None


def _recipient(master: RSAKey) -> jwe.Recipient[RSAKey]:
    return jwe.Recipient(jwe.CompactEncryption({}), None, master)


def seal_request(
    claims: Claims, body: str | None, reply: ReplyKey, signer: RSAKey, master: RSAKey, ahead: ContentKey | None = None
) -> str:
    """``body`` is JSON text. It stays text inside the claims, so that whoever opens them can parse it last.

    ``ahead``: the content key, if it was sent before.
    """
    signed = jws.serialize_compact(
        {"alg": "PS256", "kid": claims.key_id}, json.dumps(_content(claims, body, reply)), signer, registry=_SIGNATURES
    )
    return _wrapped(signed, _SIGNED, master, ahead)


def seal_guest_request(
    claims: Claims, body: str | None, reply: ReplyKey, master: RSAKey, ahead: ContentKey | None = None
) -> str:
    """Of somebody without a key of their own: only the master can read it. ``claims.user`` and ``key_id`` are empty."""
    return _wrapped(json.dumps(_content(claims, body, reply)), _UNSIGNED, master, ahead)


def _wrapped(text: str, content: str, master: RSAKey, ahead: ContentKey | None) -> str:
    return jwe.encrypt_compact(_outer(content, master), text, master, registry=_registry(ahead))


_SIGNED, _UNSIGNED = "JOSE", "JSON"


def _outer(content: str, master: RSAKey) -> dict[str, Any]:
    return {"alg": "RSA-OAEP-256", "enc": "A256GCM", "cty": content, "kid": master.thumbprint()}


def _content(claims: Claims, body: str | None, reply: ReplyKey) -> dict[str, Any]:
    return {
        "user": claims.user,
        "key_id": claims.key_id,
        "method": claims.method,
        "path": claims.path,
        "request_id": claims.request_id,
        "issued_at": claims.issued_at,
        "reply_key": _encode(reply.key.raw_value),
        "body": body,
    }


@dataclass(frozen=True)
class OpenedRequest:
    """A request whose signature holds. Neither its claims nor its freshness were checked, and its body is unparsed."""

    claims: Claims
    body: str | None
    reply: ReplyKey


def open_request(
    token: str | bytes, master: RSAKey, find_key: Callable[[str], RSAKey | None], ahead: ContentKey | None = None
) -> OpenedRequest:
    """Decrypt, then verify with the public key registered under the key id. Raises EnvelopeError for all that fails.

    ``ahead``: the content key, if it came before.
    """
    try:
        signed = jws.extract_compact(_unwrapped(token, _SIGNED, master, ahead), registry=_SIGNATURES)
        header = signed.headers()
        signer = find_key(header["kid"]) if header.keys() == {"alg", "kid"} else None
        if signer is None or not jws.validate_compact(signed, signer, registry=_SIGNATURES):
            raise EnvelopeError("a request is not signed with a registered key")
        return _opened(json.loads(signed.payload), header["kid"])
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EnvelopeError("a request could not be opened") from error


def open_guest_request(token: str | bytes, master: RSAKey, ahead: ContentKey | None = None) -> OpenedRequest:
    """Decrypt. Who sent it is not known. Raises EnvelopeError for all that fails."""
    try:
        return _opened(json.loads(_unwrapped(token, _UNSIGNED, master, ahead)), "")
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EnvelopeError("a request could not be opened") from error


def _unwrapped(token: str | bytes, content: str, master: RSAKey, ahead: ContentKey | None) -> bytes:
    if len(token) > MAX_REQUEST:
        raise EnvelopeError("a request is too large")
    sealed = jwe.decrypt_compact(token, master, registry=_registry(ahead))
    if sealed.headers() != _outer(content, master) or sealed.plaintext is None:
        raise EnvelopeError("a request is not sealed for this server")
    return sealed.plaintext


def _opened(content: dict[str, Any], key_id: str) -> OpenedRequest:
    names = ("user", "key_id", "method", "path", "request_id")
    issued_at, body, random = content["issued_at"], content["body"], _decode(content["reply_key"])
    if not all(isinstance(content[name], str) for name in names) or type(issued_at) not in (int, float):
        raise ValueError("claims of the wrong type")
    claims = Claims(**{name: content[name] for name in names}, issued_at=float(issued_at))
    if claims.key_id != key_id or len(random) != KEY_BYTES or not _REQUEST_ID.fullmatch(claims.request_id):
        raise ValueError("claims that do not fit")
    if not (body is None or isinstance(body, str)):
        raise ValueError("the body is not text")
    return OpenedRequest(claims, body, new_reply_key(claims.request_id, random))


def is_fresh(claims: Claims, now: float) -> bool:
    return abs(claims.issued_at - now) <= FRESH_SECONDS


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
