"""Requests and replies of the master-api-server as JOSE objects (design, section 6). Pure: keys, times are arguments.

    request = JWE(RSA-OAEP-256, A256GCM, JWS(PS256, claims and body))
    guest's = JWE(RSA-OAEP-256, A256GCM, claims and body): of nobody; what it may do, its body must prove (a join token)
    reply   = JWE(dir, A256GCM) under the key that the request carried

The claims tie a request to one user, method, path with query, id and moment; the protected header of a reply ties it
to that id, to the HTTP status, and (in a stream) to its place. Algorithms are pinned here and nowhere negotiated.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
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
_LARGEST_TIME = 2.0**53
_REQUEST_ID = re.compile(r"[0-9a-f]{16,64}")


class EnvelopeError(GrassError):
    """A sealed object that cannot be opened. It never says why: the other side may be an attacker."""

    code = "envelope"
    exit_code = 4
    http_status = 401


class _Signatures(jws.JWSRegistry):
    max_payload_length = MAX_REQUEST


class _Requests(jwe.JWERegistry):
    max_ciphertext_length = MAX_REQUEST


class _Replies(jwe.JWERegistry):
    max_ciphertext_length = MAX_REPLY


_SIGNATURES = _Signatures(algorithms=["PS256"])
_REQUESTS = _Requests(algorithms=["RSA-OAEP-256", "A256GCM"])
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


def seal_request(claims: Claims, body: str | None, reply: ReplyKey, signer: RSAKey, master: RSAKey) -> str:
    """``body`` is JSON text. It stays text inside the claims, so that whoever opens them can parse it last."""
    signed = jws.serialize_compact(
        {"alg": "PS256", "kid": claims.key_id}, json.dumps(_content(claims, body, reply)), signer, registry=_SIGNATURES
    )
    return _wrapped(signed, _SIGNED, master)


def seal_guest_request(claims: Claims, body: str | None, reply: ReplyKey, master: RSAKey) -> str:
    """Of somebody without a key of their own: only the master can read it. ``claims.user`` and ``key_id`` are empty."""
    return _wrapped(json.dumps(_content(claims, body, reply)), _UNSIGNED, master)


def _wrapped(text: str, content: str, master: RSAKey) -> str:
    return jwe.encrypt_compact(_outer(content, master), text, master, registry=_REQUESTS)


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


def open_request(token: str | bytes, master: RSAKey, find_key: Callable[[str], RSAKey | None]) -> OpenedRequest:
    """Decrypt, then verify with the public key registered under the key id. Raises EnvelopeError for all that fails."""
    try:
        signed = jws.extract_compact(_unwrapped(token, _SIGNED, master), registry=_SIGNATURES)
        header = signed.headers()
        signer = find_key(header["kid"]) if header.keys() == {"alg", "kid"} else None
        if signer is None or not jws.validate_compact(signed, signer, registry=_SIGNATURES):
            raise EnvelopeError("a request is not signed with a registered key")
        return _opened(json.loads(signed.payload), header["kid"])
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EnvelopeError("a request could not be opened") from error


def open_guest_request(token: str | bytes, master: RSAKey) -> OpenedRequest:
    """Decrypt. Who sent it is not known. Raises EnvelopeError for all that fails."""
    try:
        return _opened(json.loads(_unwrapped(token, _UNSIGNED, master)), "")
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EnvelopeError("a request could not be opened") from error


def _unwrapped(token: str | bytes, content: str, master: RSAKey) -> bytes:
    if len(token) > MAX_REQUEST:
        raise EnvelopeError("a request is too large")
    sealed = jwe.decrypt_compact(token, master, registry=_REQUESTS)
    if sealed.headers() != _outer(content, master) or sealed.plaintext is None:
        raise EnvelopeError("a request is not sealed for this server")
    return sealed.plaintext


def _opened(content: dict[str, Any], key_id: str) -> OpenedRequest:
    names = ("user", "key_id", "method", "path", "request_id")
    issued_at, body, random = content["issued_at"], content["body"], _decode(content["reply_key"])
    if not all(isinstance(content[name], str) for name in names) or not _is_time(issued_at):
        raise ValueError("claims of the wrong type")
    claims = Claims(**{name: content[name] for name in names}, issued_at=float(issued_at))
    if claims.key_id != key_id or len(random) != KEY_BYTES or not _REQUEST_ID.fullmatch(claims.request_id):
        raise ValueError("claims that do not fit")
    if not (body is None or isinstance(body, str)):
        raise ValueError("the body is not text")
    return OpenedRequest(claims, body, new_reply_key(claims.request_id, random))


def _is_time(value: object) -> bool:
    """A number that a float can hold; JSON knows larger ones."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST_TIME


def is_fresh(claims: Claims, now: float) -> bool:
    return abs(claims.issued_at - now) <= FRESH_SECONDS


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
