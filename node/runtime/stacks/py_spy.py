"""Python stacks of a process, by py-spy: another program, because the process knows nothing of it. Used by ``collect``.

Where users are isolated, the daemons may not look into tasks. The shepherd then runs py-spy in the task's own view.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from grass.errors import GrassError, UndecodableError
from grass.model.program import SYSTEM_PATH
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.environment import variables
from grass.wire.codec import Form
from grass.wire.stacks import ThreadStack
from node.runtime.process.beside import OfShepherd

SECONDS = 2.0
"""Time for one process."""
_TRIES = 3
"""A process that goes on may change its stack while that is read."""
_MOST_FRAMES = 100
_MOST_OUTPUT = 4 << 20
NO_PROGRAM = "py-spy is not installed; install it beside Grass (`pip install py-spy`) to see stacks of Python programs"
_REFUSED = ("Permission Denied", "os error 1)", "os error 13)")
"""What py-spy says without rights, and what the kernel answers: EPERM and EACCES."""


class _Frame(msgspec.Struct):
    name: str
    filename: str
    line: int


class _Thread(msgspec.Struct):
    os_thread_id: int | None
    thread_name: str | None
    frames: list[_Frame]


_DUMP: Form[list[_Thread]] = Form(list[_Thread])


class PySpyError(Exception):
    """No stacks of this process."""


class NotPermittedError(PySpyError):
    """The kernel lets py-spy not look into this process."""


class PySpy:
    """Runs py-spy. For several threads."""

    def __init__(self, config: NodeHome, folders: str | None = None) -> None:
        """``folders``: where the program is looked for; None: beside Python, and on the PATH."""
        self._config = config
        usual = f"{Path(sys.executable).parent}:{variables().get('PATH', SYSTEM_PATH)}"
        self._program = shutil.which("py-spy", path=usual if folders is None else folders)

    @property
    def missing(self) -> bool:
        return self._program is None

    def threads(self, key: str, pid: int) -> tuple[ThreadStack, ...]:
        """Return the threads of a process of attempt ``key``, the first one first. Raises PySpyError."""
        if self._program is None:
            raise PySpyError(NO_PROGRAM)
        command = [self._program, "dump", "--json", "--nonblocking", "--pid", str(pid)]
        said = ""
        for _ in range(_TRIES):
            code, output, said = _run(command)
            if code and _refused(said) and self._config.node.isolate is not None:
                code, output, said = self._run_by_shepherd(key, command)
            if code == 0:
                with suppress(UndecodableError):
                    return tuple(_sorted(_DUMP.decode(output), pid))
            if _refused(said):
                raise NotPermittedError("py-spy may not look into the process")
        raise PySpyError(f"py-spy cannot read the process: {said.partition(chr(10))[0]}")

    def _run_by_shepherd(self, key: str, command: list[str]) -> tuple[int, bytes, str]:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            beside = OfShepherd(self._config.socket("shepherd"), key, command, {}, [nothing, writing, writing], False)
        except GrassError as error:
            os.close(reading)
            return 1, b"", f"{error} (os error 1)"  # such as an attempt that is a container
        finally:
            os.close(nothing)
            os.close(writing)
        try:
            output = _read(reading)
            beside.kill()
            code = beside.code()
        finally:
            os.close(reading)
            beside.close()
        return code, output, "" if code == 0 else output.decode(errors="replace")


def _run(command: list[str]) -> tuple[int, bytes, str]:
    process = subprocess.Popen(
        command, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    )
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # not waited for: it may wait in the kernel as the task does
        return 1, b"", f"no answer within {SECONDS:g} s"
    return process.returncode, output[:_MOST_OUTPUT], errors.decode(errors="replace")


def _read(descriptor: int) -> bytes:
    """Return what is written there, for ``SECONDS``."""
    parts, until = bytearray(), clock.steady() + SECONDS
    while (left := until - clock.steady()) > 0 and len(parts) < _MOST_OUTPUT:
        if select.select([descriptor], [], [], left)[0]:
            if not (piece := os.read(descriptor, 1 << 16)):
                break
            parts += piece
    return bytes(parts)


def _refused(said: str) -> bool:
    return any(each in said for each in _REFUSED)


def _sorted(threads: list[_Thread], pid: int) -> Iterator[ThreadStack]:
    """Yield the threads, the first one first. Inside of a container, ids of threads are others."""
    ids = [each.os_thread_id or 0 for each in threads]
    first = pid if pid in ids else min(ids, default=0)
    for thread in sorted(threads, key=lambda each: (each.os_thread_id != first, each.os_thread_id or 0)):
        frames = (f"{frame.name} ({frame.filename}:{frame.line})" for frame in thread.frames[:_MOST_FRAMES])
        yield ThreadStack(tuple(frames), thread.thread_name or "", thread.os_thread_id == first)
