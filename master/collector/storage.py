"""The files of the collector: ``<logs>/<job id>/<component>.<index>.jsonl``, one block per line, each block once.

A file that grows beyond its limit loses its middle: ``drop_middle`` makes a hole of that, so that offsets in the file
stay as they are, and readers go on.

The end of each stream in a file is kept in memory for recently used files, and recovered from the file otherwise. No
file stays open. Opening costs a few microseconds per message, but a deleted folder, or a file that another program
changed, is noticed at the next message by inode and size. Used by ``__main__``, ``owners`` and ``server``.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grass.model.job import LEAST_OUTPUT_LIMIT
from grass.model.names import COMPONENT, JOB_ID, MAX_JOB_ID, MAX_NAME
from grass.system import disk
from grass.wire.keys import TaskKey
from grass.wire.log_block import DELETED
from master.collector.blocks import Block, Key
from master.collector.scan import scan

REMEMBERED = 8192
"""Files whose ends are kept in memory, about half a KiB each."""

_PIECE = 1 << 16
_TAG = re.compile(rf"grass\.({JOB_ID})\.({COMPONENT})\.([0-9]{{1,9}})")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


log = logging.getLogger(__name__)


class DeletedError(Exception):
    """The job of these blocks was deleted."""


@dataclass(frozen=True)
class Target:
    """The task that a tag names."""

    job_id: str
    file: str

    @property
    def task(self) -> TaskKey:
        return TaskKey.parse(self.file.removesuffix(".jsonl"))

    @classmethod
    def of_tag(cls, tag: str) -> Target | None:
        """Parse a tag; None: it is not of Grass. A job id may contain dots, a component's name cannot."""
        match = _TAG.fullmatch(tag)
        if match is None:
            return None
        job_id, component, index = match.groups()
        if len(job_id) > MAX_JOB_ID or len(component) > MAX_NAME:
            return None  # its file might have a name that the file system refuses
        return cls(job_id, f"{component}.{int(index)}.jsonl")


@dataclass
class _State:
    inode: int
    size: int
    ends: dict[Key, int]
    dropped: int = 0
    """Where the newest part that is kept begins; 0: nothing was dropped, or it is not known."""


def fresh(blocks: list[Block], ends: dict[Key, int]) -> tuple[list[Block], dict[Key, int]]:
    """Return the blocks, or parts of them, that are not stored yet, and the stream ends after storing them. Pure."""
    new: list[Block] = []
    grown: dict[Key, int] = {}
    for block in blocks:
        rest = block.after(grown.get(block.key, ends.get(block.key, 0)))
        if rest is not None:
            new.append(rest)
            grown[block.key] = rest.end
    return new, grown


class Storage:
    """Appends blocks to files. After an OSError the file is as it was before."""

    def __init__(self, root: Path, remembered: int = REMEMBERED) -> None:
        self._root = root
        self._remembered = remembered
        self._states: OrderedDict[Target, _State] = OrderedDict()
        self._drops = True

    def append(self, target: Target, blocks: list[Block]) -> None:
        """Append the blocks that are new. They survive any kill when it returns, but not a power cut.

        Raises DeletedError."""
        descriptor = self._open(target)
        try:
            state = self._state(target, descriptor)
            new, grown = fresh(blocks, state.ends)
            if new:
                state.size += _append(descriptor, b"".join(block.to_line() for block in new), state.size)
                state.ends.update(grown)
                self._bound(descriptor, state, max(LEAST_OUTPUT_LIMIT, new[-1].limit))
        finally:
            os.close(descriptor)

    def _bound(self, descriptor: int, state: _State, limit: int) -> None:
        step = limit // 16  # a hole is made larger in steps, because making one takes longer than writing a block
        kept = limit // 2 - step
        if not self._drops or state.size - max(state.dropped, limit // 2) <= kept + step:
            return
        try:
            state.dropped = drop_middle(descriptor, limit // 2, state.size - kept)
        except OSError as error:
            self._drops = False
            log.warning(
                "output beyond a task's limit stays: the file system cannot give a part of a file back (%s)", error
            )

    def _open(self, target: Target) -> int:
        # Tasks can write to the share, so no link is followed, neither as a folder nor as a file.
        try:
            folder = self._folder(target.job_id)
            try:
                return os.open(target.file, _FILE, 0o644, dir_fd=folder)
            finally:
                os.close(folder)
        except FileNotFoundError:
            self._check_deleted(target.job_id)  # while the folder was made or used
            raise

    def _folder(self, job_id: str) -> int:
        path = self._root / job_id
        try:
            return os.open(path, _DIRECTORY)
        except FileNotFoundError:
            path.mkdir(parents=True, exist_ok=True)
        try:
            self._check_deleted(job_id)  # not before: see ``LogRemoval.remove``
        except DeletedError:
            with suppress(OSError):
                path.rmdir()
            raise
        return os.open(path, _DIRECTORY)

    def _check_deleted(self, job_id: str) -> None:
        if os.path.lexists(self._root / f"{DELETED}{job_id}"):
            raise DeletedError(job_id)

    def _state(self, target: Target, descriptor: int) -> _State:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise IsADirectoryError(f"{target.job_id}/{target.file} is not a regular file")
        state = self._states.get(target)
        if state is None or (state.inode, state.size) != (info.st_ino, info.st_size):
            size, ends = recover(descriptor) if info.st_size else (0, {})
            state = self._states[target] = _State(info.st_ino, size, ends)
        self._states.move_to_end(target)
        if len(self._states) > self._remembered:
            self._states.popitem(last=False)
        return state


def _append(descriptor: int, data: bytes, size: int) -> int:
    """Write all or nothing, so that a full disk does not leave half a line. Return the number of bytes."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise
    return len(data)


def drop_middle(descriptor: int, head: int, tail: int) -> int:
    """Give the lines between these two offsets back to the disk. Return where the line behind them begins.

    The hole begins and ends where a line does. Raises OSError."""
    begin, end = _next_line(descriptor, head), _next_line(descriptor, tail)
    disk.punch(descriptor, begin, end)
    return end


def _next_line(descriptor: int, at: int) -> int:
    """Return where the first line begins that does not begin before ``at``."""
    at = max(0, at - 1)
    while data := os.pread(descriptor, _PIECE, at):
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(data)
    return at


def recover(descriptor: int) -> tuple[int, dict[Key, int]]:
    """Cut off an incomplete line that a killed writer left. Return the file's size, and the end of each stream."""
    size, ends = scan(descriptor)
    if os.fstat(descriptor).st_size != size:
        os.ftruncate(descriptor, size)
    return size, ends
