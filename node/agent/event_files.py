"""Event files of TensorBoard in the output folders of jobs: their scalars become figures of the tasks that wrote them.

A thread looks every 5 s, and when an attempt ends, into the output folder of each job that has attempts here. All tasks
of a job share that folder, also those of other nodes. So a file belongs to an attempt of this node if its folder has
the name of the task, if one of its processes has it open, or if the file's name has this host and a process of it.
What has been read is noted in a file, so that a killed node-agent reads on. Used by ``this_machine``.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from grass.errors import GrassError, UndecodableError
from grass.files.share import open_file
from grass.model.key_text import attempt_parts, job_of
from grass.system import clock
from grass.system.atomic_file import replace_file
from grass.wire.codec import Form, encode
from node.agent.event_file import DamagedError, Scalar, records, scalars
from node.agent.own_figures import OwnFigures
from node.runtime.protocol import Observed

EVERY = 5.0
"""Seconds between looks."""
SOONEST = 0.2
"""The same after the end of an attempt, and while there is more to read."""
SETTLED = 5.0
"""Seconds after the end of an attempt for which its files are looked at."""
MOST_TIME = 0.005
"""Part of the time that is spent on looking into folders: large ones are looked at less often."""
MOST_ENTRIES = 10_000
"""Files and folders of a job that are looked at, and folders in folders."""
MOST_DEPTH = 8
MOST_ATTEMPTS = 1_000
"""Attempts of one job that are remembered, while it has some here."""
MOST_FILES = 64
"""Event files of one attempt."""
MOST_READ = 16 << 20
"""Bytes of one file that are read: about 350,000 scalars. Pictures in it are skipped and do not count."""
AT_ONCE = 256 << 10
"""Bytes of one file in one look, which take about 30 ms."""
_EVENTS = "tfevents."
_NAME = re.compile(r"tfevents\.([0-9]{9,11})\.(.*)")
log = logging.getLogger("grass.tensorboard")


class _Read(msgspec.Struct):
    """How far a file is read, which an attempt wrote."""

    key: str
    prefix: str = ""
    """What its tags have in front."""
    offset: int = 0
    read: int = 0
    """Bytes of the records that were not skipped."""
    done: bool = False
    """Nothing more of it is read."""


_STATE: Form[dict[str, _Read]] = Form(dict[str, _Read])
"""Path in the share → how far it is read."""


@dataclass
class _Attempt:
    """An attempt. ``since``, ``ended``: wall seconds. ``contained``: its processes have other numbers in the names of
    files."""

    since: float
    contained: bool
    ended: float | None = None
    pids: set[int] = field(default_factory=set)


class _Found(NamedTuple):
    """An event file. ``path``: in the share. ``created``: wall seconds."""

    path: str
    name: str
    status: os.stat_result
    created: float


class EventFiles:
    """The thread. ``share``: its folder. ``state``: the file for what has been read."""

    def __init__(self, share: Path, state: Path, own: OwnFigures) -> None:
        self._share = share
        self._state = state
        self._own = own
        self._owners: Mapping[int, str] = {}
        """Pid → attempt, as of the last sample."""
        self._host = socket.gethostname()
        self._lock = threading.Lock()
        self._attempts: dict[str, _Attempt] = {}
        self._files: dict[str, _Read] = {}
        self._said: set[tuple[str, str]] = set()
        self._open: dict[tuple[int, int], str] | None = None
        """Of this look, once it was needed."""
        self._crowded: set[str] = set()
        """Jobs, some of whose attempts were forgotten."""
        self._changed = False
        self._walked = 0.0
        """Seconds that the present look has spent in folders."""
        self._wake, self._quit = threading.Event(), threading.Event()

    def start(self) -> None:
        with suppress(OSError, UndecodableError):
            self._files = _STATE.decode(self._state.read_bytes())
        threading.Thread(target=self._run, name="tensorboard", daemon=True).start()

    def stop(self) -> None:
        self._quit.set()
        self._wake.set()

    def started(self, attempt: Observed) -> None:
        """Note an attempt that runs. May be called again."""
        if attempt.started is None:
            return
        with self._lock:
            known = self._attempts.setdefault(attempt.key, _Attempt(attempt.started, attempt.image is not None))
            known.contained = attempt.image is not None
            known.pids.update([] if attempt.pid is None else [attempt.pid])

    def ended(self, attempt: Observed) -> None:
        """Note that an attempt has ended, and look at once."""
        self.started(attempt)
        with self._lock:
            if attempt.key in self._attempts:
                self._attempts[attempt.key].ended = clock.wall()
        self._wake.set()

    def seen(self, owners: Mapping[int, str]) -> None:
        """Note the processes of attempts, by pid. Called by the sampler, every 2 s."""
        with self._lock:
            for pid, key in owners.items():
                if key in self._attempts:
                    self._attempts[key].pids.add(pid)
            self._owners = owners

    def _run(self) -> None:
        pause: float | None = None
        soonest = 0.0
        while not self._wake.wait(pause) or not self._quit.wait(max(0.0, soonest - clock.steady())):
            if self._quit.is_set():
                break
            self._wake.clear()
            self._walked = 0.0
            try:
                behind = self.look(clock.wall())
            except Exception:
                log.exception("event files of TensorBoard cannot be read now; tasks go on")
                behind = False
            rest = max(SOONEST, self._walked / MOST_TIME)
            soonest = clock.steady() + rest
            with self._lock:
                pause = None if not self._attempts else rest if behind else max(EVERY, rest)

    def look(self, now: float) -> bool:
        """Look once into all folders, and read. Return whether some file has more."""
        self._open = None
        with self._lock:
            attempts = dict(self._attempts)
        behind = False
        for job in {job_of(key) for key in attempts}:
            own = {key: each for key, each in attempts.items() if job_of(key) == job}
            over = all(each.ended is not None and now - each.ended >= SETTLED for each in own.values())
            more = self._look_at(job, own, over=over)
            behind = behind or more
            if over and not more:
                self._drop(own)
                self._crowded.discard(job)
            elif len(own) > MOST_ATTEMPTS:
                ended = [key for key, each in own.items() if each.ended is not None and now - each.ended >= SETTLED]
                self._drop(ended[: len(own) - MOST_ATTEMPTS])
                self._crowded.add(job)
        if self._changed:
            self._changed = False
            with suppress(OSError):  # a full disk
                replace_file(self._state, encode(self._files))
        return behind

    def _look_at(self, job: str, attempts: Mapping[str, _Attempt], *, over: bool) -> bool:
        """Read the files of a job. ``over``: its attempts here have ended. Return whether there is more to read now."""
        behind = False
        for found in self._found(job, attempts):
            file = self._files.get(found.path)
            if file is None:
                key = self._writer(found, attempts)
                if key is None:
                    if over and self._is_from_here(found, attempts):
                        self._say_unknown(found, attempts)
                    continue
                if sum(each.key == key for each in self._files.values()) >= MOST_FILES:
                    self._say(key, f"event files beyond {MOST_FILES}")
                    continue
                file = self._files[found.path] = _Read(key, self._prefix(key, found.path))
            if not file.done and file.offset < found.status.st_size:
                behind = self._read(found, file, over=over) or behind
        return behind

    def _found(self, job: str, attempts: Mapping[str, _Attempt]) -> list[_Found]:
        begun = clock.steady()
        names = list(_event_files(self._share / "jobs" / job, MOST_ENTRIES))
        if names and names[-1] is None:
            self._say(min(attempts), f"event files in an output folder with more than {MOST_ENTRIES:,} files")
        found = []
        for path in filter(None, names):
            with suppress(OSError):
                status = path.lstat()
                named = _NAME.search(path.name)
                created = float(named[1]) if named else status.st_ctime
                found.append(_Found(str(path.relative_to(self._share)), path.name, status, created))
        self._walked += clock.steady() - begun
        return sorted(found)

    def _writer(self, found: _Found, attempts: Mapping[str, _Attempt]) -> str | None:
        """Return the attempt that wrote a file. None: it is of another node, or it cannot be known."""
        those = {
            key: each
            for key, each in attempts.items()
            if each.since - 1 <= found.created and (each.ended is None or found.created <= each.ended + 1)
        }
        for key in sorted(those, key=lambda key: -those[key].since):
            if _is_in_folder_of(key, found.path):
                return key
        if not those or _is_in_folder_of_a_task(found.path, attempts):
            return None
        host, pid = self._host_and_pid(found)
        if not host and not any(each.contained for each in those.values()):
            return None
        opened = self._opened().get((found.status.st_dev, found.status.st_ino))
        if opened in those:
            return opened
        named = [key for key, each in those.items() if host and pid in each.pids and not each.contained]
        if len(named) == 1:
            return named[0]
        alone = len(attempts) == 1 and job_of(min(attempts)) not in self._crowded
        return min(attempts) if host and alone else None

    def _opened(self) -> Mapping[tuple[int, int], str]:
        """Return the event files that attempts have open now, by device and inode: a container may name them
        differently."""
        if self._open is None:
            self._open = {each: key for pid, key in self._owners.items() for each in _open_event_files(pid)}
        return self._open

    def _host_and_pid(self, found: _Found) -> tuple[bool, int]:
        """Return whether the name of a file has this host, and the process in it; 0: none."""
        named = _NAME.search(found.name)
        rest = named[2] if named else ""
        if rest != self._host and not rest.startswith(f"{self._host}."):
            return False, 0
        number = re.match(r"([0-9]{1,9})(?:\.|$)", rest[len(self._host) + 1 :])
        return True, int(number[1]) if number else 0

    def _is_from_here(self, found: _Found, attempts: Mapping[str, _Attempt]) -> bool:
        return self._host_and_pid(found)[0] and min(each.since for each in attempts.values()) - 1 <= found.created

    def _read(self, found: _Found, file: _Read, *, over: bool) -> bool:
        """Read some of a file. Return whether it has more now."""
        values: list[Scalar] = []
        try:
            more = self._records(found, file, values, over=over)
        except (DamagedError, GrassError, OSError) as error:
            more, file.done = False, True
            self._say(file.key, f"{found.path}: {error}; what comes after {file.offset} bytes is not read")
        self._changed = True
        self._own.found_scalars(
            file.key, [(f"{file.prefix}{each.tag}", each.step, each.value, each.at) for each in values]
        )
        return more

    def _records(self, found: _Found, file: _Read, values: list[Scalar], *, over: bool) -> bool:
        with open_file(self._share, found.path) as content:
            size = os.fstat(content.fileno()).st_size
            content.seek(file.offset)
            start, part = file.offset, content.read(AT_ONCE)
            for record in records(part, size - start):
                file.offset = start + record.end
                if record.message is not None:
                    file.read += len(record.message)
                    values += scalars(record.message)
            if file.read >= MOST_READ:
                file.done = True
                self._say(file.key, f"{found.path}: scalars behind the first {MOST_READ >> 20} MiB")
                return False
            moved = file.offset > start
            if over and not moved and file.offset < size:
                raise DamagedError("it ends in the middle of a record")
            return moved and file.offset < size

    def _prefix(self, key: str, path: str) -> str:
        """Return what the figures of a file have in front: of each but the first folder of an attempt, its name."""
        before = [other for other, each in self._files.items() if each.key == key]
        folder = path.rpartition("/")[0]
        if not before or any(other.rpartition("/")[0] == folder for other in before if not self._files[other].prefix):
            return ""
        parts = [part for part in folder.split("/")[2:] if part not in _names_of(key)]
        return f"{parts[-1]}/" if parts else ""

    def _say_unknown(self, found: _Found, attempts: Mapping[str, _Attempt]) -> None:
        self._say(
            min(attempts),
            f"{found.path}: it cannot be known which task wrote it; write into $GRASS_OUTPUT/$GRASS_TASK",
        )

    def _say(self, key: str, text: str) -> None:
        if (key, text) not in self._said:
            self._said.add((key, text))
            self._own.trouble(key, text)

    def _drop(self, forgotten: Iterable[str]) -> None:
        """Forget attempts whose files are read."""
        attempts = set(forgotten)
        with self._lock:
            for key in attempts:
                self._attempts.pop(key, None)
                self._own.forget(key)
        gone = [path for path, each in self._files.items() if each.key in attempts]
        for path in gone:
            del self._files[path]
            self._changed = True
        self._said = {each for each in self._said if each[0] not in attempts}


def _event_files(folder: Path, room: int) -> Iterator[Path | None]:
    """Yield the event files below a folder; links are not followed. None at the end: there is more than ``room``."""
    waiting = [(str(folder), 0)]
    while waiting:
        here, depth = waiting.pop()
        with suppress(OSError), os.scandir(here) as entries:
            for entry in entries:
                room -= 1
                if room < 0:
                    yield None
                    return
                if _EVENTS in entry.name:
                    yield Path(entry.path)
                elif depth < MOST_DEPTH and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, depth + 1))


def _is_in_folder_of(key: str, path: str) -> bool:
    """Check whether a folder of the path has the name of the task, as ``main.3`` or ``GRASS_TASK`` says it."""
    return not _names_of(key).isdisjoint(path.split("/")[2:-1])


def _names_of(key: str) -> set[str]:
    job, task, _ = attempt_parts(key)
    return {task, f"{job[:-9]}.{task}"}


def _is_in_folder_of_a_task(path: str, attempts: Mapping[str, _Attempt]) -> bool:
    """Check whether the folder is that of a task whose attempt here did not write the file: an earlier one did."""
    return any(_is_in_folder_of(key, path) for key in attempts)


def _open_event_files(pid: int) -> Iterator[tuple[int, int]]:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for each in os.listdir(folder):  # noqa: PTH208 # many
            with suppress(OSError):
                if _EVENTS in os.readlink(f"{folder}/{each}"):  # noqa: PTH115
                    seen = os.stat(f"{folder}/{each}")  # noqa: PTH116
                    yield seen.st_dev, seen.st_ino
