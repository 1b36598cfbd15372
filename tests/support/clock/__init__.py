"""A preloaded library that shows a process a shifted wall clock, or a fast steady one. Tests compile the library."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.needs import missing

SHIFT, FAST = "SHIFT", "FAST"
"""Environment variables: the shift of the wall clock in seconds; how much faster the steady clock is, in percent."""


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
