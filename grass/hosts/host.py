"""The port to a machine: run a command, put a file there, get one. Implemented by ``LocalHost`` and ``SshHost``.

What differs between the two is only how a command line reaches the machine (``_execute``); becoming root and files are
the same commands on both. Safe for one thread at a time.
"""

from __future__ import annotations

import getpass
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import IO, TypeVar

from grass.hosts.command_line import Secret, shown
from grass.hosts.errors import BecomeRootError, CommandFailedError

TIMEOUT = 600.0
"""Seconds until a command that says nothing else is given up."""
_SHOWN_LINES = 30

_Host = TypeVar("_Host", bound="Host")

Ask = Callable[[str], str | None]
"""Asks the user a question without echo, such as for a password; None: no answer."""

Stdin = bytes | Path | IO[bytes] | None
"""Standard input of a command: bytes, a local file, an open stream; None: nothing."""

_PUT = """
umask 077; new="$1.grass-new"
cat > "$new" && { [ -z "$3" ] || chown "$3" "$new"; } && chmod "$2" "$new" && mv -fT "$new" "$1"
"""


class Become(str, Enum):
    """How a command runs as root. A user who is root needs neither."""

    NONE = "none"
    SUDO = "sudo"


@dataclass(frozen=True)
class Done:
    """A command that ended. ``code`` is its exit status, or 128 + the signal that ended it; texts are UTF-8, mended."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    raw: bytes = field(default=b"", repr=False)
    """Standard output as it was."""
    host: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0

    def check(self) -> Done:
        """Return itself if the exit code is 0; otherwise raise CommandFailedError with host, command and output."""
        if self.ok:
            return self
        raise CommandFailedError(self.failure())

    def failure(self) -> str:
        said = [line for line in (self.out + "\n" + self.err).splitlines() if line.strip()][-_SHOWN_LINES:]
        output = "".join(f"\n    {line}" for line in said) or " (it said nothing)"
        return f"{self.host}: `{shown(self.argv)}` ended with code {self.code}:{output}"


class Host(ABC):
    """``name``: how messages call it. ``password``: of sudo; ``ask`` is asked for it, once, when sudo wants one."""

    def __init__(
        self,
        name: str,
        *,
        become: Become = Become.NONE,
        password: Secret | None = None,
        ask: Ask | None = None,
    ) -> None:
        self.name = name
        self._become = become
        self._password = password
        self._ask = ask
        self._prefix: tuple[str, ...] | None = None
        """Words before a command that runs as root, once they are known."""

    @abstractmethod
    def _execute(self, argv: Sequence[str], stdin: Stdin, before: bytes, timeout: float) -> Done:
        """Run ``argv``; ``before`` is written to its standard input ahead of ``stdin``."""

    def close(self) -> None:  # noqa: B027 nothing to let go of, unless a subclass says so
        """Let go of the connection; the next command makes a new one."""

    def __enter__(self: _Host) -> _Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, argv: Sequence[str], stdin: Stdin = None, sudo: bool = False, timeout: float = TIMEOUT) -> Done:
        """Run a command to its end. ``sudo``: as root. A code that is not 0 is the caller's to judge (``.check()``).

        Raises HostUnreachableError, AccessRefusedError, CommandTimeoutError (``timeout`` in seconds).
        """
        if not sudo:
            return self._execute(argv, stdin, b"", timeout)
        prefix = self.become_root()
        before = f"{self._password.reveal()}\n".encode() if "-S" in prefix and self._password is not None else b""
        done = self._execute([*prefix, *argv], stdin, before, timeout)
        return Done(tuple(argv), done.code, done.out, done.err, done.raw, done.host)

    def put(self, content: bytes | Path, target: str, mode: int, owner: str | None = None, sudo: bool = False) -> None:
        """Write a file whole: whoever reads it sees the old one or the new. ``owner``: ``USER`` or ``USER:GROUP``."""
        words = ["sh", "-c", _PUT, "put", target, f"{mode:o}", owner or ""]
        done = self.run(words, stdin=content, sudo=sudo)
        if not done.ok:
            raise CommandFailedError(f"{self.name}: cannot write {target}: {done.err.strip() or f'code {done.code}'}")

    def get(self, path: str, sudo: bool = False) -> bytes:
        done = self.run(["cat", "--", path], sudo=sudo)
        if not done.ok:
            raise CommandFailedError(f"{self.name}: cannot read {path}: {done.err.strip() or f'code {done.code}'}")
        return done.raw

    def become_root(self) -> tuple[str, ...]:
        """Return the words before a command that runs as root. Tried once; BecomeRootError says what failed."""
        if self._prefix is None:
            self._prefix = self._way_to_root()
        return self._prefix

    def _way_to_root(self) -> tuple[str, ...]:
        who = self._execute(["id", "-u", "-n"], None, b"", TIMEOUT).out.strip()
        if self._execute(["id", "-u"], None, b"", TIMEOUT).out.strip() == "0":
            return ()
        step = f"become root on {self.name}"
        if self._become is Become.NONE:
            raise BecomeRootError(f"{step}: the user {who} is not root; say `become: sudo`, or log in as root")
        free = self._execute(["sudo", "-k", "-n", "true"], None, b"", TIMEOUT)
        if free.ok:
            return ("sudo", "-n", "--")
        if free.code == 127 or "not found" in free.err:
            raise BecomeRootError(f"{step}: there is no sudo; install it, or log in as root")
        return self._with_password(who, step)

    def _with_password(self, who: str, step: str) -> tuple[str, ...]:
        """``-k`` makes sudo ask at every call, so that the first line of its input is always the password."""
        if self._password is None:
            answer = self._ask(f"sudo password of {who} on {self.name}: ") if self._ask else None
            if answer is None:
                raise BecomeRootError(
                    f"{step}: sudo wants the password of {who}; give it with --ask-become-pass or in "
                    "GRASS_BECOME_PASSWORD, or let sudo ask for none"
                )
            self._password = Secret(answer)
        prefix = ("sudo", "-k", "-S", "-p", "", "--")
        tried = self._execute([*prefix, "true"], None, f"{self._password.reveal()}\n".encode(), TIMEOUT)
        if tried.ok:
            return prefix
        said = tried.err.strip().splitlines()
        if "may not run sudo" in tried.err or "not in the sudoers" in tried.err or "not allowed" in tried.err:
            raise BecomeRootError(f"{step}: {who} may not use sudo there: {said[-1]}")
        raise BecomeRootError(f"{step}: sudo refuses the password of {who} ({said[0] if said else 'it said nothing'})")


def prompt(question: str) -> str | None:
    """Ask on the terminal without echo; None where there is none."""
    try:
        return getpass.getpass(question)
    except (EOFError, OSError):
        return None
