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


def _folder(name: str, program: str) -> Path:
    folder = cache_folder() / name
    require((folder / "bin" / program).exists(), name, "scripts/test-frameworks makes it")
    return folder
