"""Mount namespaces for the tasks of jobs: one for each job on this node, kept by descriptor. Used by ``tasks``.

bubblewrap makes a namespace that shows nothing of any job, nor of the share. One is made in advance, because that takes
several times as long as a start. A job gets it when its first task starts, with the folders of the job added.

A view is compared with the kernel's table of its mounts before each start, and while tasks run: FUSE makes the kernel
detach what is mounted on a name whose look-up failed, and a share that was mounted again is another file system. What
is lost is shown again (``mend``), to running tasks, too.
"""

from __future__ import annotations

import errno
import os
import selectors
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from grass.config import ClusterConfig
from grass.files.rights import DATA
from grass.model.program import SYSTEM_PATH
from grass.model.reasons import ReasonCode
from grass.system import clock
from node.mounts import Changes, device, lines_at, newest
from node.runtime.isolation import processes, visible_files
from node.runtime.isolation.privilege import become_root, raised
from node.runtime.isolation.processes import Namespaces
from node.runtime.isolation.share_folder import NO_ANSWER, beside, make_of_user, make_writable
from node.runtime.isolation.visible_files import PACKAGE, PROGRAM, Shown
from node.runtime.shepherd_messages import ProcessLaunch
from node.runtime.spawn import NOT_EXECUTABLE, NOT_FOUND, CannotStartError, find_program

_FEWER = "cd /proc/sys/kernel && { echo 1024 >msgmni; echo 32000 256000 500 32000 >sem; } 2>/dev/null"
"""At most 16 MiB each for message queues and semaphores: what an attempt leaves is counted for nobody."""
_READY = ["/bin/sh", "-c", f"{_FEWER}; echo $$; read line"]
"""Printed once the namespace is made: the pid of a process in it."""
_ASIDE = ".removed-"
"""How the names begin of folders of temporary files that are being removed."""
_RETRY = 5.0
"""Seconds after which a spare namespace is tried again that could not be made."""
_ENV = {"PATH": SYSTEM_PATH}
_UNKNOWN = "unknown"
"""In place of the mounts of the share: of a view that was not looked at yet."""


class _Kept:
    """A view that exists.

    ``made_of``: a namespace is made again when this has changed. ``job``, ``launch``: what it shows of the share
    depends on these. ``shown``: what that was. ``share``: the mounts of the share now.
    """

    def __init__(
        self,
        namespace: Namespaces,
        made_of: tuple[object, ...],
        job: str,
        launch: ProcessLaunch,
        shown: list[Shown],
        table: Changes,
        share: tuple[str, ...],
    ) -> None:
        self.namespace = namespace
        self.made_of = made_of
        self.job = job
        self.launch = launch
        self.shown = shown
        self._table = table
        self._share: tuple[str, ...] | None = None if share else ()
        """The mounts of the share when it was last found whole. From a share that is no mount, nothing is lost."""

    def torn(self, share: tuple[str, ...]) -> list[Shown]:
        """Return what it has lost. ``share``: the mounts of the share now. Cheap while no mount changes."""
        if self._table.seen():
            self._share = None
        if self._share == share:
            return []
        lost = visible_files.torn(self.shown, self._table.table(), _device(share))
        if not lost:
            self._share = share
        return lost

    def give_up(self, targets: Sequence[str]) -> None:
        """Show these no more: they do not exist."""
        self.shown = [each for each in self.shown if each.target not in targets]

    def close(self) -> None:
        self.namespace.close()
        self._table.close()


class _Making:
    """A namespace that bubblewrap is making. Its process ends at ``close``, and is reaped by the shepherd."""

    def __init__(self, words: list[str], share: str) -> None:
        """Raises CannotStartError."""
        self.ready, tell = os.pipe2(os.O_CLOEXEC)
        wait, self._release = os.pipe2(os.O_CLOEXEC)

        def prepare() -> processes.Program:
            os.dup2(wait, 0)
            os.dup2(tell, 1)
            os.dup2(tell, 2)
            become_root()
            os.chdir("/")
            processes.private_mounts(share)
            return processes.Program(find_program(words[0], _ENV), [*words, "--", *_READY], _ENV)

        try:
            processes.fork(prepare)
        except CannotStartError as error:
            self.close()
            if error.code != NOT_FOUND:
                raise
            message = f"cannot start: {PROGRAM} is missing on this node; install the package {PACKAGE}"
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


