"""The handshake of fluentd's forward protocol v1 (HELO, PING, PONG), by which both sides prove that they know one key.

The collector sends HELO with a nonce. A node answers PING with its name and a digest over salt, name, nonce and key.
The collector answers PONG with its own. Each node has a key of its own, so the collector knows who sends. Pure. Used by
the node-agent and the collector.
"""

from __future__ import annotations

import hashlib
import hmac

COLLECTOR = "grass-collector"
"""The name by which the built-in collector answers."""
LIMIT = 4096
"""Bytes of one message of the handshake."""


def collector_key(node_token: str) -> str:
    """Return the key that a node and the collector share."""
    return hmac.digest(node_token.encode(), b"collector", "sha256").hex()


def digest(salt: bytes, name: str, nonce: bytes, key: str) -> str:
    """Return the digest by which ``name`` proves that it knows the key."""
    return hashlib.sha512(salt + name.encode() + nonce + key.encode()).hexdigest()


def helo(nonce: bytes) -> list[object]:
    return ["HELO", {"nonce": nonce, "auth": b"", "keepalive": True}]


def ping(name: str, salt: bytes, nonce: bytes, key: str) -> list[object]:
    return ["PING", name, salt, digest(salt, name, nonce, key), "", ""]


def pong(salt: bytes, nonce: bytes, key: str) -> list[object]:
    return ["PONG", True, "", COLLECTOR, digest(salt, COLLECTOR, nonce, key)]


def refusal(reason: str) -> list[object]:
    return ["PONG", False, reason, "", ""]


def nonce_of(message: object) -> bytes:
    """Return the nonce of a HELO. Raises ValueError."""
    match message:
        case [name, {} as options] if _text(name) == "HELO" and isinstance(options, dict):
            nonce = {_text(key): value for key, value in options.items()}.get("nonce")
            if isinstance(nonce, (bytes, str)):
                return _bytes(nonce)
    raise ValueError("the collector did not begin with HELO")


def ping_of(message: object) -> tuple[str, bytes, str]:
    """Return name, salt and digest of a PING. Raises ValueError."""
    match message:
        case [kind, (bytes() | str()) as name, (bytes() | str()) as salt, (bytes() | str()) as proof, _, _] if (
            _text(kind) == "PING"
        ):
            return _text(name), _bytes(salt), _text(proof)
    raise ValueError("the client did not begin with PING")


def check_pong(message: object, salt: bytes, nonce: bytes, key: str) -> None:
    """Raise PermissionError if the collector refused us, or does not know the key; ValueError for another message."""
    match message:
        case [kind, accepted, reason, (bytes() | str()) as name, (bytes() | str()) as proof] if _text(kind) == "PONG":
            if accepted is not True:
                raise PermissionError(f"it refused this node: {_text(reason)}")
            if not hmac.compare_digest(_text(proof), digest(salt, _text(name), nonce, key)):
                raise PermissionError("it does not know this node's key; another program may listen there")
            return
    raise ValueError("the collector did not answer with PONG")


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _bytes(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else value.encode(errors="surrogateescape")
