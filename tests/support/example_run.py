"""Runs an example's tasks as plain processes with the environment that Grass gives them. Used by test_examples."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

EXAMPLES = Path(__file__).parents[2] / "examples"


_PORTS = range(10_000, 20_000)
"""Below those of tasks, and of the kernel for outgoing connections: any of these could take a port that a test has just
chosen, before its server listens there."""


def free_port() -> int:
    """Return a port that nobody has. Not by ``random``, which begins alike in all workers of a run."""
    while True:
        port = _PORTS[secrets.randbelow(len(_PORTS))]
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port


def listening() -> socket.socket:
    """Return a socket that listens at such a port on 127.0.0.1."""
    while True:
        with suppress(OSError):  # somebody took it just now
            return socket.create_server(("127.0.0.1", free_port()), backlog=128)


class ExampleRun:
    """One job: `start` runs a process per task, with its output in a file; leaving kills the remaining processes."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.addresses = folder / "addresses"
        self.addresses.write_text("")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.files: list[IO[bytes]] = []

    def __enter__(self) -> ExampleRun:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for file in self.files:
            file.close()

    def publish(self, task: str, port_name: str) -> int:
        """Give the task a port and write its line, by rename as Grass does."""
        port = free_port()
        replacement = self.addresses.with_suffix(".new")
        replacement.write_text(self.addresses.read_text() + f"{self.name}.{task} 127.0.0.1 {port} {port_name}\n")
        replacement.rename(self.addresses)
        return port

    def start(
        self, example: str, script: str, component: str, index: int = 0, replicas: int = 1, **env: str
    ) -> subprocess.Popen[bytes]:
        task = f"{self.name}.{component}.{index}"
        output = (self.folder / f"{component}.{index}").open("ab")
        self.files.append(output)
        process = subprocess.Popen(
            [sys.executable, script],
            cwd=EXAMPLES / example,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "GRASS_JOB": self.name,
                "GRASS_COMPONENT": component,
                "GRASS_INDEX": str(index),
                "GRASS_TASK": task,
                "GRASS_REPLICAS": str(replicas),
                "GRASS_ADDRESSES": str(self.addresses),
                "PYTHONUNBUFFERED": "1",
                "OMP_NUM_THREADS": "1",  # threads of numpy wait for each other: beside other tests that takes minutes
                "PYTHONDONTWRITEBYTECODE": "1",
                **env,
            },
        )
        self.processes.append(process)
        return process

    def output(self, component: str, index: int = 0) -> str:
        return (self.folder / f"{component}.{index}").read_text()

    def wait_for_output(self, component: str, index: int, wanted: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until ``wanted`` has been printed. Fail if the process ends first, or after the test's own deadline."""
        while wanted not in self.output(component, index):
            try:
                code = process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                continue
            if wanted not in self.output(component, index):
                raise AssertionError(f"{component}.{index} ended with {code}: {self.output(component, index)}")
