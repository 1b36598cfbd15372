"""What an attacker on the wire, or a user with a key, must not achieve. Raw HTTP against a real server."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
from typing import Any

import pytest
from joserfc.jwk import RSAKey

import grass
from grass.api import sealing, signing, user_files
from grass.api.envelope import encode
from grass.api.sealing import ReplyKey, Session, SessionCall
from grass.api.signing import Claims
from grass.errors import ConflictError, NotAllowedError, NotFoundError
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.version import PROTOCOL, REVISION
from master.api.route import Access
from master.api.routes import ROUTES
from tests.support.api_world import ApiWorld, write_client
from tests.support.rsa_keys import public_jwk, raw_key

WISH = {"protocol": PROTOCOL, "version": grass.__version__}
REFUSED = b"the request could not be opened\n"
JOB = {"name": "j", "components": {"w": {"command": "true"}}}


class Wire:
    """One HTTP connection and a user's keys; everything about a request can be bent."""

    def __init__(self, world: ApiWorld, user: str = "ann", key: str | None = None) -> None:
        self.world = world
        self.user = user
        self.private = RSAKey(raw_key(key or user), raw_key(key or user))
        self.key_id = public_jwk(key or user)["kid"]
        self._session: Session | None = None
        self.master = RSAKey(raw_key("master").public_key(), raw_key("master").public_key())

    @property
    def session(self) -> Session:
        """Opened with the first call that needs it."""
        if self._session is None:
            token, reply = self.sign("POST", "/v1/session", WISH)
            status, text = self.send("POST", "/v1/session", token)
            assert status == 201
            granted = json.loads(reply.open(text, status)[0])
            self._session = Session(granted["session"], sealing.decode_key(granted["key"]))
        return self._session

    def seal(self, method: str, path: str, body: Any = None) -> tuple[str, ReplyKey]:
        """A call of the session."""
        text, new_id = None if body is None else json.dumps(body), request_id()
        return self.session.seal(SessionCall(method, path, new_id, text)), self.session.reply_key(new_id)

    def sign(self, method: str, path: str, body: Any = None, **claims: Any) -> tuple[str, ReplyKey]:
        """A request without a session."""
        given = {"request_id": request_id(), "issued_at": clock.wall(), "user": self.user, **claims}
        made = Claims(key_id=self.key_id, method=method, path=path, **given)
        reply = ReplyKey(made.request_id, os.urandom(32))
        text = None if body is None else json.dumps(body)
        return signing.seal_request(made, text, reply, self.private, self.master), reply

    def send(self, method: str, path: str, token: str | bytes, **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.world.port, timeout=20)
        try:
            raw = token.encode() if isinstance(token, str) else token
            content = raw if method == "POST" else None
            if method != "POST":
                headers["Authorization"] = "JOSE " + raw.decode("latin-1")
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        token, reply = self.seal(method, path, body)
        status, text = self.send(method, path, token)
        return status, json.loads(reply.open(text, status)[0])


def test_an_honest_request_is_answered(world: ApiWorld) -> None:
    status, body = Wire(world).call("GET", "/v1/status")
    assert (status, body["user"], body["role"]) == (200, "ann", "user")


def test_a_client_that_does_not_say_its_version_learns_the_servers_with_a_field_that_is_not_known(
    world: ApiWorld,
) -> None:
    """Clients of before revision 1 send no header."""
    status, body = Wire(world).call("POST", "/v1/jobs", {"manifest": JOB, "again": True})
    said = body["error"]["message"]
    assert status == 400 and "unknown field again; this client, which does not say its version, may be too old" in said
    assert body["error"]["speaks"] == {"protocol": PROTOCOL, "revision": REVISION, "version": grass.__version__}


