"""Commands beside tasks and forwards from the client to the task: a master, a node-api-server and a shepherd, all real.

They pin what is passed on: the argv, the environment, the terminal, the user, the port and the bytes.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from grass.api.execution import Execution
from grass.config import Secrets
from grass.errors import ConflictError, InputError, NotFoundError
from grass.model.lifecycle import NodeState, TaskState
from grass.wire.calls import ForwardInput
from grass.wire.codec import encode as pack
from grass.wire.node_record import NodeRecord
from grass.wire.task_record import TaskRecord
from master.api.routes import ROUTES
from node.api.app import create_app
from tests.contract.test_api_replies import Checked
from tests.support.api_world import ApiWorld, api_world
from tests.support.processes import running
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

JOB = {"name": "j", "components": {"w": {"command": "true", "ports": ["other", "page"], "web": "page", "replicas": 2}}}


class Site:
    """A job of ann whose task w.1 runs, with COLOUR in its environment, and listens on its port ``page``."""

    def __init__(self, world: ApiWorld, shepherd: ShepherdRun, page: socket.socket) -> None:
        self.world, self.shepherd, self.page = world, shepherd, page
        self.checked = Checked(world)
        self.client = self.checked.client
        shepherd.connect()
        self.job_id = self.run("ann", "j")

    def run(self, user: str, name: str) -> str:
        """Start a job as the master-agent and the node do. Return its id."""
        job_id = self.world.client(user).start({**JOB, "name": name}).id
        key = f"{job_id}/w.1/3"
        self.shepherd.launch(key, ["/bin/sleep", "1000"], COLOUR="green")
        self.shepherd.start(key, key)
        self.shepherd.started(key)
        task = TaskRecord(TaskState.RUNNING, 3, "local", ports={"other": 1, "page": self.page.getsockname()[1]})
        self.world.backend.apply([("HSET", self.world.keys.tasks(job_id), "w.1", pack(task))])
        return str(job_id)

    def execute(self, *argv: str, size: tuple[int, int] | None = None) -> Execution:
        return self.client.execute("j", "w.1", argv, size)

    def call(self, user: str, method: str, path: str, body: dict[str, object] | None = None) -> Any:
        return self.world.client(user)._transport.call(method, f"/v1/jobs/{self.job_id}/{path}", body)


@contextmanager
def node_api(world: ApiWorld, shepherd: ShepherdRun) -> Iterator[None]:
    server = make_server("127.0.0.1", 0, create_app(shepherd.config, "the-token"), threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    record = NodeRecord(name="local", state=NodeState.READY, address="127.0.0.1", api_port=server.server_port)
    world.backend.apply([("HSET", world.keys.nodes, "local", pack(record))])
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with (
        api_world(tmp_path_factory.mktemp("channels")) as world,
        ShepherdRun() as shepherd,
        socket.create_server(("127.0.0.1", 0)) as page,
        node_api(world, shepherd),
    ):
        Secrets({"api": "x"}, "the-token").save(world.config.home)
        yield Site(world, shepherd, page)


def said(execution: Execution) -> tuple[int | None, bytes, bytes]:
    """Return its exit code, and what it printed."""
    streams = {"stdout": b"", "stderr": b""}
    for stream, data in execution.output():
        streams[stream] += data
    return execution.code, streams["stdout"], streams["stderr"]


def test_a_command_gets_its_arguments_and_input_and_sees_the_environment_of_its_task(site: Site) -> None:
    script = 'printf "$COLOUR|$0|$1|"; cat; printf "\\377" >&2; exit 7'
    execution = site.execute("sh", "-c", script, "a b", "c*")
    execution.send(b"\x00\xff", end=True)
    assert said(execution) == (7, b"green|a b|c*|\x00\xff", b"\xff")
    assert (execution.node, execution.opened.attempt) == ("local", 3)


def test_a_command_gets_a_terminal_of_the_callers_size_only_if_the_caller_asks_for_one(site: Site) -> None:
    execution = site.execute("sh", "-c", "stty size; read x; stty size", size=(31, 97))
    output = execution.output()
    first = b""
    while b"31 97\r\n" not in first:
        first += next(output)[1]
    execution.resize(40, 101)
    execution.send(b"\n")
    assert b"40 101\r\n" in b"".join(data for _, data in output)
    assert said(site.execute("sh", "-c", "test -t 1"))[0] == 1


def test_the_usual_size_is_that_of_a_terminal_whose_size_nobody_says(site: Site) -> None:
    started = site.call("ann", "POST", "tasks/w.1/exec", {"argv": ["stty", "size"], "tty": True})
    path = f"tasks/w.1/exec/{started['id']}/output"
    answer = {"chunks": [], "code": None, "next": 0}
    while answer["code"] is None:
        answer = site.call("ann", "GET", f"{path}?after=0")
    assert answer == {"chunks": [["stdout", "MjQgODANCg=="]], "next": 7, "code": 0, "pause": 0.0}
    with pytest.raises(InputError, match="rows, cols: must be numbers from 1 to 9999"):
        site.execute("true", size=(0, 10_000))


def test_what_one_user_has_opened_nobody_else_finds_not_even_an_administrator_or_at_another_task(site: Site) -> None:
    execution, forwarding = site.execute("cat"), site.client.forward("j")
    session, forward = execution.opened.id, forwarding._channel.opened.id
    begin = f"tasks/w.1/exec/{session}"
    for user, path in (("root", begin), ("ann", f"tasks/w.0/exec/{session}"), ("ann", f"forward/{session}")):
        with pytest.raises(NotFoundError, match=r"no such (session|forward); it may have ended"):
            site.call(user, "GET", f"{path}/output?after=0")
        with pytest.raises(NotFoundError, match=r"no such (session|forward); it may have ended"):
            site.call(user, "DELETE", path)
    with pytest.raises(NotFoundError, match="no such forward"):
        site.call("root", "DELETE", f"forward/{forward}")
    execution.send(b"mine", end=True)
    assert said(execution) == (0, b"mine", b"")
    forwarding.close()


def test_a_name_that_names_nothing_is_refused_by_the_word_for_it(site: Site) -> None:
    for path, message in (
        ("tasks/w.1/exec/x", "exec 'x': not found"),
        ("forward/x", "forward 'x': not found"),
        ("tasks/w.1/exec/gone:abcdefgh", "node gone: not found"),
        ("tasks/nine/exec/x", "no task nine"),
    ):
        with pytest.raises(NotFoundError, match=message):
            site.call("ann", "DELETE", path)
    for connection in ("x", "-1", "9" * 5000):
        with pytest.raises(InputError, match=f"connection: must be a number, got '{connection}'"):
            site.call("ann", "DELETE", f"forward/local:abcdefgh/connections/{connection}")
    with pytest.raises(ConflictError, match=r"task j\.w\.0: not running \(PENDING\)"):
        site.client.execute("j", "w.0", ["true"])


def test_a_forward_leads_to_the_port_of_its_name_and_carries_bytes_as_they_are(site: Site) -> None:
    forwarding = site.client.forward("j")
    assert (forwarding.task, forwarding.node, forwarding.port) == ("w.1", "local", "page")
    port = int(forwarding.url.rsplit(":", 1)[1].strip("/"))
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(forwarding.serve)
        with socket.create_connection(("127.0.0.1", port), 20) as here:
            here.sendall(b"\x00\xff")
            there, _ = site.page.accept()
            with there:
                assert there.recv(10) == b"\x00\xff"
                there.sendall(b"\xfe\x01")
                assert here.recv(10) == b"\xfe\x01"
                here.shutdown(socket.SHUT_WR)
                assert there.recv(1) == b""
                there.sendall(b"bye")
            assert here.makefile("rb").read() == b"bye"
        forwarding.close()
        serving.result(20)


def test_a_task_that_reads_nothing_is_offered_the_rest_until_it_reads(site: Site) -> None:
    started = site.call("ann", "POST", "forward", {})
    path = f"forward/{started['id']}"
    body: dict[str, Any] = {"connection": 1, "data": "eHh4eHh4eHh4eHh4" * 2000, "end": False}
    taken, size = 0, 24_000
    while True:  # as much as the kernel keeps for the task
        answer = site.call("ann", "POST", f"{path}/input", {**body, "at": taken})["taken"]
        if answer < taken + size:
            break
        taken = answer
    assert site.call("ann", "POST", f"{path}/input", {**body, "at": 0})["taken"] == answer, "a repeated request"
    there, _ = site.page.accept()
    with there:
        received = 0
        while received < answer:
            received += len(there.recv(1 << 20))
        last = {"connection": 1, "at": answer, "data": "eA==", "end": True}
        assert site.call("ann", "POST", f"{path}/input", last)["taken"] == answer + 1
        assert (there.recv(10), there.recv(10)) == (b"x", b"")
        site.call("ann", "DELETE", f"{path}/connections/1")
        there.settimeout(20)
        wait_until(lambda: _is_closed(there), what="the end of the connection")
    site.call("ann", "DELETE", path)


def _is_closed(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
    except OSError:
        return True
    return False


def test_a_command_ends_when_its_caller_ends_it_and_all_of_a_user_when_that_user_is_disabled(site: Site) -> None:
    marks = [f"12{number}.{os.getpid()}" for number in range(3)]
    closed, kept = site.execute("sleep", marks[0]), site.execute("sleep", marks[1])
    site.run("bob", "k")
    site.world.client("bob").execute("k", "w.1", ["sleep", marks[2]])
    wait_until(lambda: all(running("sleep", mark) for mark in marks), what="three commands")
    closed.close()
    with pytest.raises(NotFoundError):
        list(closed.output())
    site.world.client("root").disable_user("bob")
    wait_until(lambda: not any(running("sleep", mark) for mark in (marks[0], marks[2])), what="the end of two")
    assert running("sleep", marks[1])
    kept.close()


def test_who_may_not_wait_asks_again_after_a_pause(tmp_path: Path) -> None:
    with api_world(tmp_path, waiting=0) as world:
        job = world.client().start(JOB).id
        for path, over in (("tasks/w.0/exec", {"code": None}), ("forward", {"over": False})):
            target = f"/v1/jobs/{job}/{path}/local:abcdefgh/output?after=7"
            answer = world.client()._transport.call("GET", target)
            assert answer == {"chunks": [], "next": 7, "pause": 0.5, **over}


def test_requests_and_replies_are_what_the_document_says(site: Site) -> None:
    execution = site.execute("cat", size=(24, 80))
    execution.send(b"x\x04\x04", end=True)
    execution.resize(10, 10)
    assert said(execution) == (0, b"xx", b"")
    execution.close()
    forwarding = site.client.forward("j")
    give, piece = forwarding._channel.give, ForwardInput(connection=1, at=0, data=b"x")
    assert [give(piece), give(piece), give(ForwardInput(connection=1, at=1, data=b"z", end=True))] == [1, 1, 2]
    there, _ = site.page.accept()
    with there:
        assert there.makefile("rb").read() == b"xz", "a repeated request changes nothing"
        there.sendall(b"y")
        assert next(forwarding._channel.answers()).chunks == ((1, b"y"),)
        forwarding._channel.close("/connections/1")
    forwarding.close()
    assert site.checked.found == []
    of_channels = {route.operation for route in ROUTES if route.noun in ("exec", "forward")}
    assert site.checked.seen >= of_channels


def test_what_was_opened_is_an_event_with_its_user_its_task_and_its_node(site: Site) -> None:
    site.execute("true")
    site.client.forward("j").close()
    events = {event.kind: event for event in site.client.events(job="j")}
    for kind, message in (
        ("exec", "task j.w.1: command `true` run beside it"),
        ("forward", "task j.w.1: port page opened to the machine of ann"),
    ):
        event = events[kind]
        assert event.message == message
        assert (event.user, event.task, event.node, event.run) == ("ann", "w.1", "local", site.job_id)
