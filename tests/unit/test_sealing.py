from __future__ import annotations

import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from joserfc import jwe, jws
from joserfc.jwk import OctKey, RSAKey

from grass.api import sealing, signing
from grass.api.envelope import EnvelopeError, decode, encode, seal
from grass.api.sealing import ReplyKey, Session, SessionCall, open_call, session_of
from grass.api.signing import Claims, open_request, seal_request
from tests.support.rsa_keys import raw_key

MASTER = RSAKey(raw_key("master"), raw_key("master"))
ANN = RSAKey(raw_key("ann"), raw_key("ann"))
BOB = RSAKey(raw_key("bob"), raw_key("bob"))
MASTER_PUBLIC = RSAKey(raw_key("master").public_key(), raw_key("master").public_key())
ANN_PUBLIC = RSAKey(raw_key("ann").public_key(), raw_key("ann").public_key())
KEY_ID = ANN.thumbprint()

CLAIMS = Claims("ann", KEY_ID, "POST", "/v1/jobs?all=true", "0123456789abcdef", 1000.0)
REPLY = ReplyKey(CLAIMS.request_id, b"k" * 32)


def find(key_id: str) -> RSAKey | None:
    return ANN_PUBLIC if key_id == KEY_ID else None


def opens(token: str | bytes) -> bool:
    try:
        open_request(token, MASTER, find)
    except EnvelopeError:
        return False
    return True


def sealed_by_hand(signed: str, **header: Any) -> str:
    outer = {"alg": "RSA-OAEP-256", "enc": "A256GCM", "cty": "JOSE", "kid": MASTER.thumbprint(), **header}
    algorithms = [outer["alg"], outer["enc"], "DEF"]
    return jwe.encrypt_compact(outer, signed, MASTER_PUBLIC, algorithms=algorithms)


def content(**changes: Any) -> str:
    return json.dumps(
        {
            "user": "ann",
            "key_id": KEY_ID,
            "method": "GET",
            "path": "/v1/jobs",
            "request_id": "0123456789abcdef",
            "issued_at": 1000.0,
            "reply_key": "a2" * 21 + "a",
            "body": None,
            **changes,
        }
    )


def signed(text: str, key: Any = ANN, **header: Any) -> str:
    inner = {"alg": "PS256", "kid": KEY_ID, **header}
    return jws.serialize_compact(inner, text, key, algorithms=[inner["alg"]])


def test_a_sealed_request_opens_to_what_was_sealed() -> None:
    opened = open_request(seal_request(CLAIMS, '{"a": 1}', REPLY, ANN, MASTER_PUBLIC), MASTER, find)
    assert opened.claims == CLAIMS
    assert opened.body == '{"a": 1}'
    assert opened.reply.open(REPLY.seal(200, b"yes"), 200) == (b"yes", True)


def test_a_request_shows_nothing_of_its_content() -> None:
    token = seal_request(CLAIMS, '"secret"', REPLY, ANN, MASTER_PUBLIC)
    header = jwe.extract_compact(token.encode(), signing._REQUESTS).headers()
    assert header == {"alg": "RSA-OAEP-256", "enc": "A256GCM", "cty": "JOSE", "kid": MASTER.thumbprint()}


def test_a_request_sealed_by_hand_with_the_same_recipe_opens() -> None:
    assert opens(sealed_by_hand(signed(content())))


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_a_changed_byte_anywhere_in_a_request_is_noticed(place: int) -> None:
    parts = seal_request(CLAIMS, None, REPLY, ANN, MASTER_PUBLIC).split(".")
    middle = len(parts[place]) // 2
    other = "A" if parts[place][middle] != "A" else "B"
    parts[place] = parts[place][:middle] + other + parts[place][middle + 1 :]
    assert not opens(".".join(parts))


def test_a_key_that_is_not_registered_does_not_open() -> None:
    assert not opens(seal_request(replace(CLAIMS, key_id=BOB.thumbprint()), None, REPLY, BOB, MASTER_PUBLIC))


def test_a_registered_key_id_with_another_key_does_not_open() -> None:
    assert not opens(seal_request(CLAIMS, None, REPLY, BOB, MASTER_PUBLIC))


def test_a_key_id_in_the_claims_that_is_not_the_signers_does_not_open() -> None:
    assert not opens(sealed_by_hand(signed(content(key_id=BOB.thumbprint()))))


def test_a_request_for_another_master_does_not_open() -> None:
    bob_public = RSAKey(raw_key("bob").public_key(), raw_key("bob").public_key())
    assert not opens(seal_request(CLAIMS, None, REPLY, ANN, bob_public))


