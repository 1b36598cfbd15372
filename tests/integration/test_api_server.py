"""`python -m master.api` as it runs in a cluster: gunicorn, a real redis, kill -9, many clients."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from grass.api.client import Client
from grass.api.keyring import load_profile
from grass.api.sealing import Session, SessionCall
from grass.api.session_file import save_session
from grass.config import RedisConfig, Secrets
from grass.errors import UnreachableError
from grass.model.lifecycle import JobState, TaskState
from grass.node_config import NodeConfig, NodeHome
from grass.serving.front import Limits
from grass.store.api_store import ApiStore
from grass.store.job_index import moved
from grass.store.keys import Keys
from grass.wire.codec import builtins
from grass.wire.codec import encode as pack
from grass.wire.task_record import TaskRecord
from tests.support.api_world import write_client, write_cluster
from tests.support.example_run import free_port
from tests.support.processes import ended
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.needs_redis
SLACK = 4
"""A machine that runs other tests, too, is so much slower than an idle one."""
JOB = {"name": "j", "components": {"w": {"command": "true"}}}


class Server:
    """The daemon over its own name in the shared redis. ``start``/``kill`` may be repeated."""

    def __init__(self, home: Path, redis_server: RedisServer) -> None:
        self.home = home
        self.redis = redis_server
        self.clients: list[Client] = []
        config = write_cluster(home, free_port(), {"ann": "user"})
        name = redis_server.prefix.split(":")[1]
        embedded = RedisConfig(socket=str(redis_server.socket))
        config = replace(config, name=name, redis=embedded, runtime_dir=str(home))
        self.config = NodeHome.of(config, NodeConfig())
        self.config.save()
        Secrets(redis=redis_server.passwords, node_token="").save(self.config.home)
        self.backend = redis_server.backend("admin")
        self.backend.delete_prefix(self.config.key_prefix)
        self.keys = Keys(self.config.key_prefix)
        self.store = ApiStore(self.backend, self.keys)
        self.log = home / "api.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "master.api", str(self.config.path)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._listens, what="the server")

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.config.master.api_port), 5):
            return True
        return False

    def worker(self) -> psutil.Process:
        assert self.process is not None
        found: list[psutil.Process] = []
        server = psutil.Process(self.process.pid)
        wait_until(lambda: found.extend(server.children()) or found, what="the worker")
        return found[0]

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(20)
            self.process = None

    def client(self) -> Client:
        client = Client("local", home=self.home / "home-ann")
        self.clients.append(client)
        return client

    def end_job(self, job_id: str) -> None:
        record = self.store.job(job_id)
        assert record is not None
        ended_record = {**builtins(record), "state": "SUCCEEDED", "ended": 2.0, "exit_code": 0}
        event = {"time": time.time(), "kind": "job-succeeded", "user": "", "message": "", "job": record.name}
        self.backend.apply(
            [
                ("HSET", self.keys.jobs, job_id, pack(ended_record)),
                ("HDEL", self.keys.live, record.name),
                *moved(self.keys, record.user, record.submitted, job_id, record.state, JobState.SUCCEEDED),
                ("XADD", self.keys.events, 0, "event", pack(event)),
            ]
        )

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.stop()
        self.backend.delete_prefix(self.config.key_prefix)
        self.backend.close()


@pytest.fixture
def server(tmp_path: Path, redis_server: RedisServer) -> Iterator[Server]:
    server = Server(tmp_path, redis_server)
    server.start()
    try:
        yield server
    finally:
        server.close()


def test_a_job_is_submitted_and_waited_for(server: Server) -> None:
    client = server.client()
    started = client.start(JOB)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        server.end_job(started.id)
        assert waiting.result(20).state == "SUCCEEDED"
    assert [event.kind for event in client.events()] == ["api-started", "job-submitted", "job-succeeded"]


def test_a_killed_worker_is_replaced_and_nobody_notices(server: Server) -> None:
    client = server.client()
    started = client.start(JOB)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, "j")
        server.worker().kill()
        assert client.job("j").id == started.id
        server.end_job(started.id)
        assert waiting.result(20).state == "SUCCEEDED"


def test_a_killed_server_leaves_its_port_to_the_next(server: Server) -> None:
    client = server.client()
    client.start(JOB)
    worker = server.worker()
    server.stop(signal.SIGKILL)
    wait_until(lambda: ended(worker))
    server.start()
    assert client.job("j").name == "j"


def test_a_stopped_server_ends_at_once_though_clients_wait(server: Server) -> None:
    client = server.client()
    started = client.start(JOB)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(client.wait, "j")
        following = pool.submit(lambda: next(iter(client.events(follow=True, kind="job-*"))))
        assert following.result(20).kind == "job-submitted"
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 8
        server.start()
        server.end_job(started.id)
        assert waiting.result(20).state == "SUCCEEDED"


@pytest.fixture
def server_and_redis(tmp_path: Path, redis_server: RedisServer) -> Iterator[tuple[Server, RedisServer]]:
    """A server that does not run yet, and its own redis, which runs, and which the test may kill."""
    own = RedisServer(redis_server.server)
    own.start()
    server = Server(tmp_path, own)
    try:
        yield server, own
    finally:
        server.close()
        own.remove()


def test_redis_may_be_away_for_a_moment(server_and_redis: tuple[Server, RedisServer]) -> None:
    server, own = server_and_redis
    server.start()
    client = server.client()
    started = client.start(JOB)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(client.wait, "j")
        own.kill()
        asking = pool.submit(client.job, "j")
        own.start()
        assert asking.result(20).id == started.id
        server.end_job(started.id)
        assert waiting.result(20).state == "SUCCEEDED"


def test_a_server_that_starts_while_redis_is_away_says_so_and_works_as_soon_as_redis_is_there(
    server_and_redis: tuple[Server, RedisServer],
) -> None:
    server, own = server_and_redis
    own.kill()
    server.start()
    worker = server.worker().pid
    with pytest.raises(UnreachableError, match="redis does not answer"):
        server.client().status()
    own.start()
    assert server.client().status().user == "ann"
    assert server.worker().pid == worker
    assert "Traceback" not in server.log.read_text()


def test_a_call_of_an_unknown_session_while_redis_is_away_is_no_defect(
    server_and_redis: tuple[Server, RedisServer],
) -> None:
    server, own = server_and_redis
    server.start()
    try:
        server.client().status()
        own.kill()
        unknown = Session("0" * 32, bytes(32))
        token = unknown.seal(SessionCall("GET", "/v1/jobs", "0" * 16, None))
        for request_text in (
            f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: JOSE {token}\r\n\r\n",
            f"GET /v1/join-tokens/{'0' * 64} HTTP/1.1\r\nHost: x\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", server.config.master.api_port), 20) as peer:
                peer.sendall(request_text.encode())
                assert peer.recv(1000).startswith(b"HTTP/1.1 503 ")
        assert "Traceback" not in server.log.read_text()
        client = server.client()
        folder = server.home / "home-ann" / "clusters" / "local" / "client"
        save_session(folder, load_profile(folder).key_id, unknown)
        with pytest.raises(UnreachableError, match="its store does not answer"):
            client.status()
    finally:
        own.start()


def test_a_peer_that_asks_whether_to_go_on_is_answered(server: Server) -> None:
    server.client().status()
    with socket.create_connection(("127.0.0.1", server.config.master.api_port), 20) as peer:
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n"
        peer.sendall(head + b"Connection: close\r\n\r\nabc")
        answer = b""
        while data := peer.recv(4096):
            answer += data
    assert b"HTTP/1.1 401 " in answer


def test_a_hundred_wait_while_others_are_answered(server: Server) -> None:
    client = server.client()
    started = client.start(JOB)
    with ThreadPoolExecutor(100) as pool:
        waiting = [pool.submit(server.client().wait, "j") for _ in range(100)]
        slowest = 0.0
        for _ in range(10):
            begun = time.monotonic()
            client.job("j")
            slowest = max(slowest, time.monotonic() - begun)
        assert slowest < 5
        threads = server.worker().num_threads()
        server.end_job(started.id)
        assert {future.result(40).state for future in waiting} == {"SUCCEEDED"}
    assert threads < 80


@pytest.mark.alone
def test_five_hundred_that_send_a_byte_a_second_and_eleven_hundred_silent_ones_keep_nobody_out(server: Server) -> None:
    server.client().status()
    address = ("127.0.0.1", server.config.master.api_port)
    silent = [socket.create_connection(address) for _ in range(1100)]
    slow = [socket.create_connection(address) for _ in range(500)]
    for sock in slow:
        sock.sendall(b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 100000\r\n\r\n")
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(0.5):
            for sock in slow:
                with suppress(OSError):
                    sock.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        slowest = 0.0
        for _ in range(10):
            with Client("local", home=server.home / "home-ann") as another:
                begun = time.monotonic()
                assert another.jobs() == []
                slowest = max(slowest, time.monotonic() - begun)
        assert slowest < 0.5 * SLACK
        assert server.worker().num_threads() < 40  # a thread is for a whole request
    finally:
        ended.set()
        dripping.join()
        for sock in [*silent, *slow]:
            sock.close()


def test_a_request_that_is_not_complete_in_ten_seconds_is_given_up(server: Server) -> None:
    server.client().status()
    half = [socket.create_connection(("127.0.0.1", server.config.master.api_port)) for _ in range(3)]
    begun, answers = time.monotonic(), [b"", b"", b""]
    for number, sock in enumerate(half):
        sock.sendall([b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n", b"", b"\x16\x03\x01"][number])
    for number, sock in enumerate(half):
        sock.settimeout(20)
        while data := sock.recv(4096):
            answers[number] += data
        sock.close()
    assert [answer[:13] for answer in answers] == [b"HTTP/1.1 408 ", b"", b"HTTP/1.1 408 "]
    assert 8 < time.monotonic() - begun < 15


def test_those_who_do_not_read_their_replies_keep_nobody_out(server: Server) -> None:
    server.client().status()
    deaf = [socket.socket() for _ in range(100)]
    for sock in deaf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        sock.connect(("127.0.0.1", server.config.master.api_port))
        sock.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
    try:
        begun = time.monotonic()
        with Client("local", home=server.home / "home-ann") as another:
            assert another.jobs() == []
        assert time.monotonic() - begun < 5
    finally:
        for sock in deaf:
            sock.close()


def test_more_connections_than_the_server_holds_push_out_the_oldest_of_the_same_address(server: Server) -> None:
    server.client().status()
    address = ("127.0.0.1", server.config.master.api_port)
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, most))
    crowd = [socket.create_connection(address) for _ in range(Limits.connections + 100)]
    try:
        with Client("local", home=server.home / "home-ann") as another:
            assert another.status().user == "ann"
        crowd[0].settimeout(5)
        assert crowd[0].recv(1) == b""
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
        for sock in crowd:
            sock.close()


NO_REQUESTS = [
    (b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n", 411),
    (b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n", 411),
    (b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;" + b"x" * 9000 + b"\r\nabc\r\n", 411),
    (b"POST /v1/jobs HTTP/1.1\r\nContent-Length: ZZ\r\n\r\n", 400),
    (b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
    (b"GET /v1/jobs HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", 431),
    (b"GET /v1/jobs HTTP/1.1\r\nX: " + b"x" * 9_000 + b"\r\n\r\n", 400),
    (b"get\t/v1/jobs\r\n\r\n", 400),
    (b"GET /v1/jobs HTTP/9.9\r\n\r\n", 400),
    (b"GET /v1/jobs HTTP/1.1\r\nBad Header: x\r\n\r\n", 400),
]


def test_what_is_no_request_gets_a_4xx_and_one_line_of_log(server: Server) -> None:
    server.client().status()
    for number, (request_text, status) in enumerate(NO_REQUESTS, start=1):
        with socket.create_connection(("127.0.0.1", server.config.master.api_port)) as peer:
            peer.sendall(request_text)
            peer.settimeout(10)
            answer = b""
            while data := peer.recv(4096):
                answer += data
        head, _, text = answer.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status and b"application/json" in head, request_text
        assert json.loads(text)["error"]["message"].startswith("the request: "), request_text
        lines = [line for line in server.log.read_text().splitlines() if "refused" in line]
        assert len(lines) == number and "Traceback" not in server.log.read_text(), request_text


def test_a_body_of_10_mb_gets_an_answer_though_it_is_not_taken(server: Server) -> None:
    server.client().status()
    peer = http.client.HTTPConnection("127.0.0.1", server.config.master.api_port, timeout=20)
    with contextlib.closing(peer):
        peer.request("POST", "/v1/jobs", b"x" * 10_000_000)
        answer = peer.getresponse()
        assert answer.status == 413
        assert "more than the 2,097,152 that are read" in json.loads(answer.read())["error"]["message"]


def test_refusals_cannot_fill_the_log(server: Server) -> None:
    server.client().status()
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", server.config.master.api_port)) as peer:
            peer.sendall(b"?\r\n\r\n")
            peer.recv(100)
    assert len(server.log.read_text().splitlines()) < 20


def test_requests_that_come_together_are_answered_in_order(server: Server) -> None:
    server.client().status()
    with socket.create_connection(("127.0.0.1", server.config.master.api_port)) as peer:
        asked = b"GET /v1/%b HTTP/1.1\r\nHost: x\r\n%b\r\n"
        peer.sendall(asked % (b"health", b"") + asked % (b"jobs", b"") + asked % (b"nothing", b"Connection: close\r\n"))
        peer.settimeout(10)
        answer = b""
        while data := peer.recv(4096):
            answer += data
    assert [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]] == [200, 401, 404]


@pytest.mark.alone
def test_a_node_whose_api_hangs_blocks_neither_the_server_nor_its_caller(server: Server) -> None:
    client = server.client()
    started = client.start(JOB)
    task = TaskRecord(TaskState.RUNNING, 1, "n1")
    with socket.create_server(("127.0.0.1", 0), backlog=200) as hanging, ThreadPoolExecutor(80) as pool:
        node = {"name": "n1", "state": "READY", "address": "127.0.0.1", "api_port": hanging.getsockname()[1]}
        server.backend.apply(
            [
                ("HSET", server.keys.nodes, "n1", pack(node)),
                ("HSET", server.keys.tasks(started.id), "w.0", pack(task)),
            ]
        )
        clients = [server.client() for _ in range(80)]
        for each in clients:
            each.job("j")  # opens its session, which costs both sides an RSA operation
        begun = time.monotonic()
        asking = [pool.submit(each.execute, "j", "w.0", ["true"]) for each in clients]
        peer, _ = hanging.accept()
        for _ in range(5):
            asked = time.monotonic()
            assert client.job("j").id == started.id
            assert time.monotonic() - asked < 2
        for future in asking:
            with pytest.raises(UnreachableError):
                future.result(30)
        peer.close()
        assert time.monotonic() - begun < 30


def test_health_and_the_document_are_open_and_the_rest_is_not(server: Server) -> None:
    import http.client

    server.client().status()
    connection = http.client.HTTPConnection("127.0.0.1", server.config.master.api_port)
    answers = {}
    for path in ("/v1/health", "/v1/openapi.json", "/v1/jobs", "/v1/nothing"):
        connection.request("GET", path)
        answer = connection.getresponse()
        answers[path] = answer.status, answer.read()
    connection.close()
    assert answers["/v1/health"] == (200, b"{}\n")
    assert json.loads(answers["/v1/openapi.json"][1])["openapi"] == "3.1.0"
    assert [answers["/v1/jobs"][0], answers["/v1/nothing"][0]] == [401, 404]


def test_the_server_writes_nothing_about_requests_into_its_log(server: Server) -> None:
    server.client().start(JOB)
    server.stop()
    assert "Traceback" not in server.log.read_text()
    assert "JOSE" not in server.log.read_text()


def test_a_second_cluster_on_another_port_refuses_this_ones_user(server: Server, tmp_path: Path) -> None:
    home = write_client(tmp_path, "bob", f"http://127.0.0.1:{server.config.master.api_port}")
    server.client().status()
    from grass.errors import NotAllowedError

    with Client("local", home=home) as stranger, pytest.raises(NotAllowedError):
        stranger.status()


def test_the_command_line_of_the_daemon_is_its_configuration_and_nothing_else(server: Server) -> None:
    server.client().status()
    assert server.process is not None
    arguments = psutil.Process(server.process.pid).cmdline()
    assert arguments[-2:] == ["master.api", str(server.config.path)] or "grass-api" in arguments[0]


@pytest.mark.alone
def test_a_stopped_server_is_unreachable_within_five_seconds_and_found_again_later(server: Server) -> None:
    client = server.client()
    started = client.start(JOB)
    assert server.process is not None
    stopped = [psutil.Process(server.process.pid), server.worker()]
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(client.wait, "j")
        following = client.events(follow=True, kind="job-*")
        assert next(following).kind == "job-submitted"
        followed = pool.submit(next, following)
        for process in stopped:
            process.suspend()
        try:
            begun = time.monotonic()
            with pytest.raises(UnreachableError):
                client.jobs()
            assert 4.5 < time.monotonic() - begun < 6.5
            for answer in (waiting, followed):
                with pytest.raises(UnreachableError):
                    answer.result(15)
            assert time.monotonic() - begun < 16
        finally:
            for process in stopped:
                process.resume()
    assert client.job("j").id == started.id


def test_an_unreachable_cluster_is_given_up_after_five_seconds(server: Server) -> None:
    client = server.client()
    client.status()
    server.stop()
    begun = time.monotonic()
    with pytest.raises(UnreachableError):
        client.status()
    assert 4.5 < time.monotonic() - begun < 20


def pss(process: psutil.Process) -> int:
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def test_the_server_is_lean(server: Server) -> None:
    server.client().start(JOB)
    assert server.process is not None
    processes: list[Any] = [psutil.Process(server.process.pid), server.worker()]
    total = sum(pss(process) for process in processes)
    print(f"PSS {total / 1024:.1f} MiB", [pss(process) // 1024 for process in processes], os.getpid())
    assert total < 120 * 1024
