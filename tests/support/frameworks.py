"""Where the stock frameworks of tests are: virtual environments that ``scripts/test-frameworks`` makes once."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.needs import require


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("GRASS_TEST_FRAMEWORKS") or f"{home}/grass-frameworks")


def torch_folder() -> Path:
    """Return a virtual environment with torch; skip without one."""
    return _folder("torch", "torchrun")


def mars_folder() -> Path:
    return _folder("mars", "mars-worker")


def maro_folder() -> Path:
    """Return a virtual environment with MARO's toolkit, of Python 3.8."""
    return _folder("maro", "python")


def dlrover_folder() -> Path:
    """Return a virtual environment with DLRover's client, and torch."""
    return _folder("dlrover", "dlrover-run")


def horovod_folder() -> Path:
    """Return a virtual environment with Horovod, without its C++ part."""
    return _folder("horovod", "python3")


def _folder(name: str, program: str) -> Path:
    folder = cache_folder() / name
    require(
        (folder / "bin" / program).exists() and (folder / "complete").exists(), name, "scripts/test-frameworks makes it"
    )
    return folder
