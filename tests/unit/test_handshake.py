"""The handshake between a node and the collector, message by message."""

from __future__ import annotations

import pytest

from grass.wire.handshake import (
    COLLECTOR,
    check_pong,
    collector_key,
    digest,
    helo,
    nonce_of,
    ping,
    ping_of,
    pong,
    refusal,
)

KEY = collector_key("token")
SALT, NONCE = b"salt", b"nonce"


def test_both_sides_prove_that_they_know_the_key() -> None:
    assert nonce_of(helo(NONCE)) == NONCE
    assert ping_of(ping("n1", SALT, NONCE, KEY)) == ("n1", SALT, digest(SALT, "n1", NONCE, KEY))
    check_pong(pong(SALT, NONCE, KEY), SALT, NONCE, KEY)


def test_messages_of_fluentd_have_bytes_in_place_of_text() -> None:
    assert nonce_of([b"HELO", {b"nonce": "nonce", b"auth": b""}]) == NONCE
    assert ping_of([b"PING", b"n1", "salt", b"proof", b"", b""]) == ("n1", SALT, "proof")
    proof = digest(SALT, COLLECTOR, NONCE, KEY)
    check_pong([b"PONG", True, b"", COLLECTOR.encode(), proof.encode()], SALT, NONCE, KEY)


def test_the_digest_is_over_salt_name_nonce_and_key() -> None:
    assert len({digest(SALT, "n1", NONCE, KEY), digest(b"x", "n1", NONCE, KEY), digest(SALT, "n2", NONCE, KEY)}) == 3
    assert len({digest(SALT, "n1", NONCE, KEY), digest(SALT, "n1", b"x", KEY), digest(SALT, "n1", NONCE, "x")}) == 3
    assert collector_key("tokem") != KEY and len(KEY) == 64


@pytest.mark.parametrize(
    "message", [None, [], ["HELO"], ["PING", {"nonce": b""}], ["HELO", {"auth": b""}], ["HELO", 5]]
)
def test_what_is_no_greeting_is_refused(message: object) -> None:
    with pytest.raises(ValueError, match="did not begin with HELO"):
        nonce_of(message)


@pytest.mark.parametrize(
    "message", [None, ["PONG", "n", b"s", "p", "", ""], ["PING", "n", b"s", "p", ""], ["PING", 5, b"s", "p", "", ""]]
)
def test_what_is_no_ping_is_refused(message: object) -> None:
    with pytest.raises(ValueError, match="did not begin with PING"):
        ping_of(message)


def test_a_node_believes_no_other_collector() -> None:
    with pytest.raises(PermissionError, match=r"^it refused this node: unknown node$"):
        check_pong(refusal("unknown node"), SALT, NONCE, KEY)
    for stranger in (pong(SALT, NONCE, "x"), pong(b"x", NONCE, KEY), ["PONG", True, "", "n", "p"]):
        with pytest.raises(
            PermissionError, match=r"^it does not know this node's key; another program may listen there$"
        ):
            check_pong(stranger, SALT, NONCE, KEY)
    for nonsense in (None, ["PING", True, "", "n", "p"], ["PONG", True, ""]):
        with pytest.raises(ValueError, match="did not answer with PONG"):
            check_pong(nonsense, SALT, NONCE, KEY)