def test_a_request_that_is_played_again_is_refused(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.seal("POST", "/v1/jobs", {"manifest": JOB})
    assert wire.send("POST", "/v1/jobs", token)[0] == 201
    assert wire.send("POST", "/v1/jobs", token) == (401, REFUSED)


def test_a_question_that_is_played_again_is_refused(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.seal("GET", "/v1/status")
    assert wire.send("GET", "/v1/status", token)[0] == 200
    assert wire.send("GET", "/v1/status", token) == (401, REFUSED)


def test_a_request_cannot_be_turned_to_another_path(world: ApiWorld) -> None:
    wire = Wire(world)
    for path in ("/v1/nodes", "/v1/status?x=1", "/v1/jobs"):
        token, _ = wire.seal("GET", "/v1/status")
        assert wire.send("GET", path, token) == (401, REFUSED)


def test_a_request_cannot_be_turned_to_another_query(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.seal("GET", "/v1/jobs?all=false")
    assert wire.send("GET", "/v1/jobs?all=true", token) == (401, REFUSED)


def test_a_request_cannot_be_turned_to_another_method(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.seal("GET", "/v1/jobs/j")
    assert wire.send("DELETE", "/v1/jobs/j", token) == (401, REFUSED)
    token, _ = wire.seal("POST", "/v1/jobs")
    assert wire.send("GET", "/v1/jobs", token) == (401, REFUSED)


def test_a_head_request_tells_nothing(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.seal("GET", "/v1/jobs")
    assert wire.send("HEAD", "/v1/jobs", token)[0] == 401


def test_a_changed_body_is_refused_and_changes_nothing(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.seal("POST", "/v1/jobs", {"manifest": JOB})
    head, key, iv, text, tag = token.split(".")
    changed = text[:-4] + ("AAAA" if text[-4:] != "AAAA" else "BBBB")
    assert wire.send("POST", "/v1/jobs", ".".join([head, key, iv, changed, tag])) == (401, REFUSED)
    assert world.store.job_index.counts() == {}


def test_an_unknown_user_is_refused(world: ApiWorld) -> None:
    wire = Wire(world, "mallory")
    token, _ = wire.sign("POST", "/v1/session", WISH)
    assert wire.send("POST", "/v1/session", token) == (401, REFUSED)


def test_a_user_cannot_sign_as_another(world: ApiWorld) -> None:
    wire = Wire(world, "ann")
    token, _ = wire.sign("POST", "/v1/session", WISH, user="root")
    assert wire.send("POST", "/v1/session", token) == (401, REFUSED)
    impostor = Wire(world, "root", key="ann")
    token, _ = impostor.sign("POST", "/v1/session", WISH)
    assert impostor.send("POST", "/v1/session", token) == (401, REFUSED)


def test_a_removed_user_is_refused_at_once(world: ApiWorld) -> None:
    wire = Wire(world)
    assert wire.call("GET", "/v1/status")[0] == 200
    (world.config.master_dir / "users" / "ann.json").unlink()
    token, _ = wire.seal("GET", "/v1/status")
    assert wire.send("GET", "/v1/status", token) == (401, REFUSED)


def test_a_damaged_file_of_one_user_keeps_no_other_out(world: ApiWorld, caplog: pytest.LogCaptureFixture) -> None:
    folder = world.config.master_dir / "users"
    (folder / "bob.json").unlink()  # the folder changes, and is read again
    (folder / "bob.json").write_text("{")
    assert Wire(world).call("GET", "/v1/jobs")[0] == 200
    token, _ = Wire(world, "bob").sign("POST", "/v1/session", WISH)
    assert Wire(world).send("POST", "/v1/session", token) == (401, REFUSED)
    assert "bob.json: not a registered user" in caplog.text


def test_a_user_who_is_registered_now_gets_in_at_once(world: ApiWorld) -> None:
    wire = Wire(world, "mallory")
    token, _ = wire.sign("POST", "/v1/session", WISH)
    assert wire.send("POST", "/v1/session", token) == (401, REFUSED)
    user_files.register_user(world.config.master_dir, "mallory", "viewer", public_jwk("mallory"))
    assert wire.call("GET", "/v1/status")[1]["role"] == "viewer"


@pytest.mark.parametrize("offset", [-3600.0, 3600.0])
def test_a_wrong_clock_gets_the_servers_time_under_seal(world: ApiWorld, offset: float) -> None:
    wire = Wire(world)
    token, reply = wire.sign("POST", "/v1/session", WISH, issued_at=clock.wall() + offset)
    status, text = wire.send("POST", "/v1/session", token)
    error = json.loads(reply.open(text, status)[0])["error"]
    assert (status, error["code"]) == (401, "stale-request")
    assert abs(error["now"] - clock.wall()) < 30


def test_the_client_corrects_its_clock_by_itself(world: ApiWorld) -> None:
    client = world.client("ann", wall=lambda: clock.wall() - 3600)
    assert client.start(JOB).name == "j"
    assert client.status().user == "ann"


@pytest.mark.parametrize(
    "garbage",
    [b"", b"x", b"....", b"{}", os.urandom(3000), b"a.b.c.d.e", b"\xff\xfe" * 10, b"." * 10_000],
    ids=["empty", "x", "dots", "json", "random", "letters", "bytes", "many-dots"],
)
def test_garbage_gets_a_constant(world: ApiWorld, garbage: bytes) -> None:
    assert Wire(world).send("POST", "/v1/jobs", garbage) == (401, REFUSED)


def test_no_token_at_all_gets_the_same_constant(world: ApiWorld) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=20)
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "JOSE"}, {"Authorization": "JOSE é"}):
        connection.request("GET", "/v1/jobs", headers={key: value.encode("latin-1") for key, value in headers.items()})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (401, REFUSED)
    connection.close()


def test_an_oversized_request_is_refused_before_it_is_read(world: ApiWorld) -> None:
    with socket.create_connection(("127.0.0.1", world.port), timeout=20) as sock:
        sock.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 413 ")


def test_an_oversized_chunked_request_is_cut_off(world: ApiWorld) -> None:
    with socket.create_connection(("127.0.0.1", world.port), timeout=20) as sock:
        sock.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        try:
            for _ in range(40):
                sock.sendall(chunk)
            sock.sendall(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            return
        assert sock.recv(100).startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 401 "))


def test_an_unknown_address_tells_nothing(world: ApiWorld) -> None:
    wire = Wire(world)
    for path in ("/", "/v1/secrets", "/v1/jobs/a/b/c", "/v1//jobs", "/v1/jobs/"):
        token, _ = wire.seal("GET", path)
        assert wire.send("GET", path, token) == (404, b"Not Found\n")


def test_a_viewer_reads_everything_and_changes_nothing(world: ApiWorld) -> None:
    started = world.client("ann").start(JOB)
    viewer = world.client("eve")
    assert [job.id for job in viewer.jobs()] == [started.id]
    attempts: list[Any] = [
        lambda: viewer.start({**JOB, "name": "k"}),
        lambda: viewer.stop("j"),
        lambda: viewer.delete("j"),
        lambda: viewer.forward("j", "w"),
        lambda: viewer.start_schedule({"name": "s", "jobs": ["a"], "components": {"w": {"command": "true"}}}),
        lambda: viewer.stop_schedule("s"),
    ]
    for attempt in attempts:
        with pytest.raises(NotAllowedError, match="viewer"):
            attempt()
    assert sum(world.store.job_index.counts().values()) == 1


def test_a_user_can_neither_see_nor_stop_the_jobs_of_another(world: ApiWorld) -> None:
    world.client("ann").start(JOB)
    other = world.client("bob")
    assert other.jobs(all=True) == []
    attempts: list[Any] = [other.job, other.tasks, other.why, other.stop, other.wait, other.delete, other.forward]
    for attempt in attempts:
        with pytest.raises(NotAllowedError, match="belongs to ann"):
            attempt("j")
    assert [event.kind for event in other.events()] == []
    with pytest.raises(NotAllowedError):
        list(other.events(job="j"))


def test_an_administrator_may_stop_any_job_and_the_log_says_who_did(world: ApiWorld) -> None:
    world.client("ann").start(JOB)
    world.client("root").stop("j")
    told = [(event.kind, event.user) for event in world.client("ann").events()]
    assert told == [("job-submitted", "ann"), ("job-stop-requested", "root")]


def test_a_job_id_of_another_user_cannot_be_taken_over(world: ApiWorld) -> None:
    started = world.client("ann").start(JOB)
    status, body = Wire(world, "bob").call("POST", "/v1/jobs", {"manifest": JOB, "id": started.id})
    assert (status, body["error"]["code"]) == (409, "conflict")


@pytest.mark.parametrize("left", ["jobs/{}", "logs/{}", "logs/.deleted-{}"])
def test_the_id_of_a_deleted_job_whose_files_are_left_is_not_given_again(world: ApiWorld, left: str) -> None:
    ann, job_id = world.client("ann"), "j-0123abcd"
    ann._transport.call("POST", "/v1/jobs", {"manifest": JOB, "id": job_id})
    (world.config.data_dir / left.format(job_id)).mkdir(parents=True)
    repeated = ann._transport.call("POST", "/v1/jobs", {"manifest": JOB, "id": job_id})
    assert repeated["id"] == job_id, "a submission may be sent again"
    world.end_job(job_id)
    world.backend.apply([("HDEL", key, job_id) for key in (world.keys.jobs, world.keys.specs)])
    bob, other_id = world.client("bob"), "i-0123abcd"
    with pytest.raises(ConflictError, match=f"job id {job_id}: taken by a job that was deleted"):
        bob._transport.call("POST", "/v1/jobs", {"manifest": JOB, "id": job_id})
    (world.config.data_dir / left.format(other_id)).mkdir()
    world.end_job(bob.start({**JOB, "name": "i"}).id)
    with pytest.raises(ConflictError, match=f"job id {other_id}: taken by a job that was deleted"):
        bob._transport.call("POST", "/v1/jobs/i/rerun", {"id": other_id})


def test_a_body_that_is_signed_but_senseless_gets_a_clear_error(world: ApiWorld) -> None:
    wire = Wire(world)
    for body in ([], "x", 5, {"manifest": 1}, {"manifest": {}, "x": 1}):
        status, answer = wire.call("POST", "/v1/jobs", body)
        assert (status, answer["error"]["code"] in ("bad-input", "bad-manifest")) == (400, True)


def test_deeply_nested_json_is_an_error_not_a_crash(world: ApiWorld) -> None:
    wire = Wire(world)
    reply = wire.session.reply_key(request_id())
    token = wire.session.seal(SessionCall("POST", "/v1/jobs", reply.request_id, "[" * 100_000))
    status, text = wire.send("POST", "/v1/jobs", token)
    assert json.loads(reply.open(text, status)[0])["error"]["code"] == "bad-input"


def test_a_client_with_a_foreign_key_is_told_so(world: ApiWorld) -> None:
    write_client(world.home, "mallory", f"http://127.0.0.1:{world.port}")
    with pytest.raises(NotAllowedError, match="refuses user mallory"):
        world.client("mallory").status()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x y", "é", "%2e%2e", "..", "?all=1", "a\r\nHost: b"])
def test_a_name_is_never_a_path_a_query_or_a_header(world: ApiWorld, name: str) -> None:
    with pytest.raises(NotFoundError):
        world.client("ann").job(name)


def test_a_signed_request_opens_a_session_and_nothing_else(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.sign("GET", "/v1/status")
    assert wire.send("GET", "/v1/status", token) == (401, REFUSED)
    token, _ = wire.seal("POST", "/v1/session", WISH)
    assert wire.send("POST", "/v1/session", token) == (401, REFUSED)


def test_a_call_of_a_session_cannot_be_downgraded_to_one_without_a_session(world: ApiWorld) -> None:
    """On no route that needs a session: neither to a signed request, nor to an unsigned one, nor to plain text."""
    wire = Wire(world, "root")
    routes = [route for route in ROUTES if route.access is Access.SESSION]
    assert len(routes) > 40
    for route in routes:
        path = re.sub(r"{\w+}", "x", route.path)
        signed, _ = wire.sign(route.method, path, {})
        claims = Claims("", "", route.method, path, request_id(), clock.wall())
        reply = ReplyKey(claims.request_id, os.urandom(32))
        unsigned = signing.seal_unsigned_request(claims, "{}", reply, wire.master)
        for token in (signed, unsigned, "{}"):
            assert wire.send(route.method, path, token) == (401, REFUSED), route.operation
    assert world.store.job_index.counts() == {}


def test_the_seal_of_a_call_cannot_be_taken_off_in_its_header(world: ApiWorld) -> None:
    wire = Wire(world)
    call = {"method": "GET", "path": "/v1/status", "request_id": request_id(), "body": None}
    for changed in ({"alg": "none"}, {"enc": "none"}, {"alg": "RSA-OAEP-256"}):
        header = {"alg": "dir", "enc": "A256GCM", "kid": wire.session.id, **changed}
        plain = [encode(json.dumps(part).encode()) for part in (header, call)]
        sealed = wire.seal("GET", "/v1/status")[0].split(".")
        for token in (".".join([plain[0], *sealed[1:]]), f"{plain[0]}.{plain[1]}.", f"{plain[0]}...{plain[1]}."):
            assert wire.send("GET", "/v1/status", token) == (401, REFUSED)


def test_a_signed_request_that_is_played_again_opens_nothing(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.sign("POST", "/v1/session", WISH)
    assert wire.send("POST", "/v1/session", token)[0] == 201
    assert wire.send("POST", "/v1/session", token) == (401, REFUSED)


def test_a_client_of_another_protocol_gets_a_clear_answer(world: ApiWorld) -> None:
    wire = Wire(world)
    token, reply = wire.sign("POST", "/v1/session", {"protocol": 999, "version": "9.9"})
    status, text = wire.send("POST", "/v1/session", token)
    error = json.loads(reply.open(text, status)[0])["error"]
    assert status == 400 and "this client speaks protocol 999 (Grass 9.9), the master speaks" in error["message"]


def test_a_session_goes_on_after_a_restart_and_its_calls_are_still_good_once(world: ApiWorld) -> None:
    wire = Wire(world)
    token, _ = wire.seal("POST", "/v1/jobs", {"manifest": JOB})
    stop, _ = wire.seal("POST", "/v1/jobs/j/stop", {})
    assert wire.send("POST", "/v1/jobs", token)[0] == 201
    assert wire.send("POST", "/v1/jobs/j/stop", stop)[0] == 200
    world.stop()
    world.serve()
    assert wire.send("POST", "/v1/jobs", token) == (401, REFUSED)
    assert wire.send("POST", "/v1/jobs/j/stop", stop) == (401, REFUSED)
    assert wire.call("GET", "/v1/jobs/j")[0] == 200


def test_a_session_that_the_store_lost_takes_its_calls_along(world: ApiWorld) -> None:
    """As after a clock's jump of an hour and back, which ends keys early: what was sent before is not good again."""
    wire = Wire(world)
    token, _ = wire.seal("POST", "/v1/jobs", {"manifest": JOB})
    assert wire.send("POST", "/v1/jobs", token)[0] == 201
    for key in [key for key in world.backend._strings if ":session:" in key]:
        world.backend.apply([("DEL", key)])
    fresh, _ = wire.seal("POST", "/v1/jobs/j/stop", {})
    assert wire.send("POST", "/v1/jobs", token) == (401, REFUSED)
    assert wire.send("POST", "/v1/jobs/j/stop", fresh) == (401, REFUSED)
    world.stop()
    world.serve()
    assert wire.send("POST", "/v1/jobs", token) == (401, REFUSED)


def test_a_session_of_one_user_is_of_no_use_with_the_key_of_another(world: ApiWorld) -> None:
    ann, bob = Wire(world), Wire(world, "bob")
    mixed = Session(ann.session.id, bob.session.key)
    token = mixed.seal(SessionCall("GET", "/v1/status", request_id(), None))
    assert ann.send("GET", "/v1/status", token) == (401, REFUSED)


def test_a_session_of_another_cluster_is_none_of_this_one(world: ApiWorld) -> None:
    stolen = Session(os.urandom(16).hex(), os.urandom(32))
    token = stolen.seal(SessionCall("GET", "/v1/status", request_id(), None))
    assert Wire(world).send("GET", "/v1/status", token) == (401, REFUSED)


def test_a_session_ends_with_the_key_that_opened_it(world: ApiWorld) -> None:
    """A stolen file is worth nothing once the key was replaced or removed, also while the same name is registered."""
    wire = Wire(world)
    assert wire.call("GET", "/v1/status")[0] == 200
    user_files.register_user(world.config.master_dir, "ann", "user", public_jwk("mallory"))
    token, _ = wire.seal("GET", "/v1/status")
    assert wire.send("GET", "/v1/status", token) == (401, REFUSED)


def test_a_session_has_the_role_that_its_user_has_now(world: ApiWorld) -> None:
    wire = Wire(world)
    assert wire.call("POST", "/v1/jobs", {"manifest": JOB})[0] == 201
    user_files.register_user(world.config.master_dir, "ann", "viewer", public_jwk("ann"))
    assert wire.call("POST", "/v1/jobs/j/stop", {})[0] == 403
