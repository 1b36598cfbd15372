"""This machine as a host: commands are child processes. Implements ``grass.hosts.host``.

Used by ``grass.hosts`` and ``ssh``.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from grass.hosts.command_line import Secret, shown
from grass.hosts.errors import CommandTimeoutError
from grass.hosts.host import Ask, Become, Done, Host, Stdin

CHUNK = 1 << 18
_NOT_FOUND, _NOT_RUNNABLE = 127, 126


class LocalHost(Host):
    """Runs commands as this user, or by sudo."""

    def __init__(
        self,
        name: str = "this machine",
        *,
        become: Become = Become.NONE,
        password: Secret | None = None,
        ask: Ask | None = None,
    ) -> None:
        super().__init__(name, become=become, password=password, ask=ask)

    def _execute(
        self, argv: Sequence[str], stdin: Stdin, before: bytes, timeout: float, output: IO[bytes] | None = None
    ) -> Done:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(list(argv), stdin=pipe, stdout=output or pipe, stderr=pipe, cwd="/")
        except OSError as error:  # the code of a shell, so that both kinds of host agree
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUNNABLE
            return Done(tuple(argv), code, "", f"{argv[0]}: {error.strerror}", host=self.name)
        assert process.stdin is not None
        feeder = threading.Thread(target=_feed, args=(process.stdin, before, stdin), daemon=True)
        process_stdin, process.stdin = process.stdin, None  # communicate() must not use the feeder's pipe
        feeder.start()
        try:
            printed, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise CommandTimeoutError(f"{self.name}: `{shown(argv)}` did not end within {timeout:g} s") from None
        finally:
            feeder.join(5)
            with suppress(OSError):
                process_stdin.close()
        out = printed or b""  # None: it went into a file
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Done(tuple(argv), code, out.decode(errors="replace"), err.decode(errors="replace"), out, self.name)


def _feed(pipe: IO[bytes], before: bytes, stdin: Stdin) -> None:
    """Write the input. A command need not read all of it, so errors are ignored."""
    with suppress(OSError, ValueError), pipe:
        send(pipe.write, before, stdin)


def send(write: Callable[[bytes], object], before: bytes, stdin: Stdin) -> None:
    """Pass all input to ``write``, in pieces."""
    if before:
        write(before)
    if isinstance(stdin, Path):
        with stdin.open("rb") as file:
            _copy(write, file)
    elif isinstance(stdin, bytes):
        for start in range(0, len(stdin), CHUNK):
            write(stdin[start : start + CHUNK])
    elif stdin is not None:
        _copy(write, stdin)


def _copy(write: Callable[[bytes], object], source: IO[bytes]) -> None:
    while piece := source.read(CHUNK):
        write(piece)
