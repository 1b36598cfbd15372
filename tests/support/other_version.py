"""Other versions of Grass: real ones of the repository's history, and this one with other numbers.

Each is a folder for PYTHONPATH. ``python -m tests.support.other_version HOME`` serves the API of the version in which
it runs; older versions get this file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import require

ROOT = Path(__file__).parents[2]


def earlier(folder: Path, commit: str) -> Path:
    """Write what the version of a commit consists of."""
    parts = ["grass", "master", "node", "deploy", "tests/__init__.py", "tests/[ds]*"]
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit, *parts], capture_output=True, check=False)
    require(packed.returncode == 0, f"commit {commit} in the history of the repository", packed.stderr.decode())
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    shutil.copy(__file__, folder / "tests" / "support")
    return folder


def renumbered(folder: Path, version: str, **numbers: int) -> Path:
    """Write the program of this version as another release, with other ``numbers`` of ``grass.wire.version``."""
    shutil.copytree(ROOT / "grass", folder / "grass", ignore=shutil.ignore_patterns("__pycache__", "page"))
    _replace(folder / "grass" / "release.py", r'__version__ = ".*"', f'__version__ = "{version}"')
    for name, value in numbers.items():
        _replace(folder / "grass" / "wire" / "version.py", rf"(?m)^{name} = \d+$", f"{name} = {value}")
    return folder


def _replace(path: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, path.read_text())
    assert count == 1, (path, pattern)
    path.write_text(changed)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder)}


@contextmanager
def served(folder: Path, home: Path) -> Iterator[int]:
    """Serve the API of the version in ``folder``, with the users of ``api_world``. Yield its port."""
    command = [sys.executable, "-m", "tests.support.other_version", str(home)]
    with subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        yield int(server.stdout.readline())
        server.stdin.close()


def _serve(home: Path) -> None:
    from tests.support.api_world import api_world

    with api_world(home) as world:
        print(world.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
