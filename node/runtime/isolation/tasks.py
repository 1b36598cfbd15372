"""Starts processes of isolated attempts, and commands beside them. Called by the shepherd."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import termios
from collections.abc import Callable, Iterable, Mapping, Sequence
from selectors import BaseSelector

from grass.model.key_text import job_of
from grass.model.names import is_job_id
from grass.model.program import SYSTEM_PATH
from grass.node_config import NodeHome
from grass.system import clock
from node.runtime import proc
from node.runtime.attempts import Attempt, Folders
from node.runtime.fork_bombs import why_killed
from node.runtime.isolation import groups, processes, system_call_filter
from node.runtime.isolation.accounts import Accounts
from node.runtime.isolation.groups import Groups
from node.runtime.isolation.mending import Mending
from node.runtime.isolation.mount_namespaces import MountNamespaces
from node.runtime.isolation.privilege import become_root, raised
from node.runtime.isolation.processes import Namespaces
from node.runtime.isolation.shared_objects import SharedObjects
from node.runtime.isolation.starter import StartRequest
from node.runtime.isolation.starters import Starters
from node.runtime.keyrings import leave_session_keyring
from node.runtime.out_of_memory import out_of_memory
from node.runtime.shepherd_messages import LaunchLimits, ProcessLaunch
from node.runtime.spawn import NOT_EXECUTABLE, CannotStartError, enter_folder, find_program

MOST_PROCESSES = 2 * groups.MOST_PROCESSES
"""Processes and threads of one user on this node: a fork bomb must leave some to others."""
_LOOK = 0.5
"""Seconds between two looks for fork bombs."""
UMASK = 0o002
"""Files in the share belong to the group of the daemons, which may need to change or remove them."""
_OUTPUT = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_ROOT_ENV = {"PATH": SYSTEM_PATH}


class IsolatedTasks:
    """The tasks of a job on this node share a view, so /tmp and /dev/shm, as they do without isolation."""

    def __init__(
        self,
        config: NodeHome,
        folders: Folders,
        group: int,
        selector: BaseSelector,
        lock: int,
        limits: Groups,
        attempts: Iterable[Attempt] = (),
    ) -> None:
        """``lock``: descriptor of the shepherd's lock. ``attempts``: those of an earlier shepherd."""
        assert config.node.isolate is not None
        self._folders = folders
        self._group = group
        self._accounts = Accounts(config.name, config.node.isolate, group)
        self._uids = config.node.isolate
        running: dict[str, list[int]] = {}
        self._grouped: dict[str, Attempt] = {}
        """Attempts in a control group that have not ended."""
        here: dict[str, int] = {}
        """Attempts that have not ended → their limits of memory."""
        self._looked = 0.0
        for attempt in attempts:
            if attempt.pid is not None and attempt.ended is None:
                here[attempt.key] = attempt.memory
            if attempt.pid is not None and attempt.main_ended is None and attempt.ended is None:
                running.setdefault(job_of(attempt.key), []).append(attempt.pid)
                attempt.group = attempt.group or limits.group_of(attempt.pid)
                if attempt.group:  # otherwise there are none, or it ended before it was in one
                    limits.set(attempt.group, attempt.memory, attempt.cpu)
                    self._grouped[attempt.key] = attempt
        self._namespaces = MountNamespaces(config, folders.root, selector, running)
        self._shared = SharedObjects(self._namespaces, limits.memory(0), folders.root)
        for key, memory in here.items():
            self._shared.add(key, memory)
        self.mending = Mending(self._namespaces, lock)
        self._groups = limits
        self._starters = Starters(lock, limits.roots, self.end_bombs)
        processes.forbid_new_rights()
        _limit_processes()

    def prepare(self) -> None:
        """Get ready for the next start and the next job. To be called when there is time."""
        self._starters.prepare()
        self._namespaces.make_spare()

    def start(
        self, attempt: Attempt, launch: ProcessLaunch, bounds: LaunchLimits, env: dict[str, str], scratch: str
    ) -> int:
        """Start the process of an attempt in its job's view, within its limits; return its pid.

        Raises CannotStartError.
        """
        key = attempt.key
        if not launch.argv:
            raise CannotStartError(127, "cannot start: the command is empty")
        try:
            account = self._accounts.account_of(launch.user)
        except CannotStartError as error:
            raise CannotStartError(error.code, f"cannot start: {error}") from error
        job_id = job_of(key)
        if not is_job_id(job_id):
            raise CannotStartError(NOT_EXECUTABLE, f"cannot start: {job_id!r} is not the id of a job")
        namespaces = self._namespaces.namespaces_of(job_id, launch)
        _give(scratch, account.uid)
        own = {"HOME": scratch, "USER": account.name, "LOGNAME": account.name, "SHELL": "/bin/sh", **env}
        streams = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)]
        try:
            streams += [os.open(self._folders.path(key, name), _OUTPUT, 0o600) for name in ("stdout", "stderr")]
            memory, cpu = self._groups.memory(bounds.memory), bounds.cpu
            limits = self._groups.limits(memory, cpu)
            self._shared.add(key, memory)
            self._shared.limit(key, namespaces)
            request = StartRequest(account.uid, self._group, UMASK, launch.cwd or scratch, launch.argv, own, limits)
            pid, attempt.group = self._starters.start(request, namespaces, streams)
            attempt.memory, attempt.cpu = memory, cpu
            self._grouped[key] = attempt
            return pid
        except CannotStartError:
            self._shared.end(key, ())
            raise
        except OSError as error:
            self._shared.end(key, ())
            raise CannotStartError(NOT_EXECUTABLE, f"cannot make its output files: {error}") from error
        finally:
            _close(streams)

    def give(self, key: str, user: str) -> int:
        """Make the scratch folder of an attempt, for the account of a user; return the account's id.

        Raises CannotStartError.
        """
        account = self._accounts.account_of(user)
        try:
            scratch = self._folders.make(key)
        except OSError as error:
            raise CannotStartError(NOT_EXECUTABLE, f"cannot make its scratch folder: {error}") from error
        _give(scratch, account.uid)
        return account.uid

    def beside(self, pid: int, argv: list[str], env: Mapping[str, str], streams: Sequence[int], *, tty: bool) -> int:
        """Start a command in the view and the folder of the process ``pid``, with its environment.

        ``env``: variables that it may lack. Raises CannotStartError.
        """
        with raised():
            try:
                cwd = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115
                namespaces = processes.namespaces_of(f"/proc/{pid}")
                uid = proc.owner(pid)
            except OSError as error:
                message = f"cannot start {argv[0]}: the task has just ended"
                raise CannotStartError(NOT_EXECUTABLE, message) from error
        try:
            if uid is None or not self._uids.first <= uid <= self._uids.last:
                raise CannotStartError(
                    NOT_EXECUTABLE, f"cannot start {argv[0]}: its task runs under no account of Grass"
                )
            found = dict(entry.split("=", 1) for entry in proc.environ(pid) if "=" in entry)
            group = self._groups.group_of(pid)
            return processes.fork(self._program(namespaces, uid, argv, {**env, **found}, cwd, group, streams, tty=tty))
        finally:
            namespaces.close()

    def end(self, attempt: Attempt, *, keep: bool = False) -> None:
        """Kill what is left of an ended attempt, whatever session it is in, and remove what it left in memory; add why,
        if it had no memory left. ``keep``: what it left stays for the next attempt of its task."""
        pids = {attempt.pid} if attempt.pid else set()
        if attempt.group:
            self._grouped.pop(attempt.key, None)
            failed = attempt.signal == signal.SIGKILL or attempt.code
            if failed and attempt.reason is None and self._groups.ran_out_of_memory(attempt.group):
                attempt.reason = out_of_memory(attempt.memory, attempt.code).to_wire()
            pids |= self._groups.end(attempt.group)
        self._shared.end(attempt.key, pids, keep=keep)

    def let_go(self, tasks: Sequence[str]) -> None:
        """Keep nothing of these tasks any more."""
        self._shared.let_go(tasks)

    def drop(self, launch: str) -> None:
        """Keep nothing of a component any more."""
        self._shared.drop(launch)

    def expire(self) -> None:
        """Remove what was kept for too long. To be called often."""
        self._shared.expire()

    def end_bombs(self) -> None:
        """Kill the attempts that start processes beyond their limit for ever. To be called often."""
        if clock.steady() < self._looked + _LOOK:
            return
        self._looked = clock.steady()
        for attempt in self._grouped.values():
            if self._groups.is_fork_bomb(attempt.group):
                attempt.reason = attempt.reason or why_killed(groups.MOST_PROCESSES).to_wire()
                self._groups.end(attempt.group)

    def sweep(self, attempts: Iterable[Attempt]) -> None:
        """Remove what killed starters left. ``attempts``: those that have not ended."""
        self._groups.sweep({attempt.group for attempt in attempts})

    def remove(self, paths: Sequence[str]) -> int:
        """Remove folders with files of any account, in a process of its own, whose pid is returned."""
        return self._as_root(["/bin/rm", "-rf", "--one-file-system", "--", *paths])

    def remove_jobs(self, job_ids: Sequence[str]) -> None:
        """Forget the views of jobs, and remove their temporary files. A job that is back meanwhile gets new ones."""
        for job_id in filter(is_job_id, job_ids):
            self._namespaces.forget(job_id)
            self._namespaces.put_aside(job_id)
        if paths := self._namespaces.aside():
            self.remove(paths)

    def _program(
        self,
        namespaces: Namespaces,
        uid: int,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        group: str,
        streams: Sequence[int],
        *,
        tty: bool = False,
    ) -> Callable[[], processes.Program]:
        refused = system_call_filter.make()

        def prepare() -> processes.Program:
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            become_root()
            if group:
                self._groups.join(group)
            if tty:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
                os.fchown(0, uid, -1)
            leave_session_keyring()
            processes.enter(namespaces)
            processes.become(uid, self._group)
            for instructions in refused:
                system_call_filter.apply(instructions)
            os.umask(UMASK)
            own = {**env, "PWD": enter_folder(cwd)}
            return processes.Program(find_program(argv[0], own), argv, own)

        return prepare

    def _as_root(self, argv: list[str]) -> int:
        def prepare() -> processes.Program:
            become_root()
            return processes.Program(argv[0], argv, _ROOT_ENV)

        return processes.fork(prepare)


def _give(folder: str, uid: int) -> None:
    with raised():
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fchown(descriptor, uid, -1)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CannotStartError(NOT_EXECUTABLE, f"cannot make its scratch folder: {error}") from error


def _limit_processes() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    limit = MOST_PROCESSES if most == resource.RLIM_INFINITY else min(most, MOST_PROCESSES)
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
