"""Mount namespaces for the tasks of jobs: one for each job on this node, kept by descriptor. Used by ``tasks``.

bubblewrap makes a namespace that shows nothing of any job. One is made in advance, because that takes several times as
long as a start. A job gets it when its first task starts, with the folders of the job added.
"""

from __future__ import annotations

import os
import selectors
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from grass import clock
from grass.config import ClusterConfig
from grass.files.rights import DATA, OF_ALL
from grass.model.program import SYSTEM_PATH
from node.mounts import Changes, device, lines_at, read_only
from node.runtime.isolation import processes, view
from node.runtime.isolation.privilege import become_root, raised
from node.runtime.isolation.processes import Namespaces
from node.runtime.isolation.share_folder import make_of_user, make_writable
from node.runtime.protocol import Launch
from node.runtime.spawn import NOT_EXECUTABLE, NOT_FOUND, CannotStartError, find_program

_READY = ["/bin/sh", "-c", "echo $$; read line"]
"""Printed once the namespace is made: the pid of a process in it."""
_ASIDE = ".removed-"
"""How the names begin of folders of temporary files that are being removed."""
_RETRY = 5.0
"""Seconds after which a spare namespace is tried again that could not be made."""
_ENV = {"PATH": SYSTEM_PATH}


class _Kept(NamedTuple):
    """A view that exists.

    ``made_of``: a namespace is made again when this has changed.
    """

    namespace: Namespaces
    made_of: tuple[object, ...]


class _Making:
    """A namespace that bubblewrap is making. Its process ends at ``close``, and is reaped by the shepherd."""

    def __init__(self, words: list[str]) -> None:
        """Raises CannotStartError."""
        self.ready, tell = os.pipe2(os.O_CLOEXEC)
        wait, self._release = os.pipe2(os.O_CLOEXEC)

        def prepare() -> processes.Program:
            os.dup2(wait, 0)
            os.dup2(tell, 1)
            os.dup2(tell, 2)
            become_root()
            os.chdir("/")
            processes.private_mounts()
            return processes.Program(find_program(words[0], _ENV), [*words, "--", *_READY], _ENV)

        try:
            processes.fork(prepare)
        except CannotStartError as error:
            self.close()
            if error.code != NOT_FOUND:
                raise
            message = f"cannot start: {view.PROGRAM} is missing on this node; install the package {view.PACKAGE}"
            raise CannotStartError(NOT_EXECUTABLE, message) from error
        finally:
            os.close(tell)
            os.close(wait)

    def namespace(self) -> Namespaces:
        """Wait until it is made; return its descriptor. Raises CannotStartError."""
        try:
            said = os.read(self.ready, 4096).decode(errors="replace").strip()
            if not said.isdigit():
                raise CannotStartError(NOT_EXECUTABLE, f"cannot start: its view of this node cannot be made: {said}")
            with raised():
                return processes.namespaces_of(f"/proc/{said}")
        except OSError as error:
            raise CannotStartError(NOT_EXECUTABLE, f"cannot start: its view of this node is gone: {error}") from error
        finally:
            self.close()

    def close(self) -> None:
        os.close(self.ready)
        os.close(self._release)


