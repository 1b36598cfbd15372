"""Calls as text, results as lines: what `grass.Executor` sends and what tasks answer."""

from __future__ import annotations

import hmac
import os
import pickle
import subprocess
import sys
import zlib
from base64 import b64encode
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from grass.api.call_packing import MARK, PROGRAM, Call, jobs_of, outcomes, packed, packed_tasks
from grass.api.plain import plain_mapping
from grass.errors import InputError

KEY = b"key"


def calls(count: int, function: Any = abs) -> list[Call]:
    return [Call(number, function, (-number,), {}) for number in range(count)]


def answers(*given: Call) -> dict[int, tuple[bool, Any]]:
    environment = {"GRASS_ENTRY": packed(given, KEY), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return {number: (good, value) for number, good, value in outcomes(done.stdout.split("\n"), KEY)}


def fail(word: str) -> None:
    print("half a line", end="")
    raise ValueError(word)


def test_results_and_exceptions_come_back() -> None:
    found = answers(Call(3, fail, ("why",), {}), Call(5, lambda x, y=0: x + y, (1,), {"y": 2}))
    good, (error, trace) = found[3]
    assert (good, str(error), found[5]) == (False, "why", (True, 3))
    assert isinstance(error, ValueError) and "raise ValueError(word)" in trace


def test_what_cannot_be_sent_back_is_an_error_that_says_so() -> None:
    good, (error, _) = answers(Call(0, lambda: __import__("threading").Lock(), (), {}))[0]
    assert not good and "the result cannot be sent back" in str(error)


def test_the_calls_are_divided_evenly_and_in_order() -> None:
    tasks = packed_tasks(calls(10), 3, KEY)
    assert [task.numbers for task in tasks] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]
    assert [len(packed_tasks(calls(2), most, KEY)) for most in (1, 2, 9)] == [1, 2, 2]


def test_large_calls_are_divided_further_and_one_that_is_too_large_is_refused() -> None:
    noise = [Call(number, len, (os.urandom(40_000),), {}) for number in range(30)]
    tasks = packed_tasks(noise, 2, KEY)
    assert [number for task in tasks for number in task.numbers] == list(range(30)) and len(tasks) > 2
    assert 1 < len(list(jobs_of(tasks))) < len(tasks)
    with pytest.raises(InputError, match="grass data push"):
        packed([Call(0, len, (os.urandom(200_000),), {})], KEY)


def test_a_function_that_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be pickled"):
        packed([Call(0, sys.stdout.write, ("x",), {})], KEY)


def test_other_lines_are_no_results() -> None:
    assert list(outcomes(["hello", "GRASS-RESULT 1 x", MARK, f"x{MARK}1 2 \udcff"], KEY)) == []


def test_a_forged_result_is_not_unpickled() -> None:
    data = b64encode(zlib.compress(pickle.dumps((True, "forged")), 1))
    code = {key: hmac.new(key, b"0 " + data, "sha256").hexdigest() for key in (KEY, b"another")}
    forged = [
        f"{MARK}0 {data.decode()}",
        f"{MARK}{code[b'another']} 0 {data.decode()}",
        f"{MARK}{code[KEY]} 1 {data.decode()}",
    ]
    assert list(outcomes(forged, KEY)) == []
    assert [each.value for each in outcomes([f"printed before{MARK}{code[KEY]} 0 {data.decode()}"], KEY)] == ["forged"]


def test_jobs_may_have_numbers_of_numpy_and_paths() -> None:
    job = {"replicas": np.int64(3), "x": (np.float32(0.5), Path("/a")), "y": {"z": PurePosixPath("b")}, "t": True}
    assert plain_mapping(job) == {"replicas": 3, "x": [0.5, "/a"], "y": {"z": "b"}, "t": True}
