"""The program that tasks of `grass.Executor` run, and what became of its calls: each one alone."""

from __future__ import annotations

import hmac
import os
import pickle
import signal
import subprocess
import sys
import threading
import urllib.error
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from grass.api.call_packing import Call, Packer
from grass.api.call_program import MARK, MOST_RESULT, program
from grass.api.call_results import Outcome, RemoteTraceback, outcomes
from grass.errors import RemoteCallError, TaskDiedError
from tests.support.waiting import wait_until

KEY = b"key"


def task_of(text: str, cwd: Path | str = "/", most_result: int = MOST_RESULT) -> subprocess.Popen[str]:
    environment = {"GRASS_ENTRY": text, "PATH": os.environ["PATH"], "GRASS_DATA": os.environ.get("GRASS_DATA", "")}
    words = [sys.executable, "-c", program(most_result)]
    return subprocess.Popen(words, env=environment, stdout=-1, stderr=-1, text=True, cwd=cwd)


def answers_of(text: str, cwd: Path | str = "/") -> list[Outcome]:
    output, _ = task_of(text, cwd).communicate(timeout=30)
    return list(outcomes(output.split("\n"), KEY, "j-1"))


def packed(*given: tuple[Any, ...]) -> str:
    """Return one task with calls, each of which is a function and its arguments."""
    calls = [Call(number, function, arguments, {}) for number, (function, *arguments) in enumerate(given)]
    [task] = Packer(KEY).tasks([call._replace(arguments=tuple(call.arguments)) for call in calls], 1).tasks
    return task.text


def answers(*given: tuple[Any, ...]) -> list[Outcome]:
    return answers_of(packed(*given))


def fail(word: str) -> None:
    print("half a line", end="")
    raise ValueError(word)


