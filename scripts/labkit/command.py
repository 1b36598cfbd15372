"""Run programs of the machine. The only module that starts processes and waits for them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


class LabError(Exception):
    """The reason why the lab stopped, in a sentence for people. The same command may be repeated after a repair."""


@dataclass(frozen=True)
class Output:
    """Result of a program: exit code (128 + n after signal n) and output."""

    code: int
    stdout: str
    stderr: str


def attempt(
    argv: Sequence[str], *, text_in: str = "", seconds: float = 120.0, environment: Mapping[str, str] | None = None
) -> Output:
    """Run ``argv`` to its end, whatever its exit code. ``environment`` is added to this process's environment.

    Raise LabError if the program is missing or takes longer than ``seconds``.
    """
    try:
        done = subprocess.run(
            argv,
            input=text_in,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env={**os.environ, **(environment or {})},
        )
    except FileNotFoundError:
        raise LabError(f"there is no command {argv[0]!r}; `scripts/lab up` as root installs it") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"`{shlex.join(argv)}` did not end within {seconds:g} s") from None
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Output(code, done.stdout, done.stderr)


def run(
    argv: Sequence[str], *, text_in: str = "", seconds: float = 120.0, environment: Mapping[str, str] | None = None
) -> str:
    """Return what ``argv`` wrote to stdout. Raise LabError with the end of its output unless it exits with 0."""
    done = attempt(argv, text_in=text_in, seconds=seconds, environment=environment)
    if done.code != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise LabError(f"`{shlex.join(argv)}` failed with exit code {done.code}:\n{tail}")
    return done.stdout


def docker(*arguments: str, text_in: str = "", seconds: float = 120.0) -> str:
    """Return what ``docker ARGUMENTS`` wrote, without the last newline."""
    return run(("docker", *arguments), text_in=text_in, seconds=seconds).rstrip("\n")


def wait_until(condition: Callable[[], bool], seconds: float, what: str, every: float = 0.1) -> None:
    """Return as soon as ``condition()`` holds. Raise LabError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{what} did not come within {seconds:g} s")
        time.sleep(every)


def say(message: str) -> None:
    """Print progress for people on stderr, so that the stdout of a command can be piped."""
    print(f"== {message}", file=sys.stderr, flush=True)
