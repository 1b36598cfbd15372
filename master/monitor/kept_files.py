"""Measures how much each user keeps in the share, if quotas limit that, and reports it to the master-agent.

A user's files are ``data/NAME/``, ``data/shared/NAME/``, the folders of the user's jobs, and the images that the user
pushed. To walk through few files, the folder of a job that has ended is measured once and then remembered. Other
folders are measured again only if their user may have changed something: jobs of the user were active, the user pushed
or removed files, or the user exceeds a limit. Everything is measured again after an hour. Measuring takes at most a
twentieth of the time, and half of it while somebody asks for the figures. Used by ``__main__``.
"""

from __future__ import annotations

import logging
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from grass.api.user_files import records
from grass.config import ClusterConfig
from grass.errors import GrassError, InputError, UndecodableError
from grass.files.paths import JOBS
from grass.files.pushes import pushed_at
from grass.files.rights import own_folders
from grass.files.share import blob_path, incoming, read_index
from grass.model.policy import FILES, SPACE, exceeded
from grass.store.job_index import BEGUN, ENDED
from grass.store.records import Records
from grass.store.tickets import Tickets
from grass.system import clock, own_program
from grass.wire.api_figures import KeptAnswer
from grass.wire.codec import encode
from grass.wire.tickets import KeptFiles
from master.monitor.folder_sizes import SIZES

EVERY = 5.0
"""Least seconds between two measurements."""
REST = 20.0
"""The pause after a measurement, as a multiple of the time that it took."""
AGAIN = 3600.0
"""Seconds after which a user is measured although nothing seems to have changed."""
_MOST_JOBS = 100_000
_NOTHING: Mapping[str, int] = {SPACE: 0, FILES: 0}

log = logging.getLogger("grass.monitor")


@dataclass
class _User:
    """What is known of one user."""

    folders: list[str] = field(default_factory=list)
    """The folders that are measured each time."""
    ended: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Folder of a job that had ended when it was measured → what was in it."""
    newly_ended: set[str] = field(default_factory=set)
    """Folders of jobs that have ended, to be measured once more."""
    images: frozenset[str] = frozenset()
    """The parts of the user's images."""
    kept: dict[str, int] = field(default_factory=dict)
    """``space`` and ``files`` at the last measurement."""
    at: float = -1e9
    """Steady seconds at which the last measurement began."""
    pushed: float = 0.0
    active: bool = False
    due: bool = False
    """Whether something may have changed since the last measurement that succeeded."""


@dataclass
class _Measuring:
    """A measurement in progress. Its process reads the folders from one file and writes the sizes to another."""

    process: subprocess.Popen[bytes]
    answer: IO[bytes]
    users: list[str]
    begun: float


