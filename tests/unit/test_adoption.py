"""What the next shepherd makes of a start that was under way, by real processes that have ended and were not reaped."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from grass.system import clock
from node.runtime import proc
from node.runtime.adoption import adopt
from node.runtime.attempts import Attempt, Folders
from node.runtime.guard import Keeper
from node.runtime.journal import Past

BOOT = "b"


class Guarded(Keeper):
    """The children of this process are those of the guard."""

    def __init__(self, line: socket.socket, guard: socket.socket) -> None:
        super().__init__(line)
        self._guard = guard

    def children(self) -> list[int]:
        return proc.children(os.getpid())

    def told(self) -> bytes:
        """Return what the guard was told."""
        self._guard.setblocking(False)
        try:
            return self._guard.recv(1024)
        except BlockingIOError:
            return b""


@pytest.fixture
def keeper() -> Iterator[Guarded]:
    line, other = socket.socketpair()
    with line, other:
        yield Guarded(line, other)


def zombie() -> int:
    """Return a session leader that has ended, and waits to be reaped."""
    pid = os.posix_spawn("/bin/true", ["true"], {}, setsid=True)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def journaled(key: str, pid: int, *, ended: bool) -> Attempt:
    attempt = Attempt(key)
    stat = proc.stat(pid)
    assert stat is not None
    attempt.pid, attempt.began, attempt.returned = pid, stat.start, stat.start + 0.01
    if ended:
        attempt.ended = clock.wall()
    return attempt


@pytest.mark.parametrize("ended", [False, True])
def test_an_attempt_whose_end_was_noted_and_not_reaped_is_not_taken_for_the_one_that_was_started(
    keeper: Guarded, tmp_path: Path, ended: bool
) -> None:
    before, under_way = zombie(), zombie()
    known = {"j-1/a.0/1": journaled("j-1/a.0/1", before, ended=ended), "j-1/a.1/1": Attempt("j-1/a.1/1")}
    try:
        found = adopt(Past(BOOT, keeper.guard, known), keeper, BOOT, Folders(str(tmp_path)))
        assert (found["j-1/a.1/1"].pid, found["j-1/a.1/1"].reason) == (under_way, None)
        assert keeper.told() == (b"reap %d" % before if ended else b"")
    finally:
        for attempt in known.values():
            if attempt.pidfd is not None:
                os.close(attempt.pidfd)
        for pid in (before, under_way):
            os.waitpid(pid, 0)


def test_a_start_that_had_not_begun_is_left_out_though_another_attempt_was_not_reaped(
    keeper: Guarded, tmp_path: Path
) -> None:
    before = zombie()
    known = {"j-1/a.0/1": journaled("j-1/a.0/1", before, ended=True), "j-1/a.1/1": Attempt("j-1/a.1/1")}
    try:
        assert list(adopt(Past(BOOT, keeper.guard, known), keeper, BOOT, Folders(str(tmp_path)))) == ["j-1/a.0/1"]
    finally:
        os.waitpid(before, 0)
