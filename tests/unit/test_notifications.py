"""What is without_other_jobs after the end of a job, and that no receiver of it can harm the master-agent."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from grass.config import ClusterConfig, MasterConfig
from grass.errors import ManifestError
from grass.manifest import parse_job
from grass.manifest.settings import parse_settings
from grass.model.job import Component, Job
from grass.model.lifecycle import JobState
from grass.model.names import MAX_NAME
from grass.model.notify import Notify, OnEnd
from grass.model.reasons import Reason, ReasonCode
from grass.model.resources import Resources
from grass.store.keys import Keys
from grass.wire.codec import encode
from grass.wire.event_record import EventRecord
from grass.wire.job_record import ComponentRecord, JobRecord
from grass.wire.notification import NOTIFICATION, Notification
from master.agent.courier import Courier
from master.agent.deliveries import OWN, SENDERS, Deliveries, Waiting
from master.agent.notifications import follow_up, without_other_jobs
from master.agent.step import Limits
from master.agent.webhook import NotAcceptedError, RefusedError, post
from master.api.views import specification
from tests.doubles.memory_backend import MemoryBackend
from tests.support.waiting import wait_until
from tests.support.world import World

KEYS = Keys("grass:test:")


@dataclass
class Receiver:
    """A webhook that records what it gets and answers as told, one status after the other (the last one stays)."""

    statuses: list[int]
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    receiver = Receiver(list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append((dict(self.headers), body))
            status = receiver.statuses[min(len(receiver.got), len(receiver.statuses)) - 1]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", receiver.url)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook?a=b"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def misbehaving(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that answers each connection by ``answer``, and holds it open."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for connection in held:
                connection.close()


def drip(connection: socket.socket) -> None:
    stop = threading.Event()
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not stop.wait(0.02):
            connection.sendall(b"x")
    except OSError:
        pass


@contextmanager
def courier(notify: Notify | None = None, own_machine: bool = True) -> Iterator[tuple[Courier, MemoryBackend]]:
    backend = MemoryBackend()
    made = Courier(backend, KEYS, "lab", notify, own_machine)
    try:
        yield made, backend
    finally:
        made.close()


def put(backend: MemoryBackend, name: str, webhook: str | None, **more: Any) -> Notification:
    event = EventRecord(1.0, "job-failed", f"job {name}: failed", job=name)
    found = Notification(id=f"{name}-1:end", event=event, webhook=webhook, **more)
    backend.apply([("HSET", KEYS.notifications, found.id, encode(found))])
    return found


def record_of(user: str) -> JobRecord:
    return JobRecord(id="j-1", name="j", user=user, state=JobState.FAILED, submitted=1.0)


def waiting(backend: MemoryBackend) -> dict[str, Notification]:
    return {key: NOTIFICATION.decode(text) for key, text in backend.hgetall(KEYS.notifications).items()}


# what is decided


def job_with(on_end: OnEnd) -> Job:
    return Job("j", {"t": Component("t", "x", resources=Resources())}, ("t",), on_end=on_end)


def test_the_end_of_a_job_is_committed_with_its_notification_once() -> None:
    world = World()
    world.add_node("n1")
    world.submit(job_with(OnEnd("http://example.org/", "a secret")))
    assert waiting(world.backend) == {}
    world.end("j-1/t.0/1", code=3)
    world.takeover()
    [found] = waiting(world.backend).values()
    assert (found.id, found.event.kind, found.webhook, found.secret) == (
        "j-1:end",
        "job-failed",
        "http://example.org/",
        "a secret",
    )
    assert found.record is not None and (found.record.state.value, found.record.exit_code) == ("FAILED", 3)


@pytest.mark.parametrize("read_only", [True, False])
def test_the_command_at_the_end_of_a_job_that_may_only_read_may_only_read_too(read_only: bool) -> None:
    world = World()
    world.submit(replace(job_with(OnEnd(command="mail")), read_only_data=read_only))
    job = follow_up(world.cluster.jobs["j-1"])
    assert job is not None and job.read_only_data is read_only


@pytest.mark.parametrize(("code", "count"), [(3, 1), (0, 0)])
def test_who_asks_for_failures_alone_is_told_of_nothing_else(code: int, count: int) -> None:
    world = World()
    world.add_node("n1")
    world.submit(job_with(OnEnd("http://example.org/", command="mail", states=(JobState.FAILED,))))
    world.end("j-1/t.0/1", code=code)
    assert (len(waiting(world.backend)), len(world.jobs())) == (count, 1 + count)


def test_the_body_tells_the_cause_that_the_task_printed() -> None:
    world = World()
    world.add_node("n1")
    world.submit(job_with(OnEnd("http://example.org/")))
    error = "ValueError: loss is nan (train.py:41)"
    reason = {"code": "exit-code", "message": f"ended with exit code 1: {error}", "details": {"error": error}}
    world.end("j-1/t.0/1", code=1, reason=reason)
    [found] = waiting(world.backend).values()
    assert error in found.event.message
    assert found.record is not None and found.record.reason is not None and error in found.record.reason.message


def test_a_command_is_run_as_a_job_of_the_same_user_and_tells_nobody_of_its_end() -> None:
    world = World()
    world.add_node("n1")
    world.submit(job_with(OnEnd(command="mail")), user="bob")
    world.end("j-1/t.0/1", code=3)
    command = world.job("j-on-end")
    assert (command["user"], command["state"]) == ("bob", "RUNNING")
    env = world.nodes["n1"].launch[f"{command['id']}/on-end"].component.env
    assert env == {
        "GRASS_ENDED_JOB": "j",
        "GRASS_ENDED_JOB_ID": "j-1",
        "GRASS_ENDED_STATE": "FAILED",
        "GRASS_ENDED_EXIT_CODE": "3",
        "GRASS_ENDED_REASON": "t.0 failed: ended with exit code 3",
    }
    world.end(f"{command['id']}/on-end.0/1")
    assert len(world.jobs()) == 2


def test_the_name_of_the_command_of_a_job_with_the_longest_name_is_a_name() -> None:
    world = World()
    world.add_node("n1")
    world.submit(replace(job_with(OnEnd(command="mail")), name="j" * MAX_NAME))
    world.end(f"{'j' * MAX_NAME}-1/t.0/1")
    assert world.job("j" * (MAX_NAME - len("-on-end")) + "-on-end")["state"] == "RUNNING"


def test_the_cluster_is_told_of_the_kinds_that_its_settings_name() -> None:
    world = World(Limits(notify=Notify(command=("x",), kinds=("node-lost", "job-failed"))))
    world.add_node("n1")
    world.submit(job_with(OnEnd()))
    world.nodes["n1"].connected = False
    world.advance(400)
    assert [each.event.kind for each in waiting(world.backend).values()] == ["node-lost"]


# how it is delivered


class CountsTries(MemoryBackend):
    """Remembers which numbers of tries were written of notifications."""

    def __init__(self) -> None:
        super().__init__()
        self.tries: list[int] = []

    def apply(self, ops: list[Any], guards: list[Any] | None = None, *, urgent: bool | None = None) -> int:
        changed = [op for op in ops if op[0] == "HSWAP" and op[1] == KEYS.notifications]
        self.tries += [NOTIFICATION.decode(op[4]).tries for op in changed if op[4]]
        return super().apply(ops, guards)


def test_a_delivery_is_signed_and_has_the_same_id_until_it_is_accepted() -> None:
    """The second try is a second after the first, and the third two seconds after that."""
    backend = CountsTries()
    with receiving(500, 302, 204) as receiver:
        put(backend, "j", receiver.url, secret="a secret")
        made = Courier(backend, KEYS, "lab", None, True)
        made.start()
        try:
            wait_until(lambda: not waiting(backend))
        finally:
            made.close()
    assert len(receiver.got) == 3 and backend.tries == [1, 2]
    headers, body = receiver.got[-1]
    assert {headers["Grass-Notification"] for headers, _ in receiver.got} == {"j-1:end"}
    wanted = hmac.new(b"a secret", body, hashlib.sha256).hexdigest()
    assert headers["Grass-Signature"] == f"sha256={wanted}"
    assert json.loads(body)["event"]["message"] == "job j: failed"
    assert json.loads(body)["cluster"] == "lab"
    assert b"a secret" not in body


def test_a_receiver_that_hangs_delays_no_other() -> None:
    with misbehaving(lambda _: None) as hangs, receiving(200) as receiver, courier() as (made, backend):
        for name in ("a", "b", "c"):
            put(backend, name, hangs)
        put(backend, "z", receiver.url)
        made.start()
        wait_until(lambda: "z-1:end" not in waiting(backend), seconds=5)
        assert {"a-1:end", "b-1:end", "c-1:end"} == set(waiting(backend))


def test_receivers_of_jobs_that_hang_do_not_delay_that_of_the_cluster() -> None:
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving(200))
        made, backend = stack.enter_context(courier(Notify(receiver.url)))
        for number in range(SENDERS):
            put(backend, f"a{number}", stack.enter_context(misbehaving(lambda _: None)))
        put(backend, "z", None)
        made.start()
        wait_until(lambda: "z-1:end" not in waiting(backend), seconds=5)
        assert len(waiting(backend)) == SENDERS


@pytest.mark.parametrize("answer", [lambda _: None, drip], ids=["hangs", "drips"])
def test_a_call_ends_in_time_whatever_the_receiver_does(answer: Callable[[socket.socket], object]) -> None:
    with misbehaving(answer) as url, pytest.raises((OSError, NotAcceptedError)):
        post(url, b"{}", {}, anywhere=True, seconds=0.3)


def test_a_receiver_that_talks_nonsense_or_redirects_has_not_accepted() -> None:
    with (
        misbehaving(lambda connection: connection.sendall(b"nonsense\r\n\r\n")) as url,
        pytest.raises(NotAcceptedError),
    ):
        post(url, b"{}", {}, anywhere=True)
    with receiving(302) as receiver, pytest.raises(NotAcceptedError, match="redirects are not followed"):
        post(receiver.url, b"{}", {}, anywhere=True)
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "169.254.169.254", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_a_webhook_of_a_job_reaches_nothing_that_only_the_master_reaches(host: str) -> None:
    with pytest.raises(RefusedError, match="own host or link"):
        post(f"http://{host}:9/", b"{}", {}, anywhere=False)


def test_what_is_refused_for_good_is_given_up_with_an_event() -> None:
    with courier(own_machine=False) as (made, backend):
        put(backend, "j", "http://127.0.0.1:9/")
        made.start()
        wait_until(lambda: not waiting(backend))
    [(_, fields)] = backend.stream(KEYS.events, "0", 10)
    assert json.loads(fields["event"])["kind"] == "notification-failed"


def test_a_webhook_of_a_job_may_not_call_the_master_by_its_address_in_a_network() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network but loopback")
        own = probe.getsockname()[0]
    with pytest.raises(RefusedError, match="own host or link"):
        post(f"http://{own}:9/", b"{}", {}, anywhere=False)


def test_a_receiver_of_one_user_that_hangs_delays_no_other_user() -> None:
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving(200))
        made, backend = stack.enter_context(courier())
        for number in range(3 * SENDERS):
            put(backend, f"a{number}", stack.enter_context(misbehaving(lambda _: None)), record=record_of("ann"))
        made.start()
        made.accept([put(backend, "z", receiver.url, record=record_of("bob"))])
        wait_until(lambda: "z-1:end" not in waiting(backend), seconds=40)
        assert len(waiting(backend)) == 3 * SENDERS


def test_the_next_delivery_is_for_the_user_with_the_fewest_under_way() -> None:
    waits = Deliveries(senders=4)
    for number in range(5):
        waits.add(Waiting(f"a{number}", "ann", f"host{number}"))
    assert waits.next_delivery(0.0) == ("a0", "ann", "host0", 0.0)
    assert waits.next_delivery(0.0) == ("a1", "ann", "host1", 0.0)
    waits.add(Waiting("b0", "bob", "host0"))
    waits.add(Waiting("c0", "cid", "host0"))
    taken = waits.next_delivery(0.0)
    assert taken is not None and taken.id == "b0"
    assert waits.next_delivery(0.0) == Waiting("c0", "cid", "host0")
    waits.add(Waiting("d0", "dan", "host0"))
    assert waits.next_delivery(0.0) is None  # four are under way
    waits.add(Waiting("own", OWN, OWN))
    assert waits.next_delivery(0.0) == Waiting("own", OWN, OWN)  # it waits for no user
    waits.remove(taken)
    waits.finish(taken)
    assert waits.next_delivery(0.0) == Waiting("d0", "dan", "host0")
    waits.finish(Waiting("c0", "cid", "host0"))
    assert waits.next_delivery(0.0) is None  # a user has at most half of them


def test_a_user_has_one_delivery_at_a_time_to_a_receiver_and_each_gets_its_turn() -> None:
    waits = Deliveries()
    for number in range(4):
        waits.add(Waiting(f"{number}", "ann", "host"))
    order = []
    while (taken := waits.next_delivery(0.0)) is not None:
        assert waits.next_delivery(0.0) is None
        order.append(taken.id)
        waits.remove(taken)
        waits.finish(taken)
    assert order == ["0", "1", "2", "3"] and waits.next_due(0.0) is None


def test_what_failed_waits_for_its_time_and_delays_no_later_one() -> None:
    waits = Deliveries()
    first, second = Waiting("1", "ann", "host"), Waiting("2", "ann", "host")
    waits.add(first)
    waits.add(second)
    assert waits.next_delivery(0.0) == first and waits.next_delivery(0.0) is None
    waits.add(first._replace(due=8.0))
    waits.finish(first)
    assert waits.next_delivery(0.0) == second
    waits.remove(second)
    waits.finish(second)
    assert waits.next_delivery(7.9) is None and waits.next_due(7.9) == 8.0
    assert waits.next_delivery(8.0) == first._replace(due=8.0)


def test_too_many_notifications_of_one_user_push_out_none_of_others() -> None:
    waits = Deliveries(most=10)
    waits.add(Waiting("b", "bob", "host"))
    given_up = [waits.add(Waiting(f"{number}", "ann", f"host{number}")) for number in range(20)]
    assert [each.id for each in given_up if each is not None] == [str(number) for number in range(11)]
    assert Waiting("b", "bob", "host") in waits and Waiting("0", "ann", "host0") not in waits
    seen = set()
    while (taken := waits.next_delivery(0.0)) is not None:
        seen.add(taken.id)
        waits.remove(taken)
        waits.finish(taken)
    assert seen == {"b", *(str(number) for number in range(11, 20))}


def test_what_is_given_up_because_too_many_wait_is_told() -> None:
    with courier() as (made, backend):
        made._deliveries = Deliveries(senders=0, most=2)
        made.start()
        made.accept([put(backend, name, "http://192.0.2.1/", record=record_of("ann")) for name in "abc"])
        wait_until(lambda: "a-1:end" not in waiting(backend))
        assert set(waiting(backend)) == {"b-1:end", "c-1:end"}
    [(_, fields)] = backend.stream(KEYS.events, "0", 10)
    assert "too many notifications wait" in json.loads(fields["event"])["message"]


class GivesUpFirst(MemoryBackend):
    """As if another thread gave the notification up just before it is written back."""

    def apply(self, ops: list[Any], guards: list[Any] | None = None, *, urgent: bool | None = None) -> int:
        key = KEYS.notifications
        if ops[0][0] in ("HSET", "HSWAP") and ops[0][1] == key and "a-1:end" in self.hgetall(key):
            super().apply([("HDEL", key, "a-1:end")])
        return super().apply(ops, guards)


def test_what_is_given_up_while_its_delivery_is_written_back_stays_away() -> None:
    backend = GivesUpFirst()
    made = Courier(backend, KEYS, "lab", None, True)
    with receiving(500) as receiver:
        made.accept([put(backend, "a", receiver.url)])
        made.start()
        try:
            wait_until(lambda: not waiting(backend))
            wait_until(lambda: made._deliveries.next_due(0.0) is None, seconds=10)  # it looks once more, in vain
            assert not waiting(backend) and len(receiver.got) == 1
        finally:
            made.close()


def test_the_record_that_is_told_names_no_job_of_another_user() -> None:
    behind = Reason(ReasonCode.BEHIND, "starts after job first", {"job": "first-1"})
    stopped = Reason(ReasonCode.USER_STOPPED, "stopped by ann")
    record = replace_struct(record_of("ann"), reason=stopped, components={"t": ComponentRecord(1, {}, behind)})
    assert without_other_jobs(record).reason == stopped and "first" not in encode(without_other_jobs(record))
    assert without_other_jobs(replace_struct(record, reason=behind)).reason is None


@pytest.mark.parametrize("url", ["http://[1::2::3]/", "http://example.org:99999/"])
def test_a_webhook_that_is_no_url_stops_no_delivery_to_others(url: str) -> None:
    with receiving(200) as receiver, courier() as (made, backend):
        put(backend, "a", url)
        put(backend, "z", receiver.url)
        made.start()
        wait_until(lambda: not waiting(backend))
    assert len(receiver.got) == 1


def test_the_command_of_the_cluster_gets_the_body_and_the_secret_comes_from_a_file(tmp_path: Path) -> None:
    out, key = tmp_path / "out", tmp_path / "key"
    key.write_text("from a file\n")
    with receiving(200) as receiver:
        notify = Notify(receiver.url, str(key), ("/bin/sh", "-c", f"cat > {out}"))
        with courier(notify) as (made, backend):
            put(backend, "j", None)
            made.start()
            wait_until(lambda: not waiting(backend))
        headers, body = receiver.got[0]
    assert headers["Grass-Signature"] == "sha256=" + hmac.new(b"from a file", body, hashlib.sha256).hexdigest()
    assert json.loads(out.read_text())["id"] == "j-1:end"


# what files say


def job_file(on_end: object) -> dict[str, Any]:
    return {"name": "j", "components": {"t": {"command": "x"}}, "on_end": on_end}


def test_a_job_file_names_a_webhook_or_a_command_and_the_secret_is_not_shown() -> None:
    job = parse_job(job_file({"webhook": "https://example.org/x", "secret": "long enough"})).job
    assert job.on_end == OnEnd("https://example.org/x", "long enough")
    shown = specification(job, values=True).on_end
    assert shown is not None and (shown.webhook, shown.secret) == ("https://example.org/x", "[REDACTED]")
    hidden = specification(job, values=False).on_end
    assert hidden is not None and (hidden.webhook, hidden.secret) == ("[REDACTED]", "[REDACTED]")
    only = parse_job(job_file({"command": "x", "states": ["FAILED", "stopped", "FAILED"]})).job.on_end
    assert only == OnEnd(command="x", states=(JobState.FAILED, JobState.STOPPED))
    assert parse_job(job_file({"command": ["mail", "me"]})).job.on_end == OnEnd(command=("mail", "me"))


@pytest.mark.parametrize(
    ("on_end", "path"),
    [
        ({}, "on_end"),
        ({"webhook": "ftp://x/"}, "on_end.webhook"),
        ({"webhook": "http://user:password@x/"}, "on_end.webhook"),
        ({"webhook": "http:///x"}, "on_end.webhook"),
        ({"webhook": "http://[1::2::3]/"}, "on_end.webhook"),
        ({"webhook": "http://x:99999/"}, "on_end.webhook"),
        ({"webhook": "http://x/", "secret": "short"}, "on_end.secret"),
        ({"command": "x", "secret": "long enough"}, "on_end.secret"),
        ({"hook": "http://x/"}, "on_end.hook"),
        ({"command": "x", "states": []}, "on_end.states"),
        ({"command": "x", "states": "FAILED"}, "on_end.states"),
        ({"command": "x", "states": ["FAILED", "RUNNING"]}, "on_end.states[1]"),
        ({"command": "x", "states": [7]}, "on_end.states[0]"),
        ("http://x/", "on_end"),
    ],
)
def test_what_on_end_cannot_be_is_refused_with_its_path(on_end: object, path: str) -> None:
    with pytest.raises(ManifestError) as refused:
        parse_job(job_file(on_end))
    assert path in [problem.path for problem in refused.value.problems]
    assert "short" not in str(refused.value)


def test_settings_name_the_receiver_of_the_cluster() -> None:
    found = parse_settings({"mode": "local", "notify": {"webhook": "http://x/", "kinds": ["node-lost"]}})
    assert found.notify == Notify("http://x/", kinds=("node-lost",))
    for wrong in ({}, {"command": "one text"}, {"webhook": "http://x/", "kinds": ["no-such"]}):
        with pytest.raises(ManifestError, match="notify"):
            parse_settings({"mode": "local", "notify": wrong})


def test_the_receiver_survives_the_configuration_file_of_the_master(tmp_path: Path) -> None:
    notify = Notify("http://x/", "/etc/key", ("mail", "me"), ("node-lost",))
    config = ClusterConfig("lab", "local", str(tmp_path), str(tmp_path), master=MasterConfig(notify=notify))
    path = tmp_path / "cluster.json"
    path.write_text(encode(config))
    assert ClusterConfig.load(path).master.notify == notify


def test_a_command_that_leaves_a_program_running_has_delivered(tmp_path: Path) -> None:
    (tmp_path / "flag").touch()
    command = "echo run >> ran; while [ -e flag ]; do sleep 0.1; done &"
    with courier(Notify(command=("sh", "-c", f"cd {tmp_path}; {command}"))) as (made, backend):
        put(backend, "j", None)
        made.start()
        wait_until(lambda: not waiting(backend))
    (tmp_path / "flag").unlink()
    assert (tmp_path / "ran").read_text() == "run\n"
