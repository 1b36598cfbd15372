"""A preloaded library that shows a process a shifted wall clock. Tests compile the library."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.needs import missing

SHIFT = "SHIFT"
"""Environment variable: the shift of the clock in seconds."""


def shifted_clock(folder: Path) -> Path:
    library = folder / "libshifted.so"
    command = [
        "cc",
        "-Wall",
        "-Werror",
        "-shared",
        "-fPIC",
        "-o",
        str(library),
        str(Path(__file__).parent / "shifted.c"),
    ]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        missing("a C compiler", "cc is not there")
    return library
