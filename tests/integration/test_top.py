"""`grass top` in a pseudo-terminal, on a real local cluster. pyte shows what is on the screen."""

from __future__ import annotations

import os
import pty
import queue
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pyte
import pytest

from grass.api.client import Client
from grass.cli.top_pages import Pages
from tests.integration.test_cli import PROGRAM, Grass


@pytest.fixture(scope="module")
def grass() -> Iterator[Grass]:
    home = Path(tempfile.mkdtemp(prefix="grass-top-", dir="/tmp"))
    command = Grass(home)
    settings = home / "settings.yml"
    settings.write_text("mode: local\nname: local\nresources: {cpu: 4, memory: 1GiB, gpu: 0}\n")
    job = home / "job.yml"
    say = "for n in 1 2 3; do echo GRASS_METRIC loss=$n step=$n; done; echo a line to read; exec sleep 600"
    part = f"{{replicas: 3, resources: {{cpu: 0.1}}, command: '{say}'}}"
    job.write_text(f"name: counts\ncomponents:\n  t: {part}\n")
    try:
        command.good("create", str(settings))
        command.good("job", "start", str(job))
        yield command
    finally:
        command("delete", "local", "--yes")
        shutil.rmtree(home)


class Terminal:
    def __init__(self, process: subprocess.Popen[bytes], ours: int, columns: int, rows: int) -> None:
        self.process = process
        self._ours = ours
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def until(self, wanted: Callable[[str], object], seconds: float = 30) -> str:
        """Return the screen as soon as it is as wanted."""
        deadline = time.monotonic() + seconds
        while not wanted(text := "\n".join(self._screen.display)):
            ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"not on the screen:\n{text}"
            self._stream.feed(os.read(self._ours, 65536))
        return text

    def resize(self, columns: int, rows: int) -> None:
        ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)
        self.process.send_signal(signal.SIGWINCH)  # the terminal is not its controlling one

    def end(self) -> int:
        """Return the exit code. Reads what is still drawn: nothing ends while it waits for its terminal."""
        with suppress(OSError):  # how the end of a terminal shows on Linux
            while os.read(self._ours, 65536):
                pass
        return self.process.wait(timeout=20)


@contextmanager
def terminal(grass: Grass, columns: int, rows: int, *arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {key: value for key, value in grass.environment.items() if key not in ("COLUMNS", "LINES")}
    environment["TERM"] = "linux"  # what pyte is; it does not know the repetition of characters of xterm
    command = [*PROGRAM, "top", *arguments]
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        yield Terminal(process, ours, columns, rows)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_the_cluster_is_shown_and_a_job_with_its_log_is_a_key_away(grass: Grass) -> None:
    with terminal(grass, 80, 24) as shown:
        text = shown.until(lambda text: "3/3 running" in text and "local" in text)
        assert "q quit" in text.splitlines()[-1]
        shown.press(b"\r")
        shown.until(lambda text: "details of counts" in text and "t.0 memory" in text)
        shown.until(lambda text: re.search(r"Used +[\d.]+s cpu, .* memory at the peak", text))  # while its tasks run
        loss = ["t.0", "loss", "3", "3", "▁▅█"]
        shown.until(lambda text: loss in [line.split() for line in text.splitlines()])
        shown.press(b"j" * 60)
        shown.until(lambda text: "t.2" in text)
        shown.press(b"l")
        shown.until(lambda text: "logs of counts" in text and "a line to read" in text)
        shown.press(b"\x1b")
        shown.until(lambda text: "NODE" in text)
        shown.press(b"e")
        shown.until(lambda text: "job-submitted" in text or "job-running" in text)
        shown.press(b"\x1b")
        shown.until(lambda text: "sorted by state" in text)
        shown.press(b"s")
        shown.until(lambda text: "sorted by name" in text)
        shown.resize(200, 60)
        shown.until(lambda text: "q quit" in text.splitlines()[59] and "3/3 running" in text)
        shown.press(b"\r")
        shown.until(lambda text: "details of counts" in text and all(f"t.{index}" in text for index in range(3)))
        shown.press(b"q")
        assert shown.end() == 0


def test_a_job_is_held_stopped_and_run_again_after_a_question(grass: Grass) -> None:
    job = grass.home / "big.yml"
    job.write_text("name: big\ncomponents: {t: {resources: {cpu: 64}, command: sleep 600}}\n")
    grass.good("job", "start", str(job))
    with terminal(grass, 80, 24, "--sort", "name") as shown:
        shown.until(lambda text: "big" in text and "h hold" in text.splitlines()[-1])
        shown.press(b"h")
        shown.until(lambda text: "Hold big (y/n)?" in text)
        shown.press(b"n")
        shown.until(lambda text: "h hold" in text.splitlines()[-1])
        assert grass.json("job", "show", "big")["held"] is None
        shown.press(b"h")
        shown.until(lambda text: "Hold big (y/n)?" in text)
        shown.press(b"y")
        shown.until(lambda text: "job big: is held" in text)
        assert grass.json("job", "show", "big")["held"]
        shown.press(b"s")
        shown.until(lambda text: "h release" in text.splitlines()[-1])
        shown.press(b"\r")
        shown.until(lambda text: "details of big" in text and "Held by" in text)
        shown.press(b"x")
        shown.until(lambda text: "Stop big (y/n)?" in text)
        shown.press(b"y")
        shown.until(lambda text: "STOPPED" in text)
        shown.press(b"\x1b")
        shown.until(lambda text: "NODE" in text and "R rerun" in text.splitlines()[-1])
        shown.press(b"R")
        shown.until(lambda text: "Rerun big (y/n)?" in text)
        shown.press(b"y")
        shown.until(lambda text: "submitted as a new run" in text)
        shown.press(b"q")
        assert shown.end() == 0
    assert [run["state"] for run in grass.json("job", "list", "--all", "--name", "big")] == ["STOPPED", "QUEUED"]
    grass.good("job", "stop", "big")


def test_the_disks_of_the_master_are_looked_at(grass: Grass) -> None:
    news: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with Client(home=grass.home) as client:
        Pages(client, news).look_at_disks()
        [*disks] = news.get(timeout=20).of
    assert disks and all(0 < disk.free <= disk.total and disk.holds for disk in disks)


def test_scripts_get_it_once_and_a_pipe_is_no_terminal(grass: Grass) -> None:
    assert "counts" in grass.good("top", "--once")
    assert grass.json("top", "--once")["nodes"][0]["name"] == "local"
    refused = grass("top")
    assert (refused.returncode, "--once" in refused.stderr) == (2, True)
    assert grass("top", "--sort", "beauty").returncode == 2
