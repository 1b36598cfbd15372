"""Copies the files of a master from one machine to another, through this one: the two need not reach each other.

``mirror`` runs on both. Used by ``moving``.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO

from grass.errors import ConflictError, GrassError
from grass.hosts import Done, Host
from grass.model.amounts import show_memory
from grass.provision.on_premises.backup import checked
from grass.provision.on_premises.design import VENV
from grass.provision.on_premises.facts import Facts
from grass.provision.on_premises.install import AS_GRASS
from grass.provision.on_premises.mirror import LISTING, Listing, Places
from grass.wire.codec import encode

_PROGRAM = (*AS_GRASS, f"{VENV}/bin/python", "-m", "grass.provision.on_premises.mirror")
_PATIENCE = 6 * 3600.0
_LEAST_FREE = 1 << 30


def check_share(host: Host, places: Places, facts: Facts, name: str) -> None:
    """Raises ConflictError: the folder of the share has files that are not of this cluster. They would be removed."""
    if places.share and name not in facts.records:
        found = host.run(["ls", "-A", "--", places.share], sudo=True)
        if found.out.strip():
            raise ConflictError(f"{host.name}: {places.share} is not empty; empty it, or take another machine")


def copy(old: Host, there: Places, new: Host, here: Places) -> int:
    """Make the files of the new machine the same as those of the old one. Return how many bytes were sent.

    Raises ConflictError: the new machine has too little space. OnMasterError: files cannot be read or written."""
    has = LISTING.decode(_run(new, "have", here).out)
    wanted = LISTING.decode(_run(old, "have", there).out)
    check_space(new.name, wanted, has)
    return _stream(old, there, encode(has), new, here)


def check_space(host: str, wanted: Listing, has: Listing) -> None:
    """Raises ConflictError: what is wanted there, beside what it has, would fill its disk."""
    lacks = max(0, wanted.size - has.size)
    if lacks + _LEAST_FREE > has.free:
        raise ConflictError(
            f"{host}: {show_memory(lacks)} have to be copied there, and {show_memory(has.free)} are free; "
            f"{show_memory(_LEAST_FREE)} have to stay free; make space there"
        )


def _stream(old: Host, there: Places, has: str, new: Host, here: Places) -> int:
    reading, writing = os.pipe()
    source = os.fdopen(reading, "rb", buffering=0)
    counted = _Counted(os.fdopen(writing, "wb", buffering=0))
    with ThreadPoolExecutor(1) as pool:
        receiving = pool.submit(_received, new, here, source)
        try:
            with suppress(BrokenPipeError):  # the receiver has failed, and says why
                _run(old, "send", there, has.encode(), counted)
        finally:
            counted.close()
            receiving.result()
    return counted.size


def _received(new: Host, here: Places, source: IO[bytes]) -> None:
    with source:
        _run(new, "receive", here, source)


class _Counted:
    """The begin of a pipe. ``size``: bytes that went through."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = 0

    def write(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self.size += len(data)
        return len(data)

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


def compare(old: Host, there: Places, new: Host, here: Places) -> None:
    """Raises CopyDiffersError: the two machines do not have the same."""
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda side: _run(side[0], "digest", side[1]).out, ((old, there), (new, here)))
    if one != other:
        raise CopyDiffersError(f"{new.name}: has not the same files as {old.name}; try again")


class CopyDiffersError(GrassError):
    """What was copied is not what was there."""

    code = "copy-differs"


def _run(
    host: Host, action: str, places: Places, stdin: bytes | IO[bytes] | None = None, output: object = None
) -> Done:
    words = [*_PROGRAM, action, encode(places)]
    return checked(host, host.run(words, stdin=stdin, sudo=True, timeout=_PATIENCE, output=output))  # type: ignore[arg-type]
