"""The program that watches Azure's events, against a server that answers as Azure's metadata service does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from grass.azure.machine_events import program
from tests.support.waiting import wait_until

HERE = socket.gethostname()
SPOT = "Azure takes this machine back (Spot)"


class Metadata:
    """``events``: what is announced. ``asked``: headers of the requests, and whether the service fails."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.asked: list[str | None] = []
        self.fails = False


@pytest.fixture
def metadata() -> Iterator[tuple[Metadata, str]]:
    said = Metadata()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said.asked.append(self.headers.get("Metadata"))
            body = b"<html>" if said.fails else json.dumps({"DocumentIncarnation": 1, "Events": said.events}).encode()
            self.send_response(500 if said.fails and len(said.asked) % 2 else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield said, f"http://127.0.0.1:{server.server_address[1]}/metadata/scheduledevents?api-version=2020-07-01"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def watched(metadata: tuple[Metadata, str], tmp_path: Path) -> Iterator[Metadata]:
    """The service, watched. Folders of two node-agents are in ``tmp_path``; ``woken`` counts."""
    for name in ("lab", "other"):
        (tmp_path / "run" / name).mkdir(parents=True)
    wake = ("sh", "-c", f"echo woken >>{tmp_path}/woken")
    text = program(metadata[1], f"{tmp_path}/run/*/", wake, every=0.02)
    process = subprocess.Popen([sys.executable, "-I", "-c", text], stderr=subprocess.PIPE)
    yield metadata[0]
    assert process.poll() is None, "it goes on whatever the service says"
    process.terminate()
    process.communicate()


def event(
    kind: str, resources: tuple[str, ...] = (HERE,), status: str = "Scheduled", ahead: float = 0.0
) -> dict[str, Any]:
    moment = formatdate(time.time() + ahead, usegmt=True) if ahead else ""
    return {"EventId": "1", "EventType": kind, "Resources": list(resources), "EventStatus": status, "NotBefore": moment}


def said(tmp_path: Path) -> list[str]:
    return [path.read_text() for path in sorted(tmp_path.glob("run/*/eviction"))]


def seen(metadata: Metadata) -> None:
    """Wait until the program has asked twice from now on."""
    before = len(metadata.asked)
    wait_until(lambda: len(metadata.asked) >= before + 3)


def test_a_preemption_is_told_to_each_node_agent_at_once_and_taken_back_if_it_ends(
    watched: Metadata, tmp_path: Path
) -> None:
    seen(watched)
    assert said(tmp_path) == [] and set(watched.asked) == {"true"}, "Azure answers only with this header"
    watched.events = [event("Freeze"), event("Preempt", (HERE.upper(),), ahead=30.0)]
    wait_until(lambda: said(tmp_path) == [SPOT, SPOT])
    wait_until(lambda: (tmp_path / "woken").exists() and (tmp_path / "woken").read_text() == "woken\n")
    (tmp_path / "run" / "late").mkdir()
    wait_until(lambda: said(tmp_path) == [SPOT] * 3)
    watched.fails = True
    seen(watched)
    assert said(tmp_path) == [SPOT] * 3
    watched.fails, watched.events = False, []
    wait_until(lambda: said(tmp_path) == [])


@pytest.mark.parametrize(
    "harmless",
    [
        event("Preempt", ("another-machine",)),
        event("Freeze", status="Started"),
        event("Redeploy", ahead=86_400.0),
        event("Preempt", ()),
        {"EventType": "Preempt"},
        {**event("Reboot"), "NotBefore": "soon"},
    ],
)
def test_what_is_not_now_not_here_or_passes_ends_nothing(
    watched: Metadata, tmp_path: Path, harmless: dict[str, Any]
) -> None:
    watched.events = [harmless]
    seen(watched)
    assert said(tmp_path) == []


@pytest.mark.parametrize(
    ("near", "text"),
    [
        (event("Redeploy", ahead=30.0), "Azure moves this machine"),
        (event("Reboot", status="Started"), "Azure reboots this machine"),
        (event("Terminate"), "Azure deletes this machine"),
    ],
)
def test_an_announced_end_ends_tasks_a_minute_before(
    watched: Metadata, tmp_path: Path, near: dict[str, Any], text: str
) -> None:
    watched.events = [near]
    wait_until(lambda: said(tmp_path) == [text, text])


def test_a_link_in_a_node_agents_folder_is_not_followed(watched: Metadata, tmp_path: Path) -> None:
    (tmp_path / "run" / "lab" / "eviction").symlink_to(tmp_path / "target")
    watched.events = [event("Preempt")]
    wait_until(lambda: (tmp_path / "run" / "other" / "eviction").exists())
    assert not (tmp_path / "target").exists()
