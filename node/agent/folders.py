"""The node's folders of jobs and attempts: addresses files, and the removal of what nobody needs any more."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from grass.config import ClusterConfig
from node.agent.environment import addresses_path

log = logging.getLogger(__name__)


def write_addresses(config: ClusterConfig, job_id: str, text: str) -> None:
    """Replace the job's addresses file by rename, so that a reader sees the old text or the new one."""
    path = Path(addresses_path(config, job_id))
    path.parent.mkdir(parents=True, exist_ok=True)
    replacement = path.with_suffix(".new")
    replacement.write_text(text)
    replacement.replace(path)


def attempt_folders(config: ClusterConfig) -> Iterator[str]:
    """Keys of all attempts that have a folder."""
    root = config.node_dir / "attempts"
    for path in root.glob("*/*/*"):
        if path.name.isdigit():
            yield str(path.relative_to(root))


def job_ids(config: ClusterConfig) -> list[str]:
    """Of all jobs that have a folder."""
    return [path.name for path in (config.node_dir / "jobs").glob("*")]


class Removal:
    """Removes folders in its own thread: a scratch folder may hold a million files."""

    def __init__(self, config: ClusterConfig) -> None:
        self._attempts = config.node_dir / "attempts"
        self._jobs = config.node_dir / "jobs"
        self._queue: queue.SimpleQueue[list[Path] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="removal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def attempts(self, keys: list[str]) -> None:
        self._queue.put([self._attempts / key for key in keys])

    def jobs(self, job_ids: list[str]) -> None:
        """Of jobs that have no part on this node any more."""
        self._queue.put([self._jobs / job_id for job_id in job_ids])

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (paths := self._queue.get()) is not None:
            for path in paths:
                _remove(str(path))
                if path.is_relative_to(self._attempts):
                    with contextlib.suppress(OSError):
                        path.parent.rmdir()
                        path.parent.parent.rmdir()


def _remove(path: str) -> None:
    """Most attempts leave two files and an empty scratch folder."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry.path)  # noqa: PTH106 (thousands a second)
                else:
                    os.unlink(entry.path)  # noqa: PTH108
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