class MountNamespaces:
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
        hidden = tuple(path for path in visible_files.HIDDEN if os.path.isdir(path))  # noqa: PTH112
        queues = os.path.isdir(visible_files.QUEUES)  # noqa: PTH112
        self._node = visible_files.Node(self._share, config.home, config.runtime_dir, hidden, queues)
        self._changes = Changes()
        self._mounts: tuple[str, ...] | None = None
        """The mounts of the share as they were last read."""
        self._jobs: dict[str, _Kept] = {}
        self._spare: Namespaces | None = None
        self._making: _Making | None = None
        self._spare_from = 0.0
        """Steady time from which a spare one may be made."""

    def namespaces_of(self, job_id: str, launch: ProcessLaunch) -> Namespaces:
        """Return the namespace of a job, which shows what it should. Raises CannotStartError."""
        own, read = f"{self._attempts}/{job_id}", f"{self._config.node_dir}/jobs/{job_id}"
        try:
            if not os.path.isdir(read):  # noqa: PTH112 (the hot path)
                os.makedirs(read, 0o755, exist_ok=True)  # noqa: PTH103
            made_of = (_identity(own), _identity(read))
            kept = self._jobs.get(job_id)
            if kept is not None and kept.made_of != made_of:
                self.forget(job_id)
                kept = None
            kept = kept or self._of_running(job_id, launch, made_of) or self._made(job_id, launch, made_of)
            self._jobs[job_id] = kept
            if kept.torn(self._share_mounts()):
                kept.give_up(self._mend(kept))
                self._check(kept)
            return kept.namespace
        except OSError as error:
            code = ReasonCode.SHARE if error.errno in NO_ANSWER else ReasonCode.CANNOT_START
            raise CannotStartError(NOT_EXECUTABLE, f"cannot make its view of this node: {error}", code) from error

    def torn(self) -> list[str]:
        """Return the jobs whose views have lost something of the share. Asks no file system."""
        share = self._share_mounts()
        return [job_id for job_id, kept in self._jobs.items() if kept.torn(share)]

    def mend(self, job_ids: Iterable[str]) -> dict[str, list[str]]:
        """Show again what views have lost, while tasks run in them. Return what does not exist any more, by job.

        May wait for the share. Raises OSError.
        """
        return {job_id: self._mend(self._jobs[job_id]) for job_id in job_ids}

    def give_up(self, gone: Mapping[str, Sequence[str]]) -> None:
        """Take the result of ``mend`` in another process."""
        for job_id, targets in gone.items():
            if (kept := self._jobs.get(job_id)) is not None:
                kept.give_up(targets)

    def _made(self, job_id: str, launch: ProcessLaunch, made_of: tuple[object, ...]) -> _Kept:
        namespace = self._empty()
        try:
            folders = visible_files.of_job(self._node, self._job(job_id))
            in_share = self._in_share(job_id, launch)
            with raised():
                shown, table = processes.show(namespace.mounts, [*folders, *in_share], self._share)
        except OSError:
            namespace.close()
            raise
        kept = _Kept(
            namespace,
            made_of,
            job_id,
            launch,
            [each for each in shown if each in in_share],
            table,
            self._share_mounts(),
        )
        try:
            self._check(kept)
        except OSError:
            kept.close()
            raise
        return kept

    def _mend(self, kept: _Kept) -> list[str]:
        """Return what does not exist any more. Raises OSError."""
        lost = [each.target for each in kept.torn(self._share_mounts())]
        folders = [each for each in self._in_share(kept.job, kept.launch) if each.target in lost]
        with raised():
            shown, table = processes.show(kept.namespace.mounts, folders, self._share, again=True)
        table.close()
        there = {each.target for each in shown}
        return [target for target in lost if target not in there]

    def _check(self, kept: _Kept) -> None:
        """Raises OSError if a view does not show what it should."""
        if lost := kept.torn(self._share_mounts()):
            raise OSError(errno.EIO, "the share was lost while it was mounted there", lost[0].target)

    def _of_running(self, job_id: str, launch: ProcessLaunch, made_of: tuple[object, ...]) -> _Kept | None:
        """Return the view of a running task of the job, which may be torn."""
        local = [f"{self._attempts}/{job_id}", f"{self._config.node_dir}/jobs/{job_id}"]
        for pid in self._running.pop(job_id, ()):
            with suppress(OSError), raised():
                root, table = f"/proc/{pid}/root", os.fsdecode(Path(f"/proc/{pid}/mountinfo").read_bytes())
                if any(_identity(root + path) != _identity(path) for path in local):
                    continue
                if not visible_files.is_closed(self._share, table):
                    continue  # an earlier version of Grass made it, which covered parts of the share
                shown = [each for each in self._in_share(job_id, launch) if self._is_shown(each, table)]
                namespace = processes.namespaces_of(f"/proc/{pid}")
                if processes.is_of_this_system(namespace.mounts) and not processes.shares_objects(namespace):
                    _, changes = processes.show(namespace.mounts, [], self._share)
                    return _Kept(namespace, made_of, job_id, launch, shown, changes, (_UNKNOWN,))
                namespace.close()
        return None

    def kept(self, job_id: str) -> Namespaces | None:
        """Return the namespace of a job, if it has one here."""
        kept = self._jobs.get(job_id)
        return kept.namespace if kept else None

    def _is_shown(self, each: Shown, table: str) -> bool:
        """Return whether a view should show this. What is beside the folders of users may be newer than the view."""
        if os.path.dirname(each.target) == self._share:  # noqa: PTH120
            return each.target in newest(table)
        return os.path.isdir(each.source) and not os.path.islink(each.source)  # noqa: PTH112, PTH114

    def forget(self, job_id: str) -> None:
        kept = self._jobs.pop(job_id, None)
        if kept is not None:
            kept.close()

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
            self._making = _Making(visible_files.arguments(self._node), self._share)
            self._selector.register(self._making.ready, selectors.EVENT_READ, lambda _: self._take_spare())

    def _share_mounts(self) -> tuple[str, ...]:
        if self._mounts is None or self._changes.seen():
            self._mounts = lines_at(self._share)
        return self._mounts

    def _take_spare(self) -> None:
        making, self._making = self._making, None
        if making is not None:
            self._selector.unregister(making.ready)
            with suppress(CannotStartError):
                self._spare = making.namespace()
                self._spare_from = 0.0

    def _empty(self) -> Namespaces:
        """Return a namespace that shows nothing of any job, nor of the share."""
        spare, self._spare = self._spare, None
        return _Making(visible_files.arguments(self._node), self._share).namespace() if spare is None else spare

    def _job(self, job_id: str) -> visible_files.Job:
        tmp, var_tmp = (f"{self.tmp(job_id)}/{name}" for name in ("tmp", "var_tmp"))
        for path in (tmp, var_tmp):
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
            if stat.S_IMODE(os.stat(path).st_mode) != 0o1777:  # noqa: PTH116
                os.chmod(path, 0o1777)  # noqa: PTH101, S103 (as /tmp is; seen by one job)
        return visible_files.Job(f"{self._attempts}/{job_id}", f"{self._config.node_dir}/jobs/{job_id}", tmp, var_tmp)

    def _in_share(self, job_id: str, launch: ProcessLaunch) -> list[Shown]:
        """Return what a job sees of the share, after making what it may write. May wait for the share.

        Raises OSError: the share does not answer.
        """
        output = f"{self._share}/jobs/{job_id}" if "GRASS_OUTPUT" in launch.env else None
        if output:
            make_writable(output)
            try:
                make_of_user(self._share, visible_files.folders_of(self._share, launch.user))
            except OSError as error:
                if error.errno in NO_ANSWER:
                    raise  # without them, the task would start and not find its files
        data = visible_files.of_user(self._share, launch.user, f"{self._share}/{DATA}", read_only=launch.read_only_data)
        awaited = _paths(f"{self._share}/jobs", launch.awaited)
        return visible_files.of_share(self._share, visible_files.InShare(beside(self._share), output, awaited, data))


def _paths(folder: str, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names if name and "/" not in name and not name.startswith("."))


def _device(share: tuple[str, ...]) -> str:
    """Return the device of the share; empty: it has no mount of its own. ``share``: its mounts."""
    return device(share[-1]) if share else ""


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 (the hot path)
    return found.st_dev, found.st_ino
