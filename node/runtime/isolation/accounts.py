"""System accounts of Grass users on this node, made on demand. ``/etc/passwd`` is the record: the comment of an account
names cluster and user, and its name derives from its id, so no name of a Grass user becomes a name of the system.

Leaving the cluster removes them (``grass.provision.on_premises.node_accounts``). Used by ``tasks``.
"""

from __future__ import annotations

import pwd
import subprocess
from typing import NamedTuple

from grass.model.isolation import UidRange, account_name, uid_range_problem
from node.runtime.isolation import privilege
from node.runtime.spawn import NOT_EXECUTABLE, CannotStartError

MARK = "Grass"
_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_TIMEOUT = 20.0


class Account(NamedTuple):
    """The system account of a Grass user on this node."""

    name: str
    uid: int


def comment(cluster: str, user: str) -> str:
    """Return the comment of the account. Names of clusters and users hold neither blanks nor colons."""
    return f"{MARK} {cluster} {user}"


class Accounts:
    """The accounts of this node.

    ``group``: primary group of all accounts, that of the daemons, so that both can use files in the share.
    """

    def __init__(self, cluster: str, uids: UidRange, group: int) -> None:
        if problem := uid_range_problem(uids):
            raise ValueError(f"uids for isolation: {problem}")
        self._cluster = cluster
        self._uids = uids
        self._group = group
        self._known: dict[str, Account] = {}

    def account_of(self, user: str) -> Account:
        """Return the account of a Grass user; make it if it is missing. Raises CannotStartError."""
        if user not in self._known:
            self._known[user] = self._found(user) or self._made(user)
        return self._known[user]

    def _found(self, user: str) -> Account | None:
        wanted = comment(self._cluster, user)
        for entry in pwd.getpwall():
            if entry.pw_gecos == wanted and self._uids.first <= entry.pw_uid <= self._uids.last:
                return Account(entry.pw_name, entry.pw_uid)
        return None

    def _made(self, user: str) -> Account:
        if not user or set(user) & set(" :,\n"):
            raise CannotStartError(NOT_EXECUTABLE, f"{user!r} cannot have an account on this node")
        uid = self._free()
        account = Account(account_name(uid), uid)
        command = ["useradd", "--system", "--uid", str(uid), "--gid", str(self._group), "--no-create-home"]
        command += ["--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
        command += ["--comment", comment(self._cluster, user), account.name]
        with privilege.raised():
            done = _run(command)
        if done:
            raise CannotStartError(NOT_EXECUTABLE, f"no account can be made for {user}: {done}")
        return account

    def _free(self) -> int:
        taken = {entry.pw_uid for entry in pwd.getpwall()}
        taken |= {account.uid for account in self._known.values()}  # somebody may have removed one that is in use
        for uid in range(self._uids.first, self._uids.last + 1):
            if uid not in taken and not _exists(uid):
                return uid
        message = f"no user id in {self._uids} is free on this node; see `uids` in the settings"
        raise CannotStartError(NOT_EXECUTABLE, message)


def _exists(uid: int) -> bool:
    """Return whether a directory service knows the id: such services often list nobody."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _run(command: list[str]) -> str:
    """Run a command as root. Return why it failed; empty if it did not."""
    try:
        done = subprocess.run(
            command,
            env=_PATH,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            cwd="/",
            user=0,
            group=0,
            extra_groups=(),
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else ""
