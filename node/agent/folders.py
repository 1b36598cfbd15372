"""The node's files of jobs and attempts: addresses files, and the removal of files that are no longer needed.

Used by ``attempts``, ``loop`` and ``starts``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from grass.errors import UnreachableError
from grass.node_config import NodeHome
from grass.system.atomic_file import replace_file
from grass.system.entropy import request_id
from node.agent.environment import addresses_path
from node.runtime.attempts import Folders
from node.runtime.process.client import ask
from node.runtime.shepherd_messages import RemoveJobs, RemoveScratch

_REMOVED = ".removed-"
"""Prefix of the names of job folders that are being removed."""

log = logging.getLogger(__name__)


def write_addresses(config: NodeHome, job_id: str, text: str) -> None:
    """Replace the job's addresses file by rename, so that a reader sees the old text or the new one."""
    path = Path(addresses_path(config, job_id))
    _open_folder(str(path.parent))
    replace_file(path, text, mode=0o644)


def make_addresses(config: NodeHome, job_id: str) -> None:
    """Create an empty addresses file unless there is one. Must be fast: no event of a task is handled meanwhile."""
    path = addresses_path(config, job_id)
    if os.path.exists(path):  # noqa: PTH110 (once for each job, in the thread that starts tasks; as below)
        return
    _open_folder(os.path.dirname(path))  # noqa: PTH120
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(descriptor, 0o644)
    finally:
        os.close(descriptor)


def _open_folder(folder: str) -> None:
    """Make the folder of a job, which the user of any container can read, whatever the umask of this process.

    Other users of the machine cannot reach it: the folders above belong to the agent only.
    """
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    os.chmod(folder, 0o755)  # noqa: PTH101, S103


def attempts_on_disk(config: NodeHome) -> set[str]:
    """Return the keys of all attempts that have files."""
    folders = Folders(str(config.node_dir / "attempts"))
    found = (folders.key_of(path) for job in _paths(folders.root) for path in _paths(job))
    return {key for key in found if key is not None}


def _paths(folder: str) -> list[str]:
    """Return what is in a folder. Nothing if it is a file, or was removed since it was seen."""
    try:
        return [f"{folder}/{name}" for name in os.listdir(folder)]  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def job_ids(config: NodeHome) -> list[str]:
    """Return the ids of all jobs that have a folder."""
    return [path.name for path in (config.node_dir / "jobs").glob("*") if not path.name.startswith(_REMOVED)]


class Removal:
    """Removes files in a separate thread: a scratch folder may hold a million of them.

    ``start`` also makes it remove what an earlier agent left behind.
    """

    def __init__(self, config: NodeHome) -> None:
        self._folders = Folders(str(config.node_dir / "attempts"))
        self._jobs = config.node_dir / "jobs"
        self._isolated = config.node.isolate is not None
        self._shepherd = config.socket("shepherd")
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="removal", daemon=True)

    def start(self) -> None:
        left = [str(path) for path in self._jobs.glob(f"{_REMOVED}*")]
        self._queue.put(lambda: self._remove_jobs([], left))
        self._thread.start()

    def attempts(self, keys: list[str]) -> None:
        self._queue.put(lambda: self._remove_attempts(keys))

    def jobs(self, job_ids: list[str]) -> None:
        """Remove the folders of jobs that have nothing left on this node.

        They are renamed at once, in the caller's thread: a job may be back before they are removed, and then it has
        another folder.
        """
        renamed = [path for job_id in job_ids if (path := self._renamed(job_id))]
        self._queue.put(lambda: self._remove_jobs(job_ids, renamed))

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()

    def _remove_attempts(self, keys: list[str]) -> None:
        if self._isolated:  # files of other accounts: only the shepherd may remove them
            left = [key for key in keys if not _removed_if_empty(self._folders.scratch(key))]
            self._tell_shepherd(RemoveScratch(left))
        for key in keys:
            for name in ("stdout", "stderr", "shipped", "podlog", "output"):
                with contextlib.suppress(OSError):
                    os.unlink(self._folders.path(key, name))  # noqa: PTH108 (thousands a second)
            if not self._isolated:
                _remove_folder(self._folders.scratch(key))
        for job_folder in {self._folders.job(key) for key in keys}:
            with contextlib.suppress(OSError):
                os.rmdir(job_folder)  # noqa: PTH106

    def _renamed(self, job_id: str) -> str | None:
        folder, removed = f"{self._jobs}/{job_id}", f"{self._jobs}/{_REMOVED}{request_id()}"
        try:
            os.rename(folder, removed)  # noqa: PTH104 (in the loop)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("%s: cannot be removed: %s", folder, error)
            return None
        return removed

    def _remove_jobs(self, job_ids: list[str], renamed: list[str]) -> None:
        for folder in renamed:
            _remove_folder(folder)
        if self._isolated:
            self._tell_shepherd(RemoveJobs(job_ids))

    def _tell_shepherd(self, removal: RemoveScratch | RemoveJobs) -> None:
        [names] = removal
        if names:
            try:
                ask(self._shepherd, removal)
            except UnreachableError as error:
                log.warning("files of %d tasks or jobs stay until the next start: %s", len(names), error)


def _removed_if_empty(path: str) -> bool:
    """Remove an empty folder. Return whether nothing is left of it."""
    try:
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_folder(path: str) -> None:
    """Remove a folder with its content. Most scratch folders are empty, so that is tried first."""
    try:
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(path, onerror=_try_harder)


def _try_harder(function: Callable[..., object], path: str, problem: object) -> None:
    """Make a folder writable and try again: a task may leave folders that even their owner cannot write to."""
    try:
        os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120
        os.chmod(path, 0o700)  # noqa: PTH101
        if os.path.isdir(path):  # noqa: PTH112
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("%s: cannot be removed: %s", path, error)
