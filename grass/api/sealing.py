"""Sealed calls of a session, and all sealed replies. Light to import: `grass job list` needs no other cipher module.

    call  = JWE(dir, A256GCM) under the session's key, which its header names: ``{method, path, request_id, body}``
    reply = JWE(dir, A256GCM) under the session's key, or under the key that a signed request carried

A session is opened by a signed request (``grass.api.signing``). The sealed content binds a call to one method, path
with query, and id. The header of a reply binds it to that id, to the HTTP status, and (in a stream) to its position.
Used by the client's transport and by the API server. Pure: keys and ids are arguments.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from grass.api.envelope import KEY_BYTES, EnvelopeError, decode, encode, open_sealed, read_header, seal
from grass.model.names import is_request_id, is_session_id

__all__ = ["KEY_BYTES", "MAX_REQUEST", "EnvelopeError", "ReplyKey", "Session", "SessionCall", "open_call"]

MAX_REQUEST = 2 * 1024 * 1024
"""Most bytes of a sealed request. A manifest of 1 MiB fits: sealing and signing add 78 % (base64 twice)."""
MAX_REPLY = 256 * 1024 * 1024


@dataclass(frozen=True)
class ReplyKey:
    """The key of the replies to one request. Each reply is bound to its status and position."""

    request_id: str
    key: bytes

    def seal(self, status: int, body: bytes, number: int = 0, last: bool = True) -> str:
        return seal({**self._binding(status, number), "last": last}, body, self.key)

    def open(self, token: str | bytes, status: int, number: int = 0) -> tuple[bytes, bool]:
        """Return the body, and whether it is the last of its stream. Raises EnvelopeError."""
        if len(token) > MAX_REPLY:
            raise EnvelopeError("a reply is too large")
        header, body = open_sealed(token, self.key)
        last = header.pop("last", None)
        if header != self._binding(status, number) or not isinstance(last, bool):
            raise EnvelopeError("a reply belongs to another request, status or position")
        return body, last

    def _binding(self, status: int, number: int) -> dict[str, object]:
        return {"request": self.request_id, "status": status, "number": number}


@dataclass(frozen=True)
class SessionCall:
    """The content of a call of a session. ``body`` is JSON text."""

    method: str
    path: str
    request_id: str
    body: str | None


@dataclass(frozen=True)
class Session:
    """The key that client and server share after a signed request, for an hour at most."""

    id: str
    key: bytes

    def seal(self, call: SessionCall) -> str:
        content = {"method": call.method, "path": call.path, "request_id": call.request_id, "body": call.body}
        return seal({"kid": self.id}, json.dumps(content).encode(), self.key)

    def reply_key(self, request_id: str) -> ReplyKey:
        return ReplyKey(request_id, self.key)


def session_of(token: str | bytes) -> str:
    """Return the unverified session id in a call's header. Raises EnvelopeError."""
    header = read_header(token)
    session = header.get("kid")
    if header.keys() != {"kid"} or not isinstance(session, str) or not is_session_id(session):
        raise EnvelopeError("a request belongs to no session")
    return session


def open_call(token: str | bytes, session: Session) -> SessionCall:
    """Decrypt and verify a call. Raises EnvelopeError. The caller compares it with the HTTP request and parses the
    body."""
    header, text = open_sealed(token, session.key)
    try:
        content = json.loads(text)
        call = SessionCall(**content)
    except (ValueError, TypeError, RecursionError) as error:
        raise EnvelopeError("a call could not be opened") from error
    texts = (call.method, call.path, call.request_id)
    if header != {"kid": session.id} or not all(isinstance(text, str) for text in texts):
        raise EnvelopeError("a call of another form")
    if not is_request_id(call.request_id) or not (call.body is None or isinstance(call.body, str)):
        raise EnvelopeError("a call of another form")
    return call


def encode_key(key: bytes) -> str:
    return encode(key)


def decode_key(text: str) -> bytes:
    """Decode a key of 256 bits. Raises ValueError."""
    key = decode(text)
    if len(key) != KEY_BYTES:
        raise ValueError("not a key of 256 bits")
    return key
