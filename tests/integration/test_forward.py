"""`grass job open` on a real local cluster: a page of a task on this machine, and what is refused."""

from __future__ import annotations

import hashlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from grass.api.client import Client
from grass.api.forwarding import Forwarding
from grass.errors import ConflictError, GrassError, NotFoundError
from grass.model.lifecycle import TaskState
from grass.wire.job_views import JobView
from tests.support.local_cluster import LocalCluster

GRASS = Path(sys.executable).parent / "grass"
BIG = 3_000_000
SERVER = f"""
import hashlib, http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body):
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.send_response(101); self.send_header("Upgrade", "echo"); self.end_headers(); self.wfile.flush()
            while data := self.connection.recv(4096):
                self.connection.sendall(data.upper())
            self.close_connection = True
        elif self.path == "/big":
            self.answer(b"x" * {BIG})
        elif self.path == "/end":
            self.answer(b"bye"); os._exit(0)
        else:
            self.answer(f"{{self.path}} {{self.client_address[1]}}".encode())
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(hashlib.sha256(body).hexdigest().encode())
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["GRASS_PORT_PAGE"])), Page).serve_forever()
"""
JOB = {
    "name": "page",
    "components": {
        "server": {
            "command": [sys.executable, "-c", SERVER],
            "ports": ["page", "unused"],
            "web": "page",
            "ready": {"port": "page"},
            "resources": {"cpu": 0.1},
        },
        "reader": {"command": "sleep 300", "resources": {"cpu": 0.1}, "depends_on": {"server": "ready"}},
        "late": {"command": "true", "ports": ["x"], "depends_on": {"reader": "succeeded"}, "resources": {"cpu": 0.1}},
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster()
    try:
        made.create()
        with made.client() as client:
            client.start(JOB, cwd="/")
            client.wait("page", on_progress=_until_ready)
    except _ReadyError:
        yield made
    finally:
        made.end()


class _ReadyError(Exception):
    """Ends the wait: the reader runs, which it does only once the server listens."""


def _until_ready(job: JobView) -> None:
    if job.components["reader"].counts.get(TaskState.RUNNING):
        raise _ReadyError


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


@contextmanager
def opened(client: Client) -> Iterator[Forwarding]:
    forwarding = client.forward("page")
    thread = threading.Thread(target=forwarding.serve)
    thread.start()
    try:
        yield forwarding
    finally:
        forwarding.close()
        thread.join(20)
    assert not thread.is_alive()


def get(url: str) -> bytes:
    with urlopen(url, timeout=30) as answer:
        body: bytes = answer.read()
    return body


def address(forwarding: Forwarding) -> tuple[str, int]:
    host, port = forwarding.url.removeprefix("http://").rstrip("/").split(":")
    return host, int(port)


def test_many_connections_at_once_get_their_own_answers(client: Client) -> None:
    with opened(client) as forwarding, ThreadPoolExecutor(20) as readers:
        paths = [f"{forwarding.url}number-{at}" for at in range(60)]
        answers = list(readers.map(lambda path: get(path).split()[0].decode(), paths))
    assert answers == [f"/number-{at}" for at in range(60)]
    assert (forwarding.task, forwarding.port) == ("server.0", "page")


def test_one_connection_serves_many_requests_and_large_bodies_both_ways(client: Client) -> None:
    with opened(client) as forwarding:
        connection = http.client.HTTPConnection(*address(forwarding), timeout=60)
        said = []
        for _ in range(3):
            connection.request("GET", "/again")
            said.append(connection.getresponse().read())
        assert len(set(said)) == 1  # the port of the same connection at the task
        connection.request("GET", "/big")
        assert len(connection.getresponse().read()) == BIG
        body = os.urandom(400_000)
        connection.request("POST", "/", body)
        assert connection.getresponse().read().decode() == hashlib.sha256(body).hexdigest()
        connection.close()


def test_a_connection_that_is_upgraded_carries_data_both_ways(client: Client) -> None:
    with opened(client) as forwarding, socket.create_connection(address(forwarding), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        reader = connection.makefile("rb")
        assert b"101" in reader.readline()
        while reader.readline().strip():
            pass
        for word in (b"one", b"two"):
            connection.sendall(word + b"\n")
            assert reader.readline() == word.upper() + b"\n"
        connection.shutdown(socket.SHUT_WR)
        assert reader.read() == b""


def test_a_connection_to_a_port_without_a_server_ends_and_the_others_go_on(client: Client) -> None:
    forwarding = client.forward("page", "server", port="unused")
    thread = threading.Thread(target=forwarding.serve)
    thread.start()
    with socket.create_connection(address(forwarding), timeout=30) as connection:
        connection.sendall(b"x")
        assert connection.recv(1) == b""
    with opened(client) as other:
        assert get(other.url).startswith(b"/")
    forwarding.close()
    thread.join(20)


def test_what_publishes_no_page_or_does_not_run_is_refused(client: Client) -> None:
    for part, port, message in (
        ("nobody", None, "no component nobody; it has server, reader, late"),
        ("reader", None, "publishes no page; choose one of its ports: none"),
        ("server", "nothing", "no port nothing; it has page, unused"),
    ):
        with pytest.raises(NotFoundError, match=message):
            client.forward("page", part, port=port)
    with pytest.raises(ConflictError, match="late does not run"):
        client.forward("page", "late")
    with pytest.raises(ConflictError, match=r"server\.7 does not run"):
        client.forward("page", "server", 7)
    with pytest.raises(NotFoundError, match="job nobody: not found"):
        client.forward("nobody")


def printing(command: list[str], environment: dict[str, str], folder: Path | None = None) -> subprocess.Popen[str]:
    """Start a command that prints an address and ends with Ctrl-C."""
    return subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # a shell starts what it runs in the background with SIGINT ignored, and Python then leaves it so
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_the_command_prints_the_address_and_ends_with_ctrl_c(cluster: LocalCluster) -> None:
    environment = {**os.environ, "GRASS_HOME": str(cluster.home)}
    command = [str(GRASS), "job", "open", "page", "-o", "quiet"]
    with printing(command, environment) as run:
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        assert get(url + "cli").startswith(b"/cli")
        run.send_signal(signal.SIGINT)
        assert run.wait(20) == 0


def test_a_local_port_that_is_taken_is_refused(cluster: LocalCluster) -> None:
    environment = {**os.environ, "GRASS_HOME": str(cluster.home)}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [str(GRASS), "job", "open", "page", "--local-port", str(taken.getsockname()[1])]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "address already in use; choose another" in run.stderr


def test_when_the_task_ends_the_forward_ends_after_its_last_words(client: Client) -> None:
    client.start({**JOB, "name": "short"}, cwd="/")
    with suppress(_ReadyError):
        client.wait("short", on_progress=_until_ready)
    forwarding = client.forward("short")
    thread = threading.Thread(target=forwarding.serve)
    thread.start()
    assert get(forwarding.url + "end") == b"bye"
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(GrassError):
        client.forward("short")
    forwarding.close()


PROGRAM = """#!{python}
import http.server, os, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write((self.path + " " + os.environ.get("JUPYTER_TOKEN", "none") + " ".join(sys.argv)).encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["GRASS_PORT_PAGE"])), Page).serve_forever()
"""
"""Stands for a program with a page: it shows how it was called."""


@contextmanager
def page_of(cluster: LocalCluster, programs: Path, *words: str) -> Iterator[str]:
    """Yield the address that a command prints, then press Ctrl-C."""
    path = f"{programs}:{os.environ['PATH']}"
    command = [str(GRASS), *words, "--no-browser", "--cpu", "0.1", "-o", "quiet"]
    with printing(command, {**os.environ, "GRASS_HOME": str(cluster.home), "PATH": path}, programs) as run:
        assert run.stdout is not None
        yield run.stdout.readline().strip()
        run.send_signal(signal.SIGINT)
        assert run.wait(20) == 0


def test_a_notebook_is_a_job_that_outlives_its_page_and_a_second_call_opens_it_again(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    missing = subprocess.run(
        [str(GRASS), "notebook", "--cpu", "0.1"],
        env={**os.environ, "GRASS_HOME": str(cluster.home), "PATH": f"{GRASS.parent}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert missing.returncode == 2
    assert "jupyter-lab: not found; install it where the task runs: pip install jupyterlab" in missing.stderr
    program = tmp_path / "jupyter-lab"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    with page_of(cluster, tmp_path, "notebook", "--idle", "90s") as url:
        token = url.partition("/lab?token=")[2]
        shown = get(url).decode()
        assert len(token) > 30 and shown.startswith(f"/lab?token={token} {token}")
        assert "shutdown_no_activity_timeout=90" in shown and "cull_idle_timeout=90" in shown
    first = client.job("notebook")
    assert first.state == "RUNNING" and first.specification and first.specification.timeout == 12 * 3600
    with page_of(cluster, tmp_path, "notebook") as again:
        assert again.endswith(f"/lab?token={token}")
    assert client.job("notebook").id == first.id
    assert token not in repr(first)
    client.stop("notebook")
    client.wait("notebook", 20)


def test_a_board_shows_the_files_of_a_job_and_ends_with_its_page(
    cluster: LocalCluster, client: Client, tmp_path: Path
) -> None:
    program = tmp_path / "tensorboard"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    shown_of = client.start({"name": "shown", "components": {"w": {"command": "true"}}}, cwd="/").id
    with page_of(cluster, tmp_path, "tensorboard", "shown") as url:
        assert get(url).decode().endswith(f"--logdir {cluster.home}/clusters/local/data/jobs/{shown_of}")
    assert client.wait("shown-board", 20).state == "STOPPED"
    client.start({"name": "other-board", "components": {"w": {"command": "sleep 60"}}}, cwd="/")
    client.start({"name": "other", "components": {"w": {"command": "true"}}}, cwd="/")
    environment = {**os.environ, "GRASS_HOME": str(cluster.home)}
    command = [str(GRASS), "tensorboard", "other"]
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "job other-board: is active, and was not started by this command" in refused.stderr
    client.stop("other-board", 0)
