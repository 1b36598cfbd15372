"""The node-api-server: its application against a real shepherd, and the daemon itself."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from flask.testing import FlaskClient

from grass.config import Secrets
from grass.errors import InputError
from grass.node_config import NodeConfig, NodeHome
from node.api.app import create_app
from node.api.server import THREADS
from tests.support.example_run import free_port
from tests.support.shepherd_run import ShepherdRun
from tests.support.waiting import wait_until

TOKEN = "the-token"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
KEY = "j-1/c.0/1"


@pytest.fixture(scope="module")
def shepherd() -> Iterator[ShepherdRun]:
    with ShepherdRun() as run:
        run.run(["/bin/sh", "-c", "printf '0123456789'; echo oops >&2; exit 4"], key=KEY)
        yield run


@pytest.fixture
def client(shepherd: ShepherdRun) -> FlaskClient:
    return create_app(shepherd.config, TOKEN).test_client()


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}, {"Authorization": TOKEN}]
)
@pytest.mark.parametrize("path", ["/v1/status", "/v1/exec/x/output", "/no/such/path"])
def test_nobody_without_the_token_gets_anything(client: FlaskClient, path: str, headers: dict[str, str]) -> None:
    reply = client.get(path, headers=headers)
    assert reply.status_code == 403
    assert reply.get_json()["error"]["code"] == "not-allowed"


def test_without_a_token_of_its_own_it_does_not_start(shepherd: ShepherdRun) -> None:
    with pytest.raises(InputError, match="no token"):
        create_app(shepherd.config, "")


def test_the_node_at_a_glance(client: FlaskClient) -> None:
    status = client.get("/v1/status", headers=HEADERS).get_json()
    assert (status["node"], status["shepherd"], status["running"], status["ended"]) == ("local", "ok", 0, 1)


def test_only_programs_of_frameworks_are_looked_for_in_an_image(client: FlaskClient) -> None:
    for body in ({"image": "x"}, {"image": 1, "programs": []}, {"image": "x", "programs": ["../etc/shadow"]}, []):
        assert client.post("/v1/image", headers=HEADERS, json=body).status_code == 400, body
    wanted = {"image": "x", "programs": ["mpirun", "python3"]}
    assert client.post("/v1/image", headers=HEADERS, json=wanted).get_json() == {"programs": None}


def test_a_shepherd_that_is_away_is_reported(tmp_path: Path) -> None:
    config = NodeHome(name="x", mode="local", home=str(tmp_path), runtime_dir=str(tmp_path), node=NodeConfig())
    client = create_app(config, TOKEN).test_client()
    status = client.get("/v1/status", headers=HEADERS).get_json()
    assert "does not answer" in status["shepherd"]


def test_peers_that_send_too_little_cost_no_thread_and_who_sends_too_much_gets_an_answer(tmp_path: Path) -> None:
    port = free_port()
    node = NodeConfig(api_port=port)
    config = NodeHome(name="x", mode="local", home=str(tmp_path), runtime_dir=str(tmp_path), node=node)
    config.save()
    Secrets(redis={}, node_token=TOKEN).save(config.home)
    daemon = subprocess.Popen([sys.executable, "-m", "node.api", str(config.path)])
    try:
        wait_until(lambda: _status(port) is not None, what="the first answer")
        with ExitStack() as peers:
            for _ in range(THREADS + 4):
                peer = peers.enter_context(socket.create_connection(("127.0.0.1", port), 20))
                peer.sendall(b"GET /v1/status HTTP/1.1\r\nX: ")
            for _ in range(3):
                assert _status(port) is not None
            [worker] = psutil.Process(daemon.pid).children()
            assert worker.num_threads() < 10
        large = urllib.request.Request(f"http://127.0.0.1:{port}/v1/exec", b"x" * 10_000_000, HEADERS)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(large, timeout=20)
        with refused.value as answer:
            assert answer.status == 413 and json.load(answer)["error"]["code"] == "bad-input"
    finally:
        daemon.kill()
        daemon.wait()


def test_the_daemon_answers_is_small_and_frees_its_port_when_killed(tmp_path: Path) -> None:
    port = free_port()
    node = NodeConfig(api_port=port)
    config = NodeHome(name="x", mode="local", home=str(tmp_path), runtime_dir=str(tmp_path), node=node)
    config.save()
    Secrets(redis={}, node_token=TOKEN).save(config.home)
    for _ in range(2):
        daemon = subprocess.Popen([sys.executable, "-m", "node.api", str(config.path)])
        try:
            wait_until(lambda: _status(port) is not None, what="the first answer")
            processes = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children()]
            assert sum(each.memory_full_info().pss for each in processes) < 45 << 20
        finally:
            daemon.kill()
            daemon.wait()


def _status(port: int) -> dict[str, object] | None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/status", headers=HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            found: dict[str, object] = json.load(reply)
            return found
    except urllib.error.HTTPError as error:
        error.close()
        raise
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None  # not up yet, or the last worker of a killed server on its way out
