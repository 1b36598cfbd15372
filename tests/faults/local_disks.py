"""The file system of the cluster is full for some seconds: of bytes, or of files."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from tests.faults.local_bed import LocalBed

LASTS = 6.0


def fill_disk(bed: LocalBed) -> float:
    filler = bed.cluster.home / "filler"
    until, full = time.monotonic() + LASTS, False
    try:
        with filler.open("wb", buffering=0) as file:
            while time.monotonic() < until:  # what others free meanwhile is taken, too
                try:
                    file.write(bytes(1 << 16))
                except OSError:
                    full = True
                    time.sleep(0.1)
    finally:
        filler.unlink()
    assert full
    return time.monotonic()


def fill_inodes(bed: LocalBed) -> float:
    folder = bed.cluster.home / "fillers"
    folder.mkdir()
    until, number, full = time.monotonic() + LASTS, 0, False
    try:
        while time.monotonic() < until:
            try:
                os.close(os.open(folder / str(number), os.O_CREAT | os.O_WRONLY))
                number += 1
            except OSError:
                full = True
                time.sleep(0.1)
    finally:
        _remove(folder)
    assert full
    return time.monotonic()


def _remove(folder: Path) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                os.unlink(entry.path)
    folder.rmdir()
