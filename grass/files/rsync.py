"""One transfer by rsync: its arguments, its progress, and the meaning of its failures.

rsync skips existing files and continues interrupted ones (``--partial-dir``, so that no task sees a partial file under
its final name). rsync keeps permissions and times, and is as fast as the line. Used by ``transfers``,
``grass.cli.transfer``, ``grass.provision.files_command`` and ``grass.provision.space_left``.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, cast

from grass.errors import ConflictError, GrassError, InputError, NotAllowedError, UnreachableError
from grass.files.rights import NOT_ALLOWED
from grass.lines import lines_of
from grass.system import clock

PARTIAL = ".grass-partial"
_PIPE = 1 << 20
"""Bytes of rsync's lines that the pipe holds: about 15,000 files."""
_PAUSE = 0.02
"""Seconds between two looks while many files pass."""
_KEEP = ["--recursive", "--links", "--perms", "--times", "--executability", f"--partial-dir={PARTIAL}", "--mkpath"]
_SAY = ["--info=progress2,stats0,name0", "--outbuf=None", "--no-human-readable"]
_PROGRESS = re.compile(rb"\s*([\d,.]+)\s+(\d+)%\s+([\d.]+)(\wB)/s\s+([\d:]+)")
_ITEM = 11
"""Characters of what rsync writes about a file (``%i``)."""
_RATE = {b"kB": 1e3, b"MB": 1e6, b"GB": 1e9}
_UNREACHABLE = frozenset({5, 10, 12, 30, 35, 255})
_WRONG = frozenset({1, 2, 3, 4})
OVER_QUOTA = 43
"""Exit code of the server when a transfer ended because of a quota. rsync has none of this number."""
QUOTA = "quota of user "
"""How the server begins to say so. rsync passes the code on, or ends with 12 if it first sees the server gone."""
_CHECKED = "pre-xfer exec returned failure"
"""What rsync's daemon says before the words of the server's own check (``path_check``)."""


@dataclass(frozen=True)
class Progress:
    """Progress of a transfer.

    ``done``: bytes; ``percent``: of all files that rsync has found so far; ``rate``: bytes/s; ``left``: h:mm:ss.
    """

    done: int
    percent: int
    rate: float
    left: str


def command(program: str, options: Sequence[str], sources: Sequence[str], target: str) -> list[str]:
    return [program, *_KEEP, *_SAY, *options, "--", *sources, target]


def transfer(argv: Sequence[str], what: str, on_progress: Callable[[Progress], object]) -> int:
    """Run the transfer to its end and return the number of bytes sent. ``what``: the transfer's name, for messages."""
    done = 0
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, pipesize=_PIPE
        )
        try:
            for found in _progress(cast(IO[bytes], process.stdout)):
                done = found.done
                on_progress(found)
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
        if code:
            errors.seek(0)
            raise _failure(code, what, errors.read().decode(errors="replace"))
    return done


@dataclass(frozen=True)
class Item:
    """What a transfer would do with one file or link. ``path``: below its target.

    ``replaces``: it would put another content in the place of what is there.
    """

    path: str
    replaces: bool


def items(program: str, options: Sequence[str], sources: Sequence[str], target: str, what: str) -> list[Item]:
    """Return what a transfer would do, without doing it. ``what``: the transfer's name, for messages."""
    looks = ["--dry-run", "--itemize-changes", "--itemize-changes", "--out-format=%i %n"]
    argv = [program, *_KEEP, *looks, *options, "--", *sources, target]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise _failure(done.returncode, what, done.stderr.decode(errors="replace"))
    return [item for line in done.stdout.split(b"\n") if (item := _item(line)) is not None]


def _item(line: bytes) -> Item | None:
    """Parse a line such as ``>f.st...... folder/file``. rsync writes bytes that cannot be shown as ``\\#012``."""
    how, _, name = line.partition(b" ")
    if len(how) != _ITEM or how[1:2] not in (b"f", b"L"):
        return None
    raw = re.sub(rb"\\#([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), name)
    return Item(os.fsdecode(raw), how[:1] in (b">", b"c") and not how.endswith(b"+++"))


def parse(line: bytes) -> Progress | None:
    """Parse a line of ``--info=progress2``: bytes, percent, rate, time left."""
    match = _PROGRESS.match(line)
    if match is None:
        return None
    done, percent, rate, unit, left = match.groups()
    return Progress(int(re.sub(rb"\D", b"", done)), int(percent), float(rate) * _RATE.get(unit, 1.0), left.decode())


def _progress(stream: IO[bytes]) -> Iterator[Progress]:
    """Yield the newest progress. rsync overwrites its line after each file, so the pieces end in carriage returns.

    While many small files pass, it is looked at now and then only: otherwise the reader would take more processor time
    than rsync.
    """
    rest = b""
    while piece := stream.read1(_PIPE):  # type: ignore[attr-defined]
        *whole, rest = re.split(rb"[\r\n]", rest + piece)
        newest = next((found for line in reversed(whole) if (found := parse(line)) is not None), None)
        if newest is not None:
            yield newest
        if len(whole) > 1:
            clock.sleep(_PAUSE)
    last = parse(rest)
    if last is not None:
        yield last


def _failure(code: int, what: str, said: str) -> GrassError:
    lines = [line for line in lines_of(said) if line.strip() and not line.startswith("rsync error:")]
    lines = [line for line in lines if _CHECKED not in line] or lines
    reason = "; ".join(lines[-3:]) or f"rsync ended with {code}"
    if over := [line for line in lines if line.startswith(QUOTA)]:
        return ConflictError(f"{what}: {over[0]}")
    if refused := [line.removeprefix(NOT_ALLOWED) for line in lines if line.startswith(NOT_ALLOWED)]:
        return NotAllowedError(f"{what}: {refused[0]}")
    if code in _UNREACHABLE:
        return UnreachableError(f"{what}: the connection to the cluster failed ({reason}); run it again to go on")
    if code in _WRONG:
        return InputError(f"{what}: {reason}")
    if code == 11:
        return GrassError(f"{what}: {reason}; what has arrived stays, and the same command goes on from there")
    return GrassError(f"{what}: {reason}")
