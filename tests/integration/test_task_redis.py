"""The redis for tasks: on at the port of the settings, found by tasks under MARO's names, and gone with the cluster."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.cli.exits import Exit
from tests.integration.test_cli import Grass

ASK = (
    "import os, socket; s = socket.create_connection((os.environ['REDIS_HOST'], int(os.environ['REDIS_PORT']))); "
    "s.sendall(b'PING\\r\\n'); print(s.recv(9), os.environ['GRASS_REDIS_URL'])"
)


@pytest.fixture
def cluster() -> Iterator[tuple[Grass, Path, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(tempfile.mkdtemp(prefix="grass-redis-", dir="/tmp"))
    settings = home / "settings.yml"
    settings.write_text(f"name: local\nresources: {{cpu: 2, gpu: 0}}\ntask_redis: {{port: {port}}}\n")
    try:
        yield Grass(home), settings, port
    finally:
        Grass(home)("delete", "local", "--yes")
        shutil.rmtree(home)


def test_tasks_find_a_redis_of_their_own(cluster: tuple[Grass, Path, int]) -> None:
    grass, settings, port = cluster
    with socket.create_server(("127.0.0.1", port)):
        taken = grass("create", str(settings))
        assert taken.returncode == Exit.BAD_INPUT and "task_redis: {port: NUMBER}" in taken.stderr
    grass.good("create", str(settings))
    said = grass.good("run", "--cpu", "0.1", "--", sys.executable, "-c", ASK)
    assert said == f"b'+PONG\\r\\n' redis://localhost:{port}\n"
    assert "task-redis" in {daemon["name"] for daemon in grass.json("status")["daemons"]}
    grass.good("delete", "local", "--yes")
    with socket.create_server(("127.0.0.1", port)):
        pass
