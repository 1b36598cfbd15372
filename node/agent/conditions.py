"""Conditions that keep a node from taking tasks for a while: a disk that is almost full, a share that fails or hangs.

Checked every two seconds, in threads, because a file operation on a share whose server is away may never return. The
loop reports them with every heartbeat, so that the master places nothing on this node, and starts nothing until they
clear. They clear by themselves. So does a missing program that isolates users. Tasks that do not end are in
``stuck_tasks``. Used by ``loop``.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from grass.model.amounts import show_memory
from grass.model.program import SYSTEM_PATH
from grass.model.reasons import Reason, ReasonCode
from grass.node_config import NodeHome
from grass.system import clock
from grass.system.entropy import request_id
from node.agent.share_absences import ShareAbsences
from node.mounts import mount_point
from node.runtime.isolation.visible_files import PACKAGE
from node.runtime.isolation.visible_files import PROGRAM as SANDBOX

EVERY = 2.0
"""Seconds between checks."""
PATIENCE = 5.0
"""Seconds that the share may take to answer."""
LOW_DISK = 1 << 30
LOW_DISK_FRACTION = 0.05
"""Without the setting ``low_disk``, a disk is almost full below 1 GiB free, or 5 % of it if that is less."""
LOW_FILES_FRACTION = 0.01
"""A disk is also almost full when fewer than this fraction of the files that it can hold are free."""
HYSTERESIS = 1.25
"""The condition clears above 1.25 × the limit. Without a gap, a task's first file would bring the condition back."""

log = logging.getLogger(__name__)


class Conditions:
    """The conditions of this node. ``changed`` is called, in a thread, each time that ``now`` changes."""

    def __init__(
        self, config: NodeHome, changed: Callable[[], None], expected: str | None = None, every: float = EVERY
    ) -> None:
        """``expected``: mount point of the share when the node passed its probe; None: the present one.
        ``every``: seconds between checks."""
        self._every = every
        self._disk = Disk(config.node_dir, config.node.low_disk)
        self._isolates = config.node.isolate is not None
        self._share = Share(config.data_dir, expected) if config.share is not None else None
        self.absences = ShareAbsences()
        self._changed = changed
        self._now: tuple[Reason, ...] = ()
        self._stop = threading.Event()

    def start(self) -> None:
        """Check once, then continue in a thread: nothing starts on a node that was never checked."""
        self._look()
        threading.Thread(target=self._run, name="conditions", daemon=True).start()

    def stop(self) -> None:
        """Return at once, also when the share does not answer."""
        self._stop.set()

    def now(self) -> tuple[Reason, ...]:
        return self._now

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            if self._look():
                self._changed()

    def _look(self) -> bool:
        share = self._share and self._share.look()
        self.absences.note(clock.steady(), away=bool(share))
        looks = (self._disk.look(), share, self._isolates and without_isolation())
        found = tuple(reason for reason in looks if reason)
        if found == self._now:
            return False
        for reason in found:
            log.warning("%s; no task starts here until this clears", reason.message)
        if not found:
            log.info("the node's conditions cleared; tasks start again")
        self._now = found
        return True


def together(reasons: tuple[Reason, ...]) -> Reason | None:
    """Return one reason for a task that waits until all of them clear."""
    if not reasons:
        return None
    text = "; ".join(reason.message for reason in reasons)
    return Reason(reasons[0].code, f"held back on its node: {text}", reasons[0].details)


def without_isolation(path: str = SYSTEM_PATH) -> Reason | None:
    """Return why tasks of users cannot be isolated here. ``path``: folders of programs, as in PATH."""
    if shutil.which(SANDBOX, path=path):
        return None
    message = f"{SANDBOX} is missing, by which tasks of users are isolated; install the package {PACKAGE}"
    return Reason(ReasonCode.RUNTIME, message, {"package": PACKAGE})


def lacks(free: int, total: int, files_free: int, files: int, low: int | None, before: bool) -> str:
    """Return what the disk lacks; empty if it lacks nothing. ``before``: it lacked something at the last check.

    No changing numbers in the text, so that nodes with the same problem are grouped.
    """
    gap = HYSTERESIS if before else 1.0
    limit = min(LOW_DISK, int(total * LOW_DISK_FRACTION)) if low is None else low
    if free < limit * gap:
        return f"less than {show_memory(limit)} free"
    if low != 0 and files and files_free < files * LOW_FILES_FRACTION * gap:
        return f"less than {LOW_FILES_FRACTION:.0%} of its files free"
    return ""


class Disk:
    """The disk of ``folder``. ``low``: bytes below which it counts as almost full; 0: never."""

    def __init__(self, folder: Path, low: int | None) -> None:
        self._folder = folder
        self._low = low
        self._full = ""

    def look(self) -> Reason | None:
        disk = os.statvfs(self._folder)
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        self._full = lacks(free, total, disk.f_favail, disk.f_files, self._low, bool(self._full))
        if not self._full:
            return None
        return Reason(
            ReasonCode.DISK, f"disk almost full ({self._full} at {self._folder})", {"folder": str(self._folder)}
        )


class Share:
    """The share. The kernel's table shows whether it is mounted; a separate thread asks whether it answers."""

    def __init__(self, folder: Path, expected: str | None) -> None:
        self._folder = folder
        self._point = expected or mount_point(folder)
        self._asking: _Question | None = None

    def look(self) -> Reason | None:
        """Return the share's problem. Take at most ``PATIENCE`` seconds, and none while an earlier question is open."""
        problem = self._problem()
        return Reason(ReasonCode.SHARE, problem, {"folder": str(self._folder)}) if problem else None

    def _problem(self) -> str:
        if mount_point(self._folder) != self._point:
            return f"nothing is mounted at {self._point}, where the share was"
        if self._asking is None:
            self._asking = _Question(self._folder)
            self._asking.over.wait(PATIENCE)
        if not self._asking.over.is_set():
            if clock.steady() - self._asking.since < PATIENCE:
                return ""
            return f"the share at {self._folder} does not answer"
        failure, self._asking = self._asking.failure, None
        return f"the share at {self._folder} fails: {failure}" if failure else ""


class _Question:
    """Look for a file that does not exist, under a new name each time, so that the answer comes from the server.

    ``failure``: why no answer came; valid when ``over`` is set.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f".grass-{request_id()[:12]}"
        self.failure = ""
        self.since = clock.steady()
        self.over = threading.Event()
        threading.Thread(target=self._ask, name="share", daemon=True).start()

    def _ask(self) -> None:
        try:
            self._path.parent.stat()
        except OSError as error:
            self.failure = os.strerror(error.errno or 0).lower()
        try:
            self._path.lstat()
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.failure = os.strerror(error.errno or 0).lower()
        self.over.set()