def test_no_signature_at_all_does_not_open() -> None:
    parts = [json.dumps({"alg": "none", "kid": KEY_ID}).encode(), content().encode()]
    assert not opens(sealed_by_hand(".".join([*map(encode, parts), ""])))


def test_the_public_key_used_as_an_hmac_secret_does_not_open() -> None:
    for secret in (ANN_PUBLIC.as_pem(), json.dumps(ANN_PUBLIC.as_dict()).encode()):
        parts = [json.dumps({"alg": "HS256", "kid": KEY_ID}).encode(), content().encode()]
        text = ".".join(map(encode, parts))
        mac = hmac.digest(secret, text.encode(), "sha256")
        assert not opens(sealed_by_hand(f"{text}.{encode(mac)}"))


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "PS512"])
def test_another_signature_algorithm_does_not_open(algorithm: str) -> None:
    assert not opens(sealed_by_hand(signed(content(), alg=algorithm)))


def test_another_key_wrapping_does_not_open() -> None:
    assert not opens(sealed_by_hand(signed(content()), alg="RSA-OAEP"))


def test_another_content_cipher_does_not_open() -> None:
    assert not opens(sealed_by_hand(signed(content()), enc="A128GCM"))


def test_compression_is_refused_so_that_nothing_can_unfold() -> None:
    assert not opens(sealed_by_hand(signed(content()), zip="DEF"))


def test_a_key_that_a_header_brings_along_is_refused() -> None:
    public = {key: value for key, value in RSAKey(raw_key("bob").public_key(), None).as_dict().items()}
    assert not opens(sealed_by_hand(signed(content(), BOB, jwk=public)))


@pytest.mark.parametrize(
    "changes",
    [
        {"user": 7},
        {"path": None},
        {"issued_at": "now"},
        {"issued_at": True},
        {"issued_at": float("inf")},
        {"issued_at": float("nan")},
        {"issued_at": 10**400},
        {"reply_key": "short"},
        {"reply_key": 5},
        {"body": {"a": 1}},
        {"request_id": "x"},
        {"request_id": "x" * 100},
        {"request_id": "a b\r\n:*/01234567"},
    ],
)
def test_claims_of_the_wrong_form_do_not_open(changes: dict[str, Any]) -> None:
    assert not opens(sealed_by_hand(signed(content(**changes))))


def test_a_time_beyond_every_number_does_not_open() -> None:
    assert not opens(sealed_by_hand(signed(content().replace("1000.0", "1e400"))))


@pytest.mark.parametrize("text", ["[]", "null", "{}", "[" * 100_000, "\x00"])
def test_a_signed_payload_that_is_no_claims_does_not_open(text: str) -> None:
    assert not opens(sealed_by_hand(signed(text)))


@pytest.mark.parametrize(
    "garbage", ["", ".", "....", "a.b.c.d.e", "é.b.c.d.e", "x" * 5000, "{}", "\x00" * 64, "." * 100_000]
)
def test_garbage_does_not_open(garbage: str) -> None:
    assert not opens(garbage)
    assert not opens(garbage.encode())


def test_a_request_over_the_bound_is_not_even_decrypted() -> None:
    assert not opens(b"x" * (sealing.MAX_REQUEST + 1))


def test_a_manifest_of_one_mebibyte_fits() -> None:
    body = json.dumps({"manifest": {"text": "x" * 2**20}})
    token = seal_request(CLAIMS, body, REPLY, ANN, MASTER_PUBLIC)
    assert len(token) <= sealing.MAX_REQUEST
    assert open_request(token, MASTER, find).body == body


def test_replies_are_bound_to_request_status_and_place() -> None:
    reply = REPLY.seal(200, b"body", number=3, last=False)
    assert REPLY.open(reply, 200, 3) == (b"body", False)
    wrong = [(REPLY, 201, 3), (REPLY, 200, 2), (ReplyKey("another-request", b"k" * 32), 200, 3)]
    wrong.append((ReplyKey(CLAIMS.request_id, b"x" * 32), 200, 3))
    for key, status, number in wrong:
        with pytest.raises(EnvelopeError):
            key.open(reply, status, number)


def test_whether_a_stream_ends_cannot_be_forged() -> None:
    header, *rest = REPLY.seal(200, b"body", last=False).split(".")
    opened = json.loads(decode(header))
    forged = encode(json.dumps({**opened, "last": True}).encode())
    with pytest.raises(EnvelopeError):
        REPLY.open(".".join([forged, *rest]), 200)