class TwoWordsError(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def fail_twice() -> None:
    raise TwoWordsError("both", "words")


def not_found() -> None:
    raise urllib.error.HTTPError("http://x", 404, "no such page", None, None)  # type: ignore[arg-type]


class Unloadable:
    """Can be pickled, and raises when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("no number",))


class ExitsWhenLoaded:
    def __reduce__(self) -> tuple[Any, ...]:
        return (sys.exit, (3,))


def test_results_and_exceptions_come_back() -> None:
    failed, summed = answers((fail, "why"), (lambda x, y=0: x + y, 1, 2))
    assert isinstance(failed.error, ValueError) and str(failed.error) == "why" and summed.value == 3
    assert "raise ValueError(word)" in str(failed.error.__cause__)


@pytest.mark.parametrize(("function", "name"), [(fail_twice, "TwoWordsError"), (not_found, "HTTPError")])
def test_an_exception_that_cannot_be_unpickled_comes_back_as_its_text(function: Any, name: str) -> None:
    before, failed, after = answers((abs, -1), (function,), (abs, -2))
    assert (before.value, after.value) == (1, 2)
    assert isinstance(failed.error, RemoteCallError) and failed.error.type_name == name
    assert str(failed.error).startswith(f"{name}: ") and f"in {function.__name__}" in failed.error.traceback
    assert isinstance(failed.error.__cause__, RemoteTraceback) and failed.error.traceback in str(failed.error.__cause__)
    again = pickle.loads(pickle.dumps(failed.error))
    assert (str(again), again.type_name) == (str(failed.error), name)


def test_an_exception_that_cannot_be_pickled_comes_back_as_its_text() -> None:
    def with_lock() -> None:
        raise ValueError("has a lock", threading.Lock())

    failed, after = answers((with_lock,), (abs, -2))
    assert isinstance(failed.error, RemoteCallError) and "has a lock" in str(failed.error) and after.value == 2


def test_a_result_that_cannot_be_sent_or_read_fails_alone() -> None:
    lock, unread, exits, after = answers((threading.Lock,), (Unloadable,), (ExitsWhenLoaded,), (abs, -2))
    assert "the result cannot be sent back" in str(lock.error) and isinstance(lock.error, RemoteCallError)
    assert "the result cannot be unpickled here" in str(unread.error) and isinstance(unread.error, RemoteCallError)
    assert exits.error is not None and after.value == 2


def test_arguments_and_functions_that_cannot_be_unpickled_in_the_task_fail_alone() -> None:
    before, failed, function, after = answers((abs, -1), (abs, Unloadable()), (Unloadable(),), (abs, -2))
    assert (before.value, after.value) == (1, 2)
    assert isinstance(failed.error, ValueError) and isinstance(function.error, ValueError)
    assert "persistent_load" not in str(failed.error) and "Traceback" in str(failed.error.__cause__)


@pytest.mark.parametrize(
    ("end", "said", "code"),
    [
        (lambda: os._exit(3), "exit code 3", 3),
        (lambda: os._exit(0), "exit code 0", 1),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL", -signal.SIGKILL),
    ],
)
def test_a_call_that_ends_its_process_ends_alone(end: Any, said: str, code: int) -> None:
    task = task_of(packed((abs, -1), (end,), (abs, -2), (end,), (os.getppid,)))
    before, died, after, again, parent = outcomes(task.communicate(timeout=30)[0].split("\n"), KEY, "j-1")
    assert (before.value, after.value, parent.value) == (1, 2, task.pid)
    for each in (died, again):
        assert isinstance(each.error, TaskDiedError) and said in str(each.error) and "job logs j-1" in str(each.error)
    assert task.returncode == code, "the task has failed, so that its job is kept"


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_signal_to_the_task_reaches_its_call_once_and_ends_the_rest(tmp_path: Path, whole_group: bool) -> None:
    def count(path: str) -> None:
        def note(number: int, _: object) -> None:
            with open(path, "a") as file:
                file.write("got it\n")

        signal.signal(signal.SIGTERM, note)
        Path(path).touch()
        signal.pause()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        Path(path + ".ready").touch()
        while True:
            signal.pause()

    marker, untouched = tmp_path / "marker", tmp_path / "untouched"
    task = subprocess.Popen(
        [sys.executable, "-c", program()],
        env={"GRASS_ENTRY": packed((count, str(marker)), (Path.touch, untouched)), "PATH": os.environ["PATH"]},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    for file in (marker, tmp_path / "marker.ready"):
        wait_until(file.exists)
        (os.killpg if whole_group else os.kill)(task.pid, signal.SIGTERM)
    assert task.wait(20) == -signal.SIGTERM
    assert marker.read_text() == "got it\n" and not untouched.exists()


def test_a_result_of_many_lines_comes_back_and_a_damaged_one_does_not() -> None:
    output = task_of(packed((os.urandom, 300_000), (abs, -2))).communicate(timeout=30)[0]
    lines = output.split("\n")
    assert max(map(len, lines)) < 64 * 1024 and len(lines) > 5
    large, _ = outcomes(lines, KEY)
    assert len(large.value) == 300_000
    first, second = [place for place, line in enumerate(lines) if MARK in line][:2]
    cut = [*lines[:second], *lines[second + 1 :]]
    assert [outcome.number for outcome in outcomes(cut, KEY)] == [1]
    twice = [*lines[:second], *lines[first:]]  # an attempt that ended in the middle, and the next one
    assert [outcome.number for outcome in outcomes(twice, KEY)] == [0, 1]


def test_a_result_that_is_too_large_says_so() -> None:
    task = task_of(packed((os.urandom, 3_000_000), (abs, -2)), most_result=1_000_000)
    large, after = outcomes(task.communicate(timeout=30)[0].split("\n"), KEY)
    assert isinstance(large.error, RemoteCallError) and "let it write a file" in str(large.error) and after.value == 2


def test_other_lines_are_no_results() -> None:
    assert list(outcomes(["hello", "GRASS-RESULT 1 x", MARK, f"x{MARK}1 2 \udcff"], KEY)) == []


def test_a_forged_result_is_not_unpickled() -> None:
    data = b64encode(zlib.compress(pickle.dumps(("returned", pickle.dumps("forged"))), 1))
    code = {key: hmac.new(key, b"0 0 1 " + data, "sha256").hexdigest() for key in (KEY, b"another")}
    forged = [
        f"{MARK}0 0 1 {data.decode()}",
        f"{MARK}{code[b'another']} 0 0 1 {data.decode()}",
        f"{MARK}{code[KEY]} 1 0 1 {data.decode()}",
    ]
    assert list(outcomes(forged, KEY)) == []
    right = [f"printed before{MARK}{code[KEY]} 0 0 1 {data.decode()}"]
    assert [each.value for each in outcomes(right, KEY)] == ["forged"]
