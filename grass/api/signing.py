"""Requests outside a session: signed by a user's key, to open a session; or unsigned, of a machine without a user.

    signed   = JWE(RSA-OAEP-256, A256GCM, JWS(PS256, claims and body))
    unsigned = JWE(RSA-OAEP-256, A256GCM, claims and body): the body must prove what it may do (a join token)

Built with joserfc; used by client and API server. The claims bind a request to one user, method, path with query, id
and time. Algorithms are pinned here and never negotiated. Pure: keys and times are arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joserfc import jwe, jws
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from grass.api.envelope import EnvelopeError, encode
from grass.api.sealing import MAX_REQUEST, ReplyKey, decode_key
from grass.model.names import is_request_id

FRESH_SECONDS = 120.0
"""Largest difference between a request's time and the server's."""
_LARGEST_TIME = 2.0**53


class _Signatures(jws.JWSRegistry):
    max_payload_length = MAX_REQUEST


class _Requests(jwe.JWERegistry):
    max_ciphertext_length = MAX_REQUEST


_SIGNATURES = _Signatures(algorithms=["PS256"])
_REQUESTS = _Requests(algorithms=["RSA-OAEP-256", "A256GCM"])


@dataclass(frozen=True)
class Claims:
    """The claims of a request. ``issued_at``: the sender's wall clock."""

    user: str
    key_id: str
    method: str
    path: str
    request_id: str
    issued_at: float


def seal_request(claims: Claims, body: str | None, reply: ReplyKey, signer: RSAKey, master: RSAKey) -> str:
    """Sign and encrypt a request. ``body`` is JSON text; it stays text, so that the receiver parses it last."""
    signed = jws.serialize_compact(
        {"alg": "PS256", "kid": claims.key_id}, json.dumps(_content(claims, body, reply)), signer, registry=_SIGNATURES
    )
    return _wrapped(signed, _SIGNED, master)


def seal_unsigned_request(claims: Claims, body: str | None, reply: ReplyKey, master: RSAKey) -> str:
    """Encrypt a request without a signature, for the master only. ``claims.user`` and ``key_id`` are empty."""
    return _wrapped(json.dumps(_content(claims, body, reply)), _UNSIGNED, master)


def _wrapped(text: str, content: str, master: RSAKey) -> str:
    return jwe.encrypt_compact(_outer(content, master), text, master, registry=_REQUESTS)


_SIGNED, _UNSIGNED = "JOSE", "JSON"


def _outer(content: str, master: RSAKey) -> dict[str, object]:
    return {"alg": "RSA-OAEP-256", "enc": "A256GCM", "cty": content, "kid": master.thumbprint()}


def _content(claims: Claims, body: str | None, reply: ReplyKey) -> dict[str, object]:
    return {
        "user": claims.user,
        "key_id": claims.key_id,
        "method": claims.method,
        "path": claims.path,
        "request_id": claims.request_id,
        "issued_at": claims.issued_at,
        "reply_key": encode(reply.key),
        "body": body,
    }


@dataclass(frozen=True)
class OpenedRequest:
    """A request whose signature is valid. Its claims and its time are unchecked, and its body is unparsed."""

    claims: Claims
    body: str | None
    reply: ReplyKey


def open_request(token: str | bytes, master: RSAKey, find_key: Callable[[str], RSAKey | None]) -> OpenedRequest:
    """Decrypt, and verify with the public key that is registered under the key id. Raises EnvelopeError."""
    try:
        signed = jws.extract_compact(_unwrapped(token, _SIGNED, master), registry=_SIGNATURES)
        header = signed.headers()
        signer = find_key(header["kid"]) if header.keys() == {"alg", "kid"} else None
        if signer is None or not jws.validate_compact(signed, signer, registry=_SIGNATURES):
            raise EnvelopeError("a request is not signed with a registered key")
        return _opened(json.loads(signed.payload), header["kid"])
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise EnvelopeError("a request could not be opened") from error


def open_unsigned_request(token: str | bytes, master: RSAKey) -> OpenedRequest:
    """Decrypt an unsigned request. Its sender is unknown. Raises EnvelopeError."""
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


def _opened(content: dict[str, Any], key_id: str) -> OpenedRequest:  # Any: JSON of the peer, checked here
    names = ("user", "key_id", "method", "path", "request_id")
    issued_at, body, random = content["issued_at"], content["body"], decode_key(content["reply_key"])
    if not all(isinstance(content[name], str) for name in names) or not _is_time(issued_at):
        raise ValueError("claims of the wrong type")
    claims = Claims(**{name: content[name] for name in names}, issued_at=float(issued_at))
    if claims.key_id != key_id or not is_request_id(claims.request_id):
        raise ValueError("claims that do not match the signature")
    if not (body is None or isinstance(body, str)):
        raise ValueError("the body is not text")
    return OpenedRequest(claims, body, ReplyKey(claims.request_id, random))


def _is_time(value: object) -> bool:
    """Return whether the value is a number that a float can hold; JSON allows larger ones."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST_TIME
