"""Virtual environments of peers, from PyPI, and programs in them that are driven by JSON lines.

The environments are kept in ``$GRASS_BENCH_CACHE`` (default ``~/.cache/grass-bench``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import figures

from grass.system.exclusive import exclusive


def interpreter(name: str, *packages: str) -> Path:
    """Python of the environment ``name`` with these packages in it, made on first use, by one bench at a time."""
    cache = Path(os.environ.get("GRASS_BENCH_CACHE") or Path.home() / ".cache" / "grass-bench")
    folder = cache / name
    python = folder / "bin" / "python"
    cache.mkdir(parents=True, exist_ok=True)
    with exclusive(cache / f"{name}.lock"):
        if not (folder / "complete").exists():
            figures.progress(f"installing {', '.join(packages)} into {folder} (once)")
            venv.create(folder, with_pip=True, clear=True)
            install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            subprocess.run(install, check=True)
            (folder / "complete").touch()
    return python


class Peer:
    """A driver that answers each line on its standard input with one line. Use as a context."""

    def __init__(self, python: Path, driver: str) -> None:
        self._driver = driver
        self._temporary = tempfile.TemporaryDirectory(prefix="peer-")
        """Peers leave sockets and files in the folder for temporary files."""
        self._said = Path(self._temporary.name, "stderr")
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [python, Path(__file__).with_name(driver)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env={**os.environ, "TMPDIR": self._temporary.name},
            )
        self._read()

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._temporary.cleanup()

    def ask(self, request: dict[str, Any]) -> dict[str, float]:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            ended = f"{self._driver} ended with {self.process.wait()}"
            sys.exit(f"{ended}: {self._said.read_text(errors='replace')[-2000:]}")
        reply: dict[str, Any] = json.loads(line)
        return reply
