"""A preloaded library that keeps news of the network from a process. Tests compile the library.

Chromium drops requests when an interface of the machine appears or goes, as those of containers of other tests do.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.needs import missing


def deaf_library(folder: Path) -> Path:
    library = folder / "libdeaf.so"
    source = Path(__file__).with_name("deaf.c")
    try:
        subprocess.run(["cc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
    except FileNotFoundError:
        missing("a C compiler", "cc is not there")
    return library