class Views:
    """The views of all jobs of this node.

    ``attempts``: folder of the folders of jobs with their attempts. ``running``: job → pids of its tasks that an
    earlier shepherd started: its next tasks join them in their namespace, and so in their /dev/shm.
    """

    def __init__(
        self,
        config: ClusterConfig,
        attempts: str,
        selector: selectors.BaseSelector,
        running: Mapping[str, Sequence[int]],
    ) -> None:
        self._running = dict(running)
        self._config = config
        self._attempts = attempts
        self._selector = selector
        self._share = str(config.data_dir)
        hidden = tuple(path for path in view.HIDDEN if os.path.isdir(path))  # noqa: PTH112
        queues = os.path.isdir(view.QUEUES)  # noqa: PTH112
        self._node = view.Node(self._share, config.home, config.runtime_dir, hidden, queues)
        self._changes = Changes()
        self._mounts: tuple[str, ...] | None = None
        """The mounts of the share as they were last read."""
        self._jobs: dict[str, _Kept] = {}
        self._spare: _Kept | None = None
        self._making: _Making | None = None
        self._spare_from = 0.0
        """Steady time from which a spare one may be made."""

    def of(self, job_id: str, launch: Launch) -> Namespaces:
        """Return the namespace of a job. Raises CannotStartError."""
        own, read = f"{self._attempts}/{job_id}", f"{self._config.node_dir}/jobs/{job_id}"
        try:
            if not os.path.isdir(read):  # noqa: PTH112 (the hot path)
                os.makedirs(read, 0o755, exist_ok=True)  # noqa: PTH103
            share = self._share_mounts()
            made_of = (_identity(own), _identity(read), share)
            kept = self._jobs.get(job_id)
            if kept is not None and kept.made_of == made_of:
                return kept.namespace
            if kept is None and (namespace := self._of_running(job_id, (own, read), share)) is not None:
                self._jobs[job_id] = _Kept(namespace, made_of)
                return namespace
            self.forget(job_id)
            namespace = self._empty(share)
            self._jobs[job_id] = _Kept(namespace, made_of)
            folders = view.of_job(self._node, self._job(job_id, launch, own, read))
            with raised():
                processes.show(namespace.mounts, folders)
            return namespace
        except OSError as error:
            self.forget(job_id)
            raise CannotStartError(NOT_EXECUTABLE, f"cannot make its view of this node: {error}") from error

    def _of_running(self, job_id: str, folders: Sequence[str], share: tuple[str, ...]) -> Namespaces | None:
        """Return the namespace of a running task of the job, if it shows what a new one would. ``share``: the mounts of
        the share now."""
        for pid in self._running.pop(job_id, ()):
            with suppress(OSError), raised():
                root, table = f"/proc/{pid}/root", Path(f"/proc/{pid}/mountinfo")
                if any(_identity(root + path) != _identity(path) for path in folders):
                    continue
                if _identity(f"{root}{self._share}/{DATA}") == _identity(f"{self._share}/{DATA}"):
                    continue  # an earlier version of Grass made it, which showed the folders of all users
                if not all(map(read_only, lines_at(f"{self._share}/{OF_ALL}", table))):
                    continue  # one that let every user change the files of all
                if share and device(share[-1]) not in map(device, lines_at(self._share, table)[-1:]):
                    continue
                namespace = processes.namespaces_of(f"/proc/{pid}")
                if processes.is_of_this_system(namespace.mounts) and not processes.shares_objects(namespace):
                    return namespace
                namespace.close()
        return None

    def kept(self, job_id: str) -> Namespaces | None:
        """Return the namespace of a job, if it has one here."""
        kept = self._jobs.get(job_id)
        return kept.namespace if kept else None

    def forget(self, job_id: str) -> None:
        kept = self._jobs.pop(job_id, None)
        if kept is not None:
            kept.namespace.close()

    def tmp(self, job_id: str) -> str:
        """Return the folder of a job's temporary files."""
        return f"{self._config.node_dir}/views/{job_id}"

    def put_aside(self, job_id: str) -> None:
        """Rename the folder of a job's temporary files, so that the next task of the job gets another one."""
        tmp = self.tmp(job_id)
        with suppress(OSError):  # the job has none here
            os.rename(tmp, f"{os.path.dirname(tmp)}/{_ASIDE}{int(clock.steady() * 1e9)}-{job_id}")  # noqa: PTH104, PTH120

    def aside(self) -> list[str]:
        """Return the folders of temporary files that are to be removed, also those that an earlier shepherd left."""
        folder = os.path.dirname(self.tmp("any"))  # noqa: PTH120
        with suppress(FileNotFoundError):
            return [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith(_ASIDE)]  # noqa: PTH208
        return []

    def make_spare(self) -> None:
        """Begin to make the namespace for the next job, unless there is one."""
        if self._spare is not None or self._making is not None or clock.steady() < self._spare_from:
            return
        self._spare_from = clock.steady() + _RETRY
        with suppress(CannotStartError, OSError):  # the start that needs it says why
            share = self._share_mounts()
            self._making = _Making(view.arguments(self._node))
            self._selector.register(self._making.ready, selectors.EVENT_READ, lambda _: self._take_spare(share))

    def _share_mounts(self) -> tuple[str, ...]:
        if self._mounts is None or self._changes.seen():
            self._mounts = lines_at(self._share)
        return self._mounts

    def _take_spare(self, share: tuple[str, ...]) -> None:
        making, self._making = self._making, None
        if making is not None:
            self._selector.unregister(making.ready)
            with suppress(CannotStartError):
                self._spare = _Kept(making.namespace(), share)
                self._spare_from = 0.0

    def _empty(self, share: tuple[str, ...]) -> Namespaces:
        """Return a namespace that shows nothing of any job. ``share``: the mounts of the share now."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.made_of == share:
            return spare.namespace
        if spare is not None:
            spare.namespace.close()
        return _Making(view.arguments(self._node)).namespace()

    def _job(self, job_id: str, launch: Launch, own: str, read: str) -> view.Job:
        tmp, var_tmp = (f"{self.tmp(job_id)}/{name}" for name in ("tmp", "var_tmp"))
        for path in (tmp, var_tmp):
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
            if stat.S_IMODE(os.stat(path).st_mode) != 0o1777:  # noqa: PTH116
                os.chmod(path, 0o1777)  # noqa: PTH101, S103 (as /tmp is; seen by one job)
        output = f"{self._share}/jobs/{job_id}" if "GRASS_OUTPUT" in launch.env else None
        if output:
            make_writable(output)
        if output:
            with suppress(OSError):  # the task starts without them
                make_of_user(self._share, view.folders_of(self._share, launch.user))
        data = view.of_user(self._share, launch.user, f"{self._share}/{DATA}", read_only=launch.read_only_data)
        awaited = _paths(f"{self._share}/jobs", launch.awaited)
        return view.Job(own, read, tmp, var_tmp, output, awaited, data)


def _paths(folder: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names if name and "/" not in name and not name.startswith("."))


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 (the hot path)
    return found.st_dev, found.st_ino
