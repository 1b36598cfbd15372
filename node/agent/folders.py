"""The node's files of jobs and attempts: addresses files, and the removal of what nobody needs any more."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from grass.atomic_file import replace_file
from grass.config import ClusterConfig
from node.agent.environment import addresses_path
from node.runtime.attempts import Folders

log = logging.getLogger(__name__)


def write_addresses(config: ClusterConfig, job_id: str, text: str) -> None:
    """Replace the job's addresses file by rename, so that a reader sees the old text or the new one."""
    path = _addresses_for_all(config, job_id)
    replace_file(path, text, mode=0o644)


def make_addresses(config: ClusterConfig, job_id: str) -> None:
    """An empty addresses file, unless there is one."""
    if not Path(addresses_path(config, job_id)).exists():
        path = _addresses_for_all(config, job_id)
        path.touch()
        path.chmod(0o644)


def _addresses_for_all(config: ClusterConfig, job_id: str) -> Path:
    """In a folder that a container's user, who may be anybody, can look into, whatever the umask of this process.

    Nobody else of the machine gets so far: the folders above are the agent's own.
    """
    path = Path(addresses_path(config, job_id))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o755)
    return path


def attempts_on_disk(config: ClusterConfig) -> set[str]:
    """Keys of all attempts that have files."""
    places = Folders(str(config.node_dir / "attempts"))
    found = (places.key_of(str(path)) for path in Path(places.root).glob("*/*"))
    return {key for key in found if key is not None}


def job_ids(config: ClusterConfig) -> list[str]:
    """Of all jobs that have a folder."""
    return [path.name for path in (config.node_dir / "jobs").glob("*")]


class Removal:
    """Removes files in its own thread: a scratch folder may hold a million of them."""

    def __init__(self, config: ClusterConfig) -> None:
        self._places = Folders(str(config.node_dir / "attempts"))
        self._jobs = config.node_dir / "jobs"
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="removal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def attempts(self, keys: list[str]) -> None:
        self._queue.put(lambda: self._remove_attempts(keys))

    def jobs(self, job_ids: list[str]) -> None:
        """Of jobs that have no part on this node any more."""
        self._queue.put(lambda: self._remove_jobs(job_ids))

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()

    def _remove_attempts(self, keys: list[str]) -> None:
        for key in keys:
            for name in ("stdout", "stderr", "shipped"):
                with contextlib.suppress(OSError):
                    os.unlink(self._places.path(key, name))  # noqa: PTH108 (thousands a second)
            _remove_folder(self._places.scratch(key))
        for job_folder in {self._places.job(key) for key in keys}:
            with contextlib.suppress(OSError):
                os.rmdir(job_folder)  # noqa: PTH106

    def _remove_jobs(self, job_ids: list[str]) -> None:
        for job_id in job_ids:
            _remove_folder(str(self._jobs / job_id))


def _remove_folder(path: str) -> None:
    """Most scratch folders are empty."""
    try:
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(path, onerror=_try_harder)


def _try_harder(function: Callable[..., object], path: str, problem: object) -> None:
    """A task may leave folders that not even their owner can write to."""
    try:
        os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120
        os.chmod(path, 0o700)  # noqa: PTH101
        if os.path.isdir(path):  # noqa: PTH112
            shutil.rmtree(path, ignore_errors=True)
        else:
            function(path)
    except OSError as error:
        log.warning("cannot remove %s: %s", path, error)
