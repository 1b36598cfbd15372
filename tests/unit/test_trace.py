"""Marks of the way of a start: written where GRASS_TRACE names a file, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PROGRAM = "from grass import trace; trace.mark('a'); trace.mark('b c')"


def run(folder: Path, **environment: str) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, env=environment, check=True)


def test_marks_of_several_processes_go_to_one_file_with_their_times(tmp_path: Path) -> None:
    begin, marks = time.time(), tmp_path / "marks"
    run(tmp_path, GRASS_TRACE=str(marks))
    run(tmp_path, GRASS_TRACE=str(marks))
    lines = [line.split(" ", 1) for line in marks.read_text().splitlines()]
    assert [name for _, name in lines] == ["a", "b c", "a", "b c"]
    times = [float(at) for at, _ in lines]
    assert times == sorted(times) and begin - 1 < times[0] <= times[-1] < time.time() + 1


def test_without_a_name_nothing_is_written(tmp_path: Path) -> None:
    run(tmp_path)
    assert not list(tmp_path.iterdir())