@pytest.mark.parametrize("garbage", [b"", b"....", b"a.b.c.d.e", b"\xff" * 50])
def test_a_garbled_reply_does_not_open(garbage: bytes) -> None:
    with pytest.raises(EnvelopeError):
        REPLY.open(garbage, 200)


def test_a_megabyte_reply_opens() -> None:
    body = b"x" * 5_000_000
    assert REPLY.open(REPLY.seal(200, body), 200) == (body, True)


SESSION = Session("0" * 32, b"s" * 32)
CALL = SessionCall("POST", "/v1/jobs", "0123456789abcdef", '{"a": 1}')


def call_opens(token: str | bytes, session: Session = SESSION) -> bool:
    try:
        open_call(token, session)
        return session_of(token) == session.id
    except EnvelopeError:
        return False


def sealed_call(header: dict[str, Any] | None = None, **changes: Any) -> str:
    content = {"method": "GET", "path": "/v1/jobs", "request_id": "0123456789abcdef", "body": None, **changes}
    return seal({"kid": SESSION.id} if header is None else header, json.dumps(content).encode(), SESSION.key)


def test_a_call_of_a_session_opens_to_what_was_sealed_and_shows_only_the_session() -> None:
    token = SESSION.seal(CALL)
    assert open_call(token, SESSION) == CALL == open_call(token.encode(), SESSION)
    assert json.loads(decode(token.partition(".")[0])) == {"alg": "dir", "enc": "A256GCM", "kid": SESSION.id}


def test_a_call_is_a_jwe_that_a_jose_library_reads_and_makes() -> None:
    registry, key = jwe.JWERegistry(algorithms=["dir", "A256GCM"]), OctKey.import_key(SESSION.key)
    read = jwe.decrypt_compact(SESSION.seal(CALL), key, registry=registry)
    assert json.loads(read.plaintext or b"")["path"] == "/v1/jobs"
    header = {"alg": "dir", "enc": "A256GCM", "kid": SESSION.id}
    assert open_call(jwe.encrypt_compact(header, read.plaintext or b"", key, registry=registry), SESSION) == CALL


@pytest.mark.parametrize("part", [0, 2, 3, 4])
def test_a_changed_byte_anywhere_in_a_call_is_noticed(part: int) -> None:
    parts = SESSION.seal(CALL).split(".")
    middle = len(parts[part]) // 2
    other = "A" if parts[part][middle] != "A" else "B"
    parts[part] = parts[part][:middle] + other + parts[part][middle + 1 :]
    assert not call_opens(".".join(parts))


def test_a_call_opens_under_no_other_key_and_no_other_id() -> None:
    assert not call_opens(SESSION.seal(CALL), Session(SESSION.id, b"t" * 32))
    assert not call_opens(SESSION.seal(CALL), Session("1" * 32, SESSION.key))


def test_a_reply_is_no_call_and_a_call_no_reply() -> None:
    reply = SESSION.reply_key(CALL.request_id)
    assert not call_opens(reply.seal(200, sealed_call().encode()))
    with pytest.raises(EnvelopeError):
        reply.open(SESSION.seal(CALL), 200)


@pytest.mark.parametrize(
    "header", [{"alg": "RSA-OAEP-256"}, {"enc": "A128GCM"}, {"zip": "DEF"}, {"kid": "x" * 32}, {"kid": 7}]
)
def test_a_call_with_another_header_does_not_open(header: dict[str, Any]) -> None:
    assert not call_opens(sealed_call({"kid": SESSION.id, **header}))


@pytest.mark.parametrize(
    "changes",
    [{"path": None}, {"method": 1}, {"body": {}}, {"request_id": "x"}, {"request_id": 7}, {"more": 1}],
)
def test_a_call_of_another_form_does_not_open(changes: dict[str, Any]) -> None:
    assert call_opens(sealed_call())
    assert not call_opens(sealed_call(**changes))


@pytest.mark.parametrize("garbage", ["", ".", "....", "a.b.c.d.e", "é.b.c.d.e", "x" * 5000, "{}", "." * 100_000])
def test_garbage_is_no_call(garbage: str) -> None:
    assert not call_opens(garbage)
    assert not call_opens(garbage.encode())


def test_deep_headers_are_no_call() -> None:
    deep = encode(("[" * 500).encode())
    assert not call_opens(f"{deep}..{encode(b'i' * 12)}.{encode(b'c')}.{encode(b't' * 16)}")