class KeptFilesWatch:
    """Call ``turn`` often; it never waits for the measurement. Safe for several threads."""

    def __init__(
        self, config: ClusterConfig, records: Records, tickets: Tickets, steady: Callable[[], float] = clock.steady
    ) -> None:
        self._config = config
        self._records = records
        self._tickets = tickets
        self._steady = steady
        policy = config.master
        self._limited = any({SPACE, FILES} & quota.keys() for quota in (*policy.quotas.values(), policy.default_quota))
        self._users: dict[str, _User] = {}
        self._told: dict[str, dict[str, int]] | None = None
        self._measuring: _Measuring | None = None
        self._due = 0.0
        self._lock = threading.Lock()
        self._asked = self._seen = -1e9
        """Steady seconds at which somebody asked, and at which the last complete measurement began."""
        self._rested = 0.0
        """When a measurement that somebody asks for may begin."""

    def turn(self) -> None:
        """Begin a measurement if one is due, or take the result of one. Raises UnreachableError."""
        if self._limited:
            with self._lock:
                self._turn()

    def ask(self) -> KeptAnswer:
        """Return the last figures, and have them measured again soon. Raises UnreachableError."""
        with self._lock:
            if self._asked <= self._seen:
                self._asked = self._steady()
            if self._limited:
                self._turn()
            age = None if self._seen < 0 else self._steady() - self._seen
            return KeptAnswer({name: user.kept for name, user in self._users.items() if user.kept}, age)

    def _turn(self) -> None:
        if self._measuring is not None:
            if self._measuring.process.poll() is not None:
                done, self._measuring = self._measuring, None
                self._take(done)
        elif (now := self._steady()) >= self._due or (self._asked > self._seen and now >= self._rested):
            self._due = self._steady() + EVERY
            self._begin()

    def close(self) -> None:
        """End a measurement in progress."""
        if self._measuring is not None:
            self._measuring.process.kill()
            self._measuring.process.wait()
            self._measuring.answer.close()
            self._measuring = None

    def _quota(self, user: str) -> Mapping[str, int]:
        return self._config.master.quotas.get(user, self._config.master.default_quota)

    def _begin(self) -> None:
        due, images, begun = [], self._images(), self._steady()
        known: list[InputError] = []  # a damaged file of a user is reported by the API server
        names = {record.user for record in records(self._config.master_dir, known.append)}
        names |= {user for user in self._config.master.quotas if user != "default"}
        for name in sorted(names):
            if {SPACE, FILES} & self._quota(name).keys():
                user = self._users.setdefault(name, _User())
                if self._look(name, user, frozenset(images.get(name, ()))):
                    due.append(name)
        self._users = {name: user for name, user in self._users.items() if name in names}
        if due:
            self._start(due)
        else:
            self._seen = begun
            self._tell()

    def _images(self) -> dict[str, set[str]]:
        """Return the parts of images by user. A part that images of several users need is among those of each."""
        share, found = self._config.data_dir, dict[str, set[str]]()
        with suppress(GrassError, OSError):  # commands on images report a damaged list
            for entry in read_index(share).values():
                found.setdefault(entry.user, set()).update(str(blob_path(share, digest)) for digest in entry.blobs)
        return found

    def _look(self, name: str, user: _User, images: frozenset[str]) -> bool:
        """Learn which folders are the user's. Return whether they have to be measured now."""
        share, index = self._config.data_dir, self._records.job_index
        active = [f"{share}/{JOBS}/{job}" for job in index.newest([BEGUN], name, _MOST_JOBS, None)]
        ended = {f"{share}/{JOBS}/{job}" for job in index.newest([ENDED], name, _MOST_JOBS, None)}
        removed = user.ended.keys() - ended
        for folder in removed:
            del user.ended[folder]
        pushed, before = pushed_at(self._config, name), (user.pushed, user.active, user.images)
        again = self._steady() - user.at > AGAIN
        asked = user.at <= self._asked
        if again or pushed != user.pushed:
            user.ended.clear()
        user.newly_ended = ended - user.ended.keys()
        own = (*own_folders(name), incoming(name))
        user.folders = [*(f"{share}/{folder}" for folder in own), *images, *active]
        user.pushed, user.active, user.images = pushed, bool(active), images
        over = exceeded(self._quota(name), user.kept)
        changed = bool(active or removed or user.newly_ended) or before != (pushed, bool(active), images)
        user.due |= again or changed or asked or bool(over)
        return user.due

    def _start(self, due: list[str]) -> None:
        folders = [each for name in due for each in (*self._users[name].folders, *self._users[name].newly_ended)]
        answer = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed when the result was taken)
        with tempfile.TemporaryFile() as asked:
            asked.write(encode(folders).encode())
            asked.seek(0)
            command = own_program.command("master.monitor.folder_sizes")
            process = subprocess.Popen(command, stdin=asked, stdout=answer, stderr=subprocess.DEVNULL)
        self._measuring = _Measuring(process, answer, due, self._steady())

    def _take(self, done: _Measuring) -> None:
        now = self._steady()
        self._due = now + max(EVERY, REST * (now - done.begun))
        self._rested = now + (now - done.begun)
        with done.answer:
            done.answer.seek(0)
            try:
                sizes = SIZES.decode(done.answer.read())
            except UndecodableError:
                log.warning("the files of users in the share could not be measured; the next try is in %.0f s", EVERY)
                self._due = now + EVERY
                return
        for name in done.users:
            if (user := self._users.get(name)) is not None:
                user.ended.update((folder, sizes.get(folder, _NOTHING)) for folder in user.newly_ended)
                parts = [*user.ended.values(), *(sizes.get(folder, _NOTHING) for folder in user.folders)]
                user.kept = {kind: sum(part[kind] for part in parts) for kind in (SPACE, FILES)}
                user.at, user.due = done.begun, False
        self._seen = done.begun
        self._tell()

    def _tell(self) -> None:
        kept = {name: user.kept for name, user in self._users.items() if user.kept}
        if kept != self._told:
            self._tickets.ticket(KeptFiles(kept))
            self._told = kept
