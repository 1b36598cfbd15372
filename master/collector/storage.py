"""The files of the collector: ``<logs>/<job id>/<component>.<index>.jsonl``, one block a line, each block once.

What each file already has (the end of every attempt's streams) is remembered for the files used last and recovered
from the file itself otherwise. No file stays open: opening costs some microseconds per message, and in return a folder
that is deleted, or a file that somebody else changed, is noticed at the next message by its inode and size.
"""

from __future__ import annotations

import os
import re
import stat
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from master.collector.blocks import Block, Key
from master.collector.scan import scan

REMEMBERED = 8192
"""Files whose ends are kept in memory, about half a KiB each."""

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}"
_COMPONENT = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,199}"
_TAG = re.compile(rf"grass\.({_NAME})\.({_COMPONENT})\.([0-9]{{1,9}})")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Target:
    """The task that a tag names."""

    job_id: str
    file: str

    @classmethod
    def of_tag(cls, tag: str) -> Target | None:
        """None when the tag is not ours. A job id may hold dots, a component's name cannot."""
        match = _TAG.fullmatch(tag)
        if match is None:
            return None
        job_id, component, index = match.groups()
        return cls(job_id, f"{component}.{int(index)}.jsonl")


@dataclass
class _State:
    inode: int
    size: int
    ends: dict[Key, int]


def fresh(blocks: list[Block], ends: dict[Key, int]) -> tuple[list[Block], dict[Key, int]]:
    """The blocks, or parts of them, that are not stored yet, and the ends when they are. Pure."""
    new: list[Block] = []
    grown: dict[Key, int] = {}
    for block in blocks:
        rest = block.after(grown.get(block.key, ends.get(block.key, 0)))
        if rest is not None:
            new.append(rest)
            grown[block.key] = rest.end
    return new, grown


class Storage:
    """Appends blocks. OSError comes through, with the file as it was before."""

    def __init__(self, root: Path, remembered: int = REMEMBERED) -> None:
        self._root = root
        self._remembered = remembered
        self._states: OrderedDict[Target, _State] = OrderedDict()

    def append(self, target: Target, blocks: list[Block]) -> None:
        """Returns when the kernel has the new ones: that outlives a kill of any process, though not a power cut."""
        descriptor = self._open(target)
        try:
            state = self._state(target, descriptor)
            new, grown = fresh(blocks, state.ends)
            if new:
                state.size += _append(descriptor, b"".join(block.to_line() for block in new), state.size)
                state.ends.update(grown)
        finally:
            os.close(descriptor)

    def _open(self, target: Target) -> int:
        # The share can be written by tasks: no link is followed, neither as a folder nor as a file.
        try:
            folder = os.open(self._root / target.job_id, _DIRECTORY)
        except FileNotFoundError:
            (self._root / target.job_id).mkdir(parents=True, exist_ok=True)
            folder = os.open(self._root / target.job_id, _DIRECTORY)
        try:
            return os.open(target.file, _FILE, 0o644, dir_fd=folder)
        finally:
            os.close(folder)

    def _state(self, target: Target, descriptor: int) -> _State:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise IsADirectoryError(f"{target.job_id}/{target.file} is no regular file")
        state = self._states.get(target)
        if state is None or (state.inode, state.size) != (info.st_ino, info.st_size):
            size, ends = recover(descriptor) if info.st_size else (0, {})
            state = self._states[target] = _State(info.st_ino, size, ends)
        self._states.move_to_end(target)
        if len(self._states) > self._remembered:
            self._states.popitem(last=False)
        return state


def _append(descriptor: int, data: bytes, size: int) -> int:
    """All or nothing: a disk that is full must not leave half a line."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise
    return len(data)


def recover(descriptor: int) -> tuple[int, dict[Key, int]]:
    """Cuts off a line that a killed writer left torn; returns the size then, and where each stream ends."""
    size, ends = scan(descriptor)
    if os.fstat(descriptor).st_size != size:
        os.ftruncate(descriptor, size)
    return size, ends
