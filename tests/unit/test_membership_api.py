"""The membership API without its socket: tokens, routes, shared values over a store in memory."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from json import loads
from pathlib import Path
from random import Random
from runpy import run_path
from typing import Any

import pytest
from msgspec import convert, structs

from grass.api.task_token import job_secret, task_token
from grass.errors import ConflictError, InputError, NodeUnreachableError, NotAllowedError, NotFoundError
from grass.model.framework import Framework, FrameworkName
from grass.node_config import NodeConfig, NodeHome
from grass.serving.front import Limits
from grass.store.keys import Keys
from grass.store.queue_store import QueueLink
from grass.store.shared_store import SharedStore
from grass.wire.codec import builtins, encode
from grass.wire.keys import AttemptKey
from grass.wire.membership import Member, Membership
from grass.wire.membership_api import MOST_ARGUMENTS, MOST_BODY, MOST_VALUE, BarrierState, KeyState, World
from node.agent import folders
from node.membership import server
from node.membership.api import Api, Request
from node.membership.forwarding import Forwarding
from node.membership.late_files import LateFiles
from node.membership.memberships import Memberships
from node.membership.queues import Queues
from node.membership.shared_values import MOST_KEYS, SharedValues
from tests.doubles.memory_backend import MemoryBackend
from tests.support.dlrover_pickles import library
from tests.support.templates import changed, template
from tests.support.waiting import wait_until

SECRET = job_secret("master", "j-1")
TASK_LIBRARY = Path(__file__).parents[2] / "grass" / "task" / "library" / "python"
KEYS = [f"j-1/w.{index}/1" for index in range(3)]


def world(generation: int, *indexes: int) -> Membership:
    members = tuple(Member(f"w.{index}", 1, "n1", "10.0.0.1", 1, rank) for rank, index in enumerate(indexes))
    return Membership(generation, 7, len(indexes), 1, 3, 1, members)


class Counting(MemoryBackend):
    """Counts how often a value is read."""

    reads = 0

    def get(self, key: str) -> str | None:
        self.reads += 1
        return super().get(key)


class Tasks:
    """The API as tasks of one job see it."""

    def __init__(self, folder: Path, most_keys: int = MOST_KEYS) -> None:
        self.config = NodeHome("lab", "local", str(folder), str(folder), node=NodeConfig("n1"))
        self.memberships = Memberships(self.config)
        self.template = template(secret=SECRET)
        self.backend = Counting()
        self.values = SharedValues(SharedStore(self.backend, Keys("g:")), self.memberships, most_keys)
        self.drained: list[str] = []
        forwarding = Forwarding(self.config, self.memberships)
        self.done: list[str] = []
        queues = Queues(QueueLink(self.backend, Keys("g:"), "n1"), "n1")
        self.api = Api(self.memberships, self.values, forwarding, queues, self.drained.append, self.done.append)
        launches = {"j-1/w": self.template}
        self.memberships.reset({"j-1/w": world(1, 0, 1)}, launches)

    def change(self, membership: Membership) -> None:
        self.memberships.apply({"j-1/w": membership}, {}, {"j-1/w": self.template})
        self.values.changed(["j-1"])

    def ask(self, method: str, path: str, body: object = None, key: str = KEYS[0], token: str = "") -> object:
        header = f"Bearer {token or task_token(SECRET, key)}"
        return self.api.answer(Request(method, path, header, encode(body).encode() if body is not None else b""))


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    return Tasks(tmp_path)


def test_a_task_sees_its_membership_with_generation_and_epoch(tasks: Tasks) -> None:
    found = tasks.ask("GET", "/v1/world", key=KEYS[1])
    assert isinstance(found, World)
    assert (found.generation, found.epoch, found.rank, found.released) == (1, 7, 1, False)
    later = tasks.ask("GET", "/v1/world", key=KEYS[2])
    assert isinstance(later, World) and later.rank is None and not later.released


def test_a_task_that_was_a_member_is_released_also_after_a_restart_of_the_node_agent(tasks: Tasks) -> None:
    tasks.change(world(2, 0))
    released = tasks.ask("GET", "/v1/world?after=5&wait=60", key=KEYS[1])
    assert isinstance(released, World) and released.released
    again = Memberships(tasks.config)
    again.reset({"j-1/w": world(2, 0)}, {"j-1/w": tasks.template})
    assert again.world(AttemptKey.parse(KEYS[1]), -1, 0).released


def test_who_waits_hears_of_the_next_generation(tasks: Tasks) -> None:
    found: list[World] = []
    thread = threading.Thread(target=lambda: found.append(tasks.memberships.world(AttemptKey.parse(KEYS[0]), 1, 20)))
    thread.start()
    tasks.change(world(2, 0, 1, 2))
    thread.join(20)
    assert [each.generation for each in found] == [2]


def test_the_files_are_written_with_the_membership_and_the_secret_goes_with_the_job(tasks: Tasks) -> None:
    path = tasks.config.node_dir / "jobs" / "j-1" / "components" / "w" / "membership.json"
    assert '"generation": 1' in path.read_text()
    secret = tasks.config.node_dir / "secrets" / "j-1"
    assert secret.read_text() == SECRET and secret.stat().st_mode & 0o777 == 0o600
    tasks.memberships.forget(["j-1"])
    assert not secret.exists()
    with pytest.raises(NotAllowedError):
        tasks.ask("GET", "/v1/world")


@pytest.mark.parametrize("component", ["addresses", "library", "components"])
def test_a_component_may_have_the_name_of_a_file_of_the_job(tasks: Tasks, component: str) -> None:
    folders.write_addresses(tasks.config, "j-1", "w.0 10.0.0.1 4000 mars\n")
    made = template(name=component, secret=SECRET, framework=Framework(FrameworkName.TORCHRUN))
    launches = {f"j-1/{component}": made}
    tasks.memberships.apply({f"j-1/{component}": world(1, 0)}, launches, launches)
    folders.write_addresses(tasks.config, "j-1", "")
    assert (tasks.config.node_dir / "jobs" / "j-1" / "library" / "bin" / "ssh").is_file()


def test_only_a_released_task_leaves(tasks: Tasks) -> None:
    tasks.ask("POST", "/v1/leave", {})
    assert tasks.drained == []
    tasks.change(world(2, 1))
    tasks.ask("POST", "/v1/leave", {})
    assert tasks.drained == [KEYS[0]]


@pytest.mark.parametrize(
    "token",
    [
        "",
        "nonsense",
        KEYS[0],
        task_token("another secret", KEYS[0]),
        task_token(SECRET, KEYS[1]).replace("w.1", "w.0"),
        task_token(job_secret("master", "other-1"), "other-1/w.0/1"),
    ],
)
def test_a_wrong_token_is_refused(tasks: Tasks, token: str) -> None:
    with pytest.raises(NotAllowedError):
        tasks.api.answer(Request("GET", "/v1/world", f"Bearer {token}", b""))


def put(tasks: Tasks, key: str, body: dict[str, object]) -> KeyState:
    return convert(builtins(tasks.ask("PUT", f"/v1/kv/{key}", body)), KeyState)


def get(tasks: Tasks, key: str) -> KeyState:
    return convert(builtins(tasks.ask("GET", f"/v1/kv/{key}", key=KEYS[1])), KeyState)


def test_values_are_shared_and_compared_and_set(tasks: Tasks) -> None:
    assert get(tasks, "a/b").value is None
    first = put(tasks, "a/b", {"value": "1", "expect": ""})
    assert first.stored and get(tasks, "a/b").value == "1"
    assert not put(tasks, "a/b", {"value": "2", "expect": ""}).stored
    second = put(tasks, "a/b", {"value": "2", "expect": first.revision})
    assert second.stored and not put(tasks, "a/b", {"value": "3", "expect": first.revision}).stored
    assert (get(tasks, "a/b").value, get(tasks, "a/b").epoch) == ("2", 7)
    deleted = convert(builtins(tasks.ask("DELETE", "/v1/kv/a/b")), KeyState)
    assert deleted.stored and get(tasks, "a/b").revision == ""


def test_a_barrier_passes_once_all_members_have_come(tasks: Tasks) -> None:
    alone = convert(builtins(tasks.ask("POST", "/v1/barrier/go", {})), BarrierState)
    assert (alone.passed, alone.arrived, alone.expected) == (False, 1, 2)
    both = convert(builtins(tasks.ask("POST", "/v1/barrier/go?wait=10", {}, KEYS[1])), BarrierState)
    assert both.passed and both.generation == 1
    with pytest.raises(ConflictError, match="not a member"):
        tasks.ask("POST", "/v1/barrier/go", {}, KEYS[2])
    tasks.change(world(2, 0, 1, 2))
    assert not convert(builtins(tasks.ask("POST", "/v1/barrier/go", {})), BarrierState).passed


def later(tasks: Tasks, method: str, path: str, key: str = KEYS[0]) -> Future[object]:
    """Ask in a thread."""
    found: Future[object] = Future()
    body = {} if method == "POST" else None
    threading.Thread(target=lambda: found.set_result(tasks.ask(method, path, body, key)), daemon=True).start()
    return found


def test_who_waits_for_a_value_reads_the_store_when_it_changes_and_not_in_between(tasks: Tasks) -> None:
    waiting = later(tasks, "GET", "/v1/kv/a?revision=none&wait=60", KEYS[1])
    wait_until(lambda: tasks.backend.reads == 3)  # at once, when it is registered, and when the listener has begun
    for number in range(100):
        put(tasks, f"other-{number}", {"value": "x"})
    reads = tasks.backend.reads
    assert not waiting.done()
    put(tasks, "a", {"value": "1"})
    found = waiting.result(20)
    assert isinstance(found, KeyState) and found.value == "1"
    assert tasks.backend.reads == reads + 1


def test_a_barrier_that_waits_ends_when_the_membership_changes(tasks: Tasks) -> None:
    waiting = later(tasks, "POST", "/v1/barrier/go?wait=60")
    wait_until(lambda: tasks.backend.reads > 0)
    tasks.change(world(2, 0, 1, 2))
    found = waiting.result(20)
    assert isinstance(found, BarrierState) and not found.passed and found.generation == 1


def test_who_waits_for_a_value_of_a_job_that_is_forgotten_is_answered(tasks: Tasks) -> None:
    waiting = later(tasks, "GET", "/v1/kv/a?revision=none&wait=60")
    wait_until(lambda: tasks.backend.reads > 1)
    tasks.values.forget(["j-1"])
    found = waiting.result(20)
    assert isinstance(found, KeyState) and found.value is None


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/world?wait=x", None),
        ("GET", "/v1/world?after=one", None),
        ("GET", "/v1/kv/", None),
        ("GET", "/v1/kv/a%20b", None),
        ("PUT", "/v1/kv/a", {}),
        ("PUT", "/v1/kv/a", {"value": 1}),
        ("PUT", "/v1/kv/a", {"value": "x" * 20_000}),
        ("PUT", "/v1/kv/a", {"value": "x", "ttl": 0}),
        ("PUT", "/v1/kv/a", {"value": "x", "ttl": 1e9}),
        ("PUT", "/v1/kv/a", {"value": "x", "other": 1}),
        ("POST", "/v1/exec", {"host": "w.0", "argv": []}),
        ("POST", "/v1/exec", {"host": "w.0"}),
    ],
)
def test_bad_input_is_refused(tasks: Tasks, method: str, path: str, body: object) -> None:
    with pytest.raises(InputError):
        tasks.ask(method, path, body)


def test_an_unknown_host_or_route_is_not_found(tasks: Tasks) -> None:
    with pytest.raises(NotFoundError, match="no task of this job"):
        tasks.ask("POST", "/v1/exec", {"host": "elsewhere", "argv": ["true"]})
    with pytest.raises(NotFoundError):
        tasks.ask("GET", "/v1/other")
    with pytest.raises(NotFoundError):
        tasks.ask("GET", "/v1/exec/n9:abcdefgh/output")
    for verb in ("..", "é", "output/x", "output%3Fafter=1"):
        with pytest.raises(NotFoundError, match="no such route"):
            tasks.ask("POST", f"/v1/exec/n1:abcdefgh/{verb}", {})


@pytest.fixture
def client(tasks: Tasks) -> Iterator[Any]:
    """The module that tasks use, over the socket."""
    serving = server.Server(tasks.config, tasks.api)
    serving.start()
    module = run_path(str(TASK_LIBRARY / "grass_membership.py"))
    try:
        yield module["Api"](str(serving.path), task_token(SECRET, KEYS[0]))
    finally:
        serving.stop()


@pytest.mark.parametrize("character", ["x", "\x01", "é", "😀"])
def test_a_value_of_any_characters_may_be_as_long_as_the_guide_says(client: Any, character: str) -> None:
    value = character * MOST_VALUE
    assert client.put("k", value) and client.get("k")[0] == value
    with pytest.raises(Exception, match="at most 16384 characters, got 16385") as refused:
        client.put("k", value + character)
    assert refused.value.status == 400


@pytest.mark.parametrize("size", [MOST_BODY + 1, 10_000_000, 100_000_000])
def test_a_body_that_is_far_too_large_gets_an_answer_in_json(client: Any, size: int) -> None:
    with pytest.raises(Exception, match=r"its body has .* bytes, more than the 524,288 that are read") as refused:
        client.put("k", "x" * size)
    assert refused.value.status == 413


def test_a_command_may_have_arguments_of_as_many_bytes_as_the_guide_says(client: Any) -> None:
    for word in ("\x01" * MOST_ARGUMENTS, "😀" * (MOST_ARGUMENTS // 4)):
        with pytest.raises(Exception, match="no task of this job has this name"):
            client.call("POST", "/v1/exec", {"host": "elsewhere", "argv": [word]})
        with pytest.raises(Exception, match="argv: must be a command of at most 65,536 bytes"):
            client.call("POST", "/v1/exec", {"host": "elsewhere", "argv": [word, "x"]})


@pytest.mark.parametrize("text", [r'"\ud800"', '"\xff"', "[]", '"x'])
def test_a_value_that_is_no_text_is_bad_input(tasks: Tasks, text: str) -> None:
    header = f"Bearer {task_token(SECRET, KEYS[0])}"
    body = b'{"value": %s}' % text.encode("latin-1")
    with pytest.raises(InputError):
        tasks.api.answer(Request("PUT", "/v1/kv/k", header, body))


def test_a_refusal_has_generation_and_epoch_for_who_may_know_them(tasks: Tasks) -> None:
    serving = server.Server(tasks.config, tasks.api)
    serving.start()
    ask = "GET /v1/world?wait=x HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\n\r\n"
    try:
        told, unknown, broken = (
            loads(said(serving, each).partition(b"\r\n\r\n")[2])
            for each in (ask.replace("TOKEN", task_token(SECRET, KEYS[0])), ask, "GET\r\n\r\n")
        )
    finally:
        serving.stop()
    assert (told["generation"], told["epoch"], told["error"]["code"]) == (1, 7, "bad-input")
    assert unknown.keys() == broken.keys() == {"error"}


def test_a_job_cannot_write_keys_without_end(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path, most_keys=3)
    for number in range(3):
        put(tasks, f"k{number}", {"value": "x"})
    put(tasks, "k0", {"value": "again"})
    with pytest.raises(ConflictError, match="3 keys"):
        put(tasks, "k3", {"value": "x"})
    tasks.ask("DELETE", "/v1/kv/k1")
    assert put(tasks, "k3", {"value": "x"}).stored


def test_connections_that_ask_nothing_cost_no_thread(tasks: Tasks) -> None:
    serving = server.Server(tasks.config, tasks.api)
    serving.start()
    before = set(threading.enumerate())
    try:
        with ExitStack() as peers:
            for number in range(50):
                silent = peers.enter_context(connected(serving))
                if number % 2:
                    silent.sendall(b"GET /v1/world HTTP/1.1\r\n")
            assert answered(serving)
            wait_until(lambda: set(threading.enumerate()) <= before)
    finally:
        serving.stop()


def test_the_oldest_connection_that_asks_nothing_makes_way(tasks: Tasks) -> None:
    serving = server.Server(tasks.config, tasks.api, Limits(connections=2))
    serving.start()
    try:
        with connected(serving) as first, connected(serving):
            assert answered(serving)
            assert first.recv(1) == b""
    finally:
        serving.stop()


def test_a_node_that_answers_as_many_requests_as_it_may_says_so(tasks: Tasks) -> None:
    serving = server.Server(tasks.config, tasks.api, most_requests=1)
    serving.start()
    waiting = f"GET /v1/world?after=1&wait=60 HTTP/1.1\r\nAuthorization: Bearer {task_token(SECRET, KEYS[0])}\r\n\r\n"
    try:
        with connected(serving) as first:
            first.sendall(waiting.encode())
            wait_until(lambda: said(serving, waiting.replace("wait=60", "wait=0")).startswith(b"HTTP/1.1 409"))
            tasks.change(world(2, 0, 1))
            assert first.recv(12) == b"HTTP/1.1 200"
    finally:
        serving.stop()


def test_an_answer_says_what_the_node_speaks(tasks: Tasks) -> None:
    serving = server.Server(tasks.config, tasks.api)
    serving.start()
    try:
        assert b"\r\nGrass-Speaks: 2." in said(serving, "GET /v1/world HTTP/1.1\r\n\r\n")
    finally:
        serving.stop()


def test_a_request_is_answered_whatever_number_of_tasks_wait_for_it(tasks: Tasks) -> None:
    serving = server.Server(tasks.config, tasks.api)
    serving.start()
    head = f"GET /v1/world?after=1&wait=WAIT HTTP/1.1\r\nAuthorization: Bearer {task_token(SECRET, KEYS[0])}\r\n\r\n"
    before = set(threading.enumerate())  # threads of other tests may end meanwhile
    try:
        with ExitStack() as peers:
            waiting = [peers.enter_context(connected(serving)) for _ in range(100)]
            for peer in waiting:
                peer.sendall(head.replace("WAIT", "60").encode())
            assert said(serving, head.replace("WAIT", "0")).startswith(b"HTTP/1.1 200")
            wait_until(lambda: len(set(threading.enumerate()) - before) >= len(waiting))
            tasks.change(world(2, 0, 1))
            assert {peer.recv(12) for peer in waiting} == {b"HTTP/1.1 200"}
    finally:
        serving.stop()


@pytest.mark.parametrize("sent", ["nonsense\r\n\r\n", "GET / HTTP/9.0\r\n\r\n"])
def test_what_is_no_request_gets_an_error(tasks: Tasks, sent: str) -> None:
    serving = server.Server(tasks.config, tasks.api)
    serving.start()
    try:
        assert said(serving, sent).startswith(b"HTTP/1.1 400")
    finally:
        serving.stop()


def connected(serving: server.Server) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(10)
    made.connect(str(serving.path))
    return made


def said(serving: server.Server, request: str) -> bytes:
    with connected(serving) as asking:
        asking.sendall(request.encode())
        return asking.recv(1000)


def answered(serving: server.Server) -> bool:
    return said(serving, "GET /v1/world HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403")


def test_files_that_the_disk_refuses_are_written_later_and_the_membership_is_known_at_once(tasks: Tasks) -> None:
    late = LateFiles()
    memberships = Memberships(tasks.config, late)
    folder = tasks.config.node_dir / "jobs" / "j-1"
    shutil.rmtree(folder)
    folder.touch()  # as a full disk would, it lets nobody make a folder
    memberships.reset({"j-1/w": world(2, 0, 1)}, {"j-1/w": tasks.template})
    assert memberships.world(AttemptKey.parse(KEYS[0]), -1, 0).generation == 2
    trouble = late.trouble()
    assert trouble is not None and trouble.message.startswith("cannot write the files of jobs: ")
    late.again()
    assert late.trouble() is not None
    memberships.apply({"j-1/w": world(3, 0, 1)}, {}, {"j-1/w": tasks.template})
    folder.unlink()
    late.again()
    assert late.trouble() is None
    assert '"generation": 3' in (folder / "components" / "w" / "membership.json").read_text()


def test_files_of_a_job_that_is_forgotten_are_not_written_any_more(tasks: Tasks) -> None:
    late = LateFiles()
    folder = tasks.config.node_dir / "jobs" / "j-1"
    shutil.rmtree(folder)
    folder.touch()
    memberships = Memberships(tasks.config, late)
    memberships.reset({"j-1/w": world(2, 0, 1)}, {"j-1/w": tasks.template})
    memberships.forget(["j-1"])
    assert late.trouble() is None


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"error": "x"}', b'{"error": {"code": 1}}', b"<html>", b""])
def test_an_answer_of_a_node_that_is_no_error_body_is_said(tasks: Tasks, body: bytes) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as node:
        threading.Thread(target=node.handle_request).start()
        there = Member("w.9", 1, "n9", "127.0.0.1", 1, 0, {}, node.server_port)
        tasks.change(structs.replace(world(2), members=(there,)))
        with pytest.raises(NodeUnreachableError, match="node n9: "):
            tasks.ask("POST", "/v1/exec", {"host": "w.9", "argv": ["true"]})


def test_the_shim_and_the_plugin_are_there_for_a_component_with_a_framework(tasks: Tasks) -> None:
    launcher = changed(tasks.template, framework=Framework(FrameworkName.HOROVOD))
    tasks.memberships.apply({"j-1/w": world(2, 0, 1)}, {"j-1/w": launcher}, {"j-1/w": launcher})
    folder = tasks.config.node_dir / "jobs" / "j-1"
    assert (folder / "library" / "bin" / "ssh").stat().st_mode & 0o111
    assert (folder / "components" / "w" / "hosts").read_text() == "w-0-1:1\nw-1-1:1\n"
    assert (folder / "components" / "w" / "discover_hosts.sh").stat().st_mode & 0o111


def test_a_task_says_that_it_may_be_stopped_with_its_own_token_only(tasks: Tasks) -> None:
    tasks.ask("POST", "/v1/done", {}, key=KEYS[1])
    assert tasks.done == [KEYS[1]]
    with pytest.raises(NotAllowedError):
        tasks.ask("POST", "/v1/done", {}, key=KEYS[0], token=task_token(SECRET, KEYS[1]).replace("w.1", "w.0"))
    assert tasks.done == [KEYS[1]]


@pytest.fixture
def keepers(client: Any) -> Any:
    """Makes what keeps the state of a master for DLRover's clients, over the same values."""
    keeping = library("keeping")
    api = import_module("grass_membership").Api(client._path, client._token)
    return lambda writer: keeping.Keeper(api, writer)


@pytest.mark.parametrize("size", [10, 200_000])
def test_the_state_of_a_master_is_that_of_its_last_answer(keepers: Any, client: Any, size: int) -> None:
    first, text = keepers("a"), "".join(map(chr, Random(1).choices(range(33, 126), k=size)))
    assert first.read() is None
    for number in range(3):
        first.write({"number": number, "text": text})
    second = keepers("b")
    assert second.read() == {"number": 2, "text": text}
    second.write({"number": 3, "text": text})
    assert keepers("c").read() == {"number": 3, "text": text}
    assert client.get("dlrover/state/a1/0")[0] is None, "pieces of the first one are removed"


def test_a_master_that_was_believed_dead_ends_and_spoils_nothing(keepers: Any) -> None:
    first, text = keepers("a"), "".join(map(chr, Random(1).choices(range(33, 126), k=50_000)))
    first.write({"of": "first", "text": text})
    second = keepers("b")
    second.read()
    second.write({"of": "second", "text": text})
    with pytest.raises(library("keeping").Superseded):
        first.write({"of": "first", "text": text[::-1]})
    assert keepers("c").read() == {"of": "second", "text": text}
    second.write({"of": "second", "text": ""})
