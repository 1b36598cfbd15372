"""The shepherd's memory of one attempt, and the paths of its files.

Used by this package, ``node.agent`` and ``node.membership``.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
from collections import deque
from contextlib import suppress

from grass.model.key_text import attempt_parts, job_of
from node.runtime.frames import WireReason
from node.runtime.shepherd_messages import AttemptReport, Spent

_MOST_SPARE = 64
_MOST_TRIES = 100
_NEW_MODE = stat.S_IFDIR | 0o700
_ATTEMPT_FILE = re.compile(r"([^/]+)/([^/]+)\.([0-9]+)\.[a-z]+")


class Attempt:
    """One attempt. ``pid`` is also its process group and session. Times are steady unless marked as wall time."""

    __slots__ = (
        "began",
        "code",
        "cpu",
        "ended",
        "env",
        "group",
        "group_deadline",
        "key",
        "kill_at",
        "launch",
        "main_ended",
        "memory",
        "pid",
        "pidfd",
        "reason",
        "returned",
        "signal",
        "sizes",
        "spent",
        "started",
        "stop_signal",
        "stopping",
    )

    def __init__(self, key: str, launch: str = "", env: dict[str, str] | None = None) -> None:
        self.key = key
        self.launch = launch
        self.env = env or {}
        self.pid: int | None = None
        self.began = 0.0
        """Just before its process was created; ``returned`` is just after. Its start time lies between the two."""
        self.returned = 0.0
        self.started: float | None = None
        self.pidfd: int | None = None
        """Set for attempts that are not children of this shepherd."""
        self.stop_signal: int = signal.SIGTERM
        self.stopping = False
        self.kill_at: float | None = None
        self.reason: WireReason | None = None
        self.main_ended: float | None = None
        """Wall time at which its first process ended. The attempt ends together with the rest of its group."""
        self.group_deadline = 0.0
        self.code: int | None = None
        self.signal: int | None = None
        self.ended: float | None = None
        self.sizes: dict[str, int] | None = None
        self.group = ""
        """Its control group, where users are isolated; ``memory`` (bytes) and ``cpu`` (thousandths) are its limits."""
        self.memory = self.cpu = 0
        self.spent: Spent | None = None
        """Set once its first process was reaped."""

    def report(self) -> AttemptReport:
        return AttemptReport(
            self.key,
            self.pid,
            self.started,
            self.began if self.pid is not None else None,
            self.stopping,
            self.ended,
            self.code,
            self.signal,
            self.reason,
            self.sizes,
            self.spent,
        )


class Folders:
    """Paths of the files of attempts. All runtimes write output there; the shipper and readiness checks read it.

    ``<attempts>/<job id>/<component>.<index>.<attempt>`` with the suffixes ``.stdout``, ``.stderr``, ``.scratch``.
    Attempts share the job's folder, because creating a folder takes up to half as long as starting a process. Keys are
    split without ``grass.wire.keys``, which would cost the shepherd 2 MiB.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._spare: deque[str] = deque(maxlen=_MOST_SPARE)
        self._ahead = f"{root}/.next"
        """Where the folder of the next job is made in advance, with the scratch folder of its first attempt."""
        self.made_ahead = False
        """Whether it is there."""

    def job(self, key: str) -> str:
        return f"{self.root}/{job_of(key)}"

    def prefix(self, key: str) -> str:
        """Return the beginning of its files' names in the job's folder."""
        _, task, attempt = attempt_parts(key)
        return f"{task}.{attempt}."

    def path(self, key: str, suffix: str) -> str:
        job_id, task, attempt = attempt_parts(key)
        return f"{self.root}/{job_id}/{task}.{attempt}.{suffix}"

    def scratch(self, key: str) -> str:
        return self.path(key, "scratch")

    def key_of(self, path: str) -> str | None:
        """Return the key of the attempt that owns a file here; None: no attempt owns it."""
        match = _ATTEMPT_FILE.fullmatch(path[len(self.root) + 1 :]) if path.startswith(self.root + "/") else None
        return "/".join(match.groups()) if match else None

    def make(self, key: str) -> str:
        """Make the scratch folder of an attempt and return it. Raises OSError.

        The shepherd and the node-agent make folders of one job at the same time, and the node-agent removes the job's
        folder while it is empty. A folder may thus be gone, or be another one, between two steps.
        """
        scratch = self.scratch(key)
        if self.made_ahead and not os.path.exists(self.job(key)) and self._take_ahead(key):  # noqa: PTH110
            return scratch
        while self._spare:
            spare = self._spare.popleft()
            with suppress(OSError):
                if _is_as_new(spare):
                    os.rename(spare, scratch)  # noqa: PTH104 (the hot path)
                    return scratch
        for _ in range(_MOST_TRIES):
            try:
                os.mkdir(scratch, 0o700)  # noqa: PTH102
            except FileNotFoundError:
                with suppress(FileExistsError):  # another process made it, and removed it again
                    os.makedirs(self.job(key), exist_ok=True)  # noqa: PTH103
            except FileExistsError:
                return scratch
            else:
                return scratch
        raise FileNotFoundError(errno.ENOENT, "another process removes its folder again and again", self.job(key))

    def make_ahead(self) -> None:
        """Make the folder of the next job that starts here: renaming it then takes a fraction of the time.

        To be called when there is time.
        """
        if self.made_ahead:
            return
        with suppress(OSError):
            os.makedirs(self._ahead, 0o777, exist_ok=True)  # noqa: PTH103
            for left in os.listdir(self._ahead):  # noqa: PTH208 # by an earlier process
                os.rmdir(f"{self._ahead}/{left}")  # noqa: PTH106
            os.mkdir(f"{self._ahead}/scratch", 0o700)  # noqa: PTH102
            self.made_ahead = True

    def _take_ahead(self, key: str) -> bool:
        self.made_ahead = False
        try:
            os.rename(f"{self._ahead}/scratch", f"{self._ahead}/{self.prefix(key)}scratch")  # noqa: PTH104 (hot path)
            os.rename(self._ahead, self.job(key))  # noqa: PTH104
        except OSError:
            return False
        return True

    def spare(self, key: str) -> None:
        """Offer the scratch folder of an ended attempt for reuse, if it is empty."""
        self._spare.append(self.scratch(key))

    def sizes(self, key: str) -> dict[str, int]:
        return {name: _size(self.path(key, name)) for name in ("stdout", "stderr")}


def _is_as_new(folder: str) -> bool:
    return os.stat(folder).st_mode == _NEW_MODE and not os.listdir(folder)  # noqa: PTH116, PTH208


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0
