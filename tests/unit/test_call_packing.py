"""Calls as text for tasks of `grass.Executor`: what is sent together, and what is refused alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from grass.api.call_packing import Call, Packer, jobs_of
from grass.api.plain import plain_mapping

PACKER = Packer(b"key")


def calls(count: int, function: Any = abs) -> list[Call]:
    return [Call(number, function, (-number,), {}) for number in range(count)]


def test_the_calls_are_divided_evenly_and_in_order() -> None:
    tasks = PACKER.tasks(calls(10), 3).tasks
    assert [task.numbers for task in tasks] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    assert [len(PACKER.tasks(calls(2), most).tasks) for most in (1, 2, 9)] == [1, 2, 2]


def test_large_calls_are_divided_further() -> None:
    noise = [Call(number, len, (os.urandom(40_000),), {}) for number in range(30)]
    tasks, refused, _ = PACKER.tasks(noise, 2)
    assert [number for task in tasks for number in task.numbers] == list(range(30)) and len(tasks) > 2
    assert 1 < len(list(jobs_of(tasks))) < len(tasks) and not refused


def test_an_argument_that_all_calls_have_is_sent_once_per_task() -> None:
    model = os.urandom(50_000)
    tasks, refused, _ = PACKER.tasks([Call(number, max, (model, [number]), {}) for number in range(100)], 2)
    assert [len(task.numbers) for task in tasks] == [50, 50] and not refused


def test_only_the_call_that_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()
    given = [
        *calls(2),
        Call(2, sys.stdout.write, ("x",), {}),
        Call(3, len, (), {"shared": lock}),
        Call(4, len, (), {"shared": lock}),
        Call(5, len, (os.urandom(200_000),), {}),
    ]
    tasks, refused, _ = PACKER.tasks(given, 1)
    assert [task.numbers for task in tasks] == [(0, 1)]
    assert sorted(refused) == [2, 3, 4, 5]
    assert all("cannot be pickled" in str(refused[number]) for number in (2, 3, 4))
    assert isinstance(refused[3].__cause__, TypeError)
    assert "grass data push" in str(refused[5])


def test_a_call_that_is_too_large_names_its_largest_part_the_limit_and_the_way_around() -> None:
    noise = os.urandom(200_000)

    def train(model: Any, rows: Any, *, steps: int = 1) -> None:
        """Take arguments by name."""

    def closure() -> int:
        return len(noise)

    given = [
        Call(0, train, (b"small", np.frombuffer(noise, dtype=np.uint8)), {"steps": 2}),
        Call(1, train, (), {"model": noise, "rows": 1}),
        Call(2, closure, (), {}),
        Call(3, train, (1, 2, 3, noise), {}),
    ]
    refused = PACKER.tasks(given, 1).refused
    assert [str(refused[number]).split(" makes ")[0] for number in range(4)] == [
        "rows: the ndarray",
        "model: the bytes",
        "function: the function",
        "arguments[3]: the bytes",
    ]
    size = "train too large: 26[0-9] KiB after compression, at most 117 KiB fit; write it to a file"
    assert re.search(size, str(refused[1]))


def test_large_values_go_into_files_each_once_and_the_task_checks_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.test_call_results import KEY, answers_of

    model, rows = os.urandom(300_000), [os.urandom(200_000) for _ in range(3)]

    def joined(first: bytes, second: bytes) -> int:
        return len(first) + len(second) + len(rows[0])

    given = [Call(number, joined, (model, row), {}) for number, row in enumerate(rows)]
    tasks, refused, files = Packer(KEY, folder="calls").tasks([*given, Call(3, abs, (-4,), {})], 2)
    assert not refused and [task.numbers for task in tasks] == [(0, 1), (2, 3)]
    assert all(len(task.text) < 2_000 for task in tasks)
    assert sorted(len(content) // 100_000 for content in files.values()) == [2, 2, 2, 3, 6]  # rows, model, closure
    (tmp_path / "calls").mkdir()
    for name, content in files.items():
        (tmp_path / "calls" / name).write_bytes(content)
    monkeypatch.setenv("GRASS_DATA", str(tmp_path))
    assert [each.value for task in tasks for each in answers_of(task.text)] == [700_000, 700_000, 700_000, 4]
    name = max(files, key=lambda name: len(files[name]))
    (tmp_path / "calls" / name).write_bytes(b"other")
    first, *_ = answers_of(tasks[0].text)
    assert "was changed since the call was sent" in str(first.error)


def test_many_values_that_are_too_large_together_go_into_files_too() -> None:
    parts = {f"p{number}": os.urandom(30_000) for number in range(9)}
    given = [Call(0, dict, (), parts), Call(1, dict, (), parts)]
    tasks, refused, files = Packer(b"key", folder="calls").tasks(given, 1)
    assert not refused and len(files) == 9 and [len(task.numbers) for task in tasks] == [2]


DRIVER = """
import sys
from grass.api import driver_path
from grass.api.call_packing import Call, Packer
import beside
folders = driver_path.own_folders()
call = Call(0, beside.double, (21,), {})
if sys.argv[1] == "path":
    packed = Packer(b"key", folders).tasks([call], 1)
else:
    with driver_path.by_value(folders):
        packed = Packer(b"key").tasks([call], 1)
print(packed.tasks[0].text)
"""


@pytest.mark.parametrize(("how", "start"), [("path", "script"), ("value", "script"), ("path", "-c"), ("path", "-m")])
def test_a_function_of_a_module_beside_the_driver_works_in_a_task(tmp_path: Path, how: str, start: str) -> None:
    from tests.unit.test_call_results import answers_of

    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "beside.py").write_text("FACTOR = 2\ndef double(x): return FACTOR * x\n")
    (folder / "driver.py").write_text(DRIVER)
    words = {"script": [str(folder / "driver.py")], "-c": ["-c", DRIVER], "-m": ["-m", "driver"]}[start]
    cwd = elsewhere if start == "script" else folder
    text = subprocess.run(
        [sys.executable, *words, how], cwd=cwd, capture_output=True, text=True, check=True, timeout=30
    ).stdout.strip()
    if how == "value":
        (folder / "beside.py").unlink()
    [outcome] = answers_of(text, elsewhere)
    assert (outcome.value, outcome.error) == (42, None)


def test_jobs_may_have_numbers_of_numpy_and_paths() -> None:
    job = {"replicas": np.int64(3), "x": (np.float32(0.5), Path("/a")), "y": {"z": PurePosixPath("b")}, "t": True}
    assert plain_mapping(job) == {"replicas": 3, "x": [0.5, "/a"], "y": {"z": "b"}, "t": True}
