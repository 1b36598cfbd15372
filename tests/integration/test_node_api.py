"""The node-api-server: its application against a real shepherd, and the daemon itself."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from flask.testing import FlaskClient

from grass.config import ClusterConfig, NodeConfig, Secrets
from grass.errors import InputError
from node.api.app import create_app
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
@pytest.mark.parametrize("path", ["/v1/status", f"/v1/logs/{KEY}", "/no/such/path"])
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


def test_what_the_shepherd_knows(client: FlaskClient) -> None:
    [attempt] = client.get("/v1/attempts", headers=HEADERS).get_json()["attempts"]
    assert (attempt["key"], attempt["code"], attempt["sizes"]) == (KEY, 4, {"stdout": 10, "stderr": 5})


def test_raw_bytes_of_a_stream_from_an_offset(client: FlaskClient) -> None:
    reply = client.get(f"/v1/logs/{KEY}?offset=3&limit=4", headers=HEADERS)
    assert (reply.data, reply.headers["Grass-Offset"], reply.headers["Grass-Size"]) == (b"3456", "3", "10")
    assert client.get(f"/v1/logs/{KEY}?stream=stderr", headers=HEADERS).data == b"oops\n"
    assert client.get(f"/v1/logs/{KEY}?offset=99", headers=HEADERS).data == b""


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("j-1/c.0/2", 404),
        (f"{KEY}?stream=secrets", 400),
        (f"{KEY}?offset=-1", 400),
        (f"{KEY}?limit=x", 400),
        ("../../secrets.json", 400),
        ("..%2F..%2F/c.0/1", 400),
        ("j-1/..%2F..%2Fc.0/1", 400),
        ("j-1/c.0/1/x", 400),
    ],
)
def test_what_is_not_a_log_is_refused(client: FlaskClient, path: str, status: int) -> None:
    reply = client.get(f"/v1/logs/{path}", headers=HEADERS)
    assert reply.status_code == status
    assert reply.get_json()["error"]["message"]


def test_a_probe_tells_what_this_machine_can_reach(client: FlaskClient) -> None:
    port = free_port()
    reply = client.post("/v1/probe", headers=HEADERS, json={"host": "127.0.0.1", "port": port})
    assert reply.get_json() == {"open": False}
    reply = client.post("/v1/probe", headers=HEADERS, json={"host": "127.0.0.1", "port": "22"})
    assert reply.status_code == 400


def test_a_shepherd_that_is_away_is_reported(tmp_path: Path) -> None:
    config = ClusterConfig(name="x", mode="local", home=str(tmp_path), runtime_dir=str(tmp_path))
    client = create_app(config, TOKEN).test_client()
    status = client.get("/v1/status", headers=HEADERS).get_json()
    assert "does not answer" in status["shepherd"]
    assert client.get("/v1/attempts", headers=HEADERS).status_code == 503


def test_the_daemon_answers_is_small_and_frees_its_port_when_killed(tmp_path: Path) -> None:
    port = free_port()
    node = NodeConfig(api_port=port)
    config = ClusterConfig(name="x", mode="local", home=str(tmp_path), runtime_dir=str(tmp_path), node=node)
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
    except (urllib.error.URLError, ConnectionError):
        return None  # not up yet, or the last worker of a killed server on its way out
