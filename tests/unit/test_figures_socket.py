"""Figures that tasks send to their node instead of printing them."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from node.agent.figures_socket import FiguresSocket, has_files
from node.runtime.attempts import Folders

KEY = "train-00000001/learner.3/2"
OF_TASK = {
    "GRASS_JOB_ID": "train-00000001",
    "GRASS_COMPONENT": "learner",
    "GRASS_INDEX": "3",
    "GRASS_ATTEMPT": "2",
}


@pytest.fixture
def received(tmp_path: Path) -> Iterator[tuple[Path, queue.Queue[tuple[str, str]]]]:
    """The path of a socket, and what comes through it."""
    found: queue.Queue[tuple[str, str]] = queue.Queue()
    folders = Folders(str(tmp_path / "attempts"))
    output = Path(folders.path(KEY, "stdout"))
    output.parent.mkdir(parents=True)
    output.touch()
    path = tmp_path / "figures.sock"
    node = FiguresSocket(path, has_files(folders.path), lambda key, line, at: found.put((key, line)))
    node.start()
    yield path, found
    node.stop()
    assert not path.exists()


def reported(path: Path, **variables: str) -> str:
    """Return what a program prints that reports a figure."""
    program = "import grass; grass.report(step=7, loss=0.5)"
    environment = {**os.environ, **OF_TASK, "GRASS_FIGURES": str(path), **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_report_goes_to_the_node_and_not_into_the_log(received: tuple[Path, queue.Queue[tuple[str, str]]]) -> None:
    path, found = received
    assert reported(path) == ""
    assert found.get(timeout=10) == (KEY, "GRASS_METRIC loss=0.5 step=7.0\n")


def test_a_report_is_printed_where_nobody_takes_it(
    tmp_path: Path, received: tuple[Path, queue.Queue[tuple[str, str]]]
) -> None:
    for variables in ({"GRASS_FIGURES": str(tmp_path / "nothing")}, {"GRASS_FIGURES": ""}, {"GRASS_ATTEMPT": ""}):
        assert reported(received[0], **variables) == "GRASS_METRIC loss=0.5 step=7.0\n"


def test_a_program_that_reports_often_waits_and_nothing_gets_lost_or_out_of_order(
    received: tuple[Path, queue.Queue[tuple[str, str]]],
) -> None:
    path, found = received
    program = "import grass\nfor step in range(1200): grass.report(x=step)"
    environment = {**os.environ, **OF_TASK, "GRASS_FIGURES": str(path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    lines = [found.get(timeout=10)[1] for _ in range(1200)]
    assert lines == [f"GRASS_METRIC x={float(step)}\n" for step in range(1200)]


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"nonsense",
        b"\xff\xfe\nx",
        b"../../etc/passwd\nGRASS_METRIC a=1",
        b"other-00000001/w.0/1\nGRASS_METRIC a=1",
    ],
)
def test_what_names_no_attempt_of_this_node_is_ignored(
    received: tuple[Path, queue.Queue[tuple[str, str]]], report: bytes
) -> None:
    path, found = received
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as task:
        for sent in (report, f"{KEY}\nGRASS_METRIC b=2".encode()):
            task.sendto(sent, str(path))
    assert found.get(timeout=10) == (KEY, "GRASS_METRIC b=2\n") and found.empty()


def test_parameters_go_to_the_node_also_large_ones(received: tuple[Path, queue.Queue[tuple[str, str]]]) -> None:
    path, found = received
    program = "import grass; grass.log_params(lr=0.1, net='\U0001f600' * 300)"
    environment = {**os.environ, **OF_TASK, "GRASS_FIGURES": str(path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert found.get(timeout=10) == (KEY, 'GRASS_METRIC {"lr": "0.1"}\n')
    assert found.get(timeout=10)[1].endswith('\\ud83d\\ude00\\u2026"}\n')
