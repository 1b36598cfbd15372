"""HyperQueue as the peer: installed from PyPI into a virtual environment of its own, driven in a process of its own.

The environment is kept in ``$GRASS_BENCH_CACHE`` (default ``~/.cache/grass-bench``). HyperQueue's wheel brings no `hq`
binary; its Python API holds server, worker and client.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import figures

VERSION = "0.27.0"


def interpreter() -> Path:
    """Python of the environment with HyperQueue in it, made on first use."""
    cache = Path(os.environ.get("GRASS_BENCH_CACHE") or Path.home() / ".cache" / "grass-bench")
    folder = cache / f"hyperqueue-{VERSION}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        figures.progress(f"installing HyperQueue {VERSION} into {folder} (once)")
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"hyperqueue=={VERSION}"]
        subprocess.run(install, check=True)
        (folder / "complete").touch()
    return python


class HyperQueue:
    """A running cluster with as many cores as the machine has. Use as a context."""

    def __init__(self) -> None:
        driver = Path(__file__).with_name("hyperqueue_driver.py")
        self.process = subprocess.Popen(
            [interpreter(), driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read()

    def __enter__(self) -> HyperQueue:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def array(self, count: int) -> dict[str, float]:
        """``seconds`` from building the job until the client has seen all done, ``last`` until the last one started."""
        return self._ask({"kind": "array", "count": count})

    def stamp(self, command: list[str], stamp: Path) -> dict[str, float]:
        """Wall clock at submission, in the task (`command` writes it to `stamp`), and when its end was known."""
        return self._ask({"kind": "stamp", "command": command, "stamp": str(stamp)})

    def _ask(self, request: dict[str, Any]) -> dict[str, float]:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"HyperQueue's driver ended with {self.process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        return reply
