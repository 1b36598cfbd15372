"""The interface to a machine: run a command, write a file, read a file. Implemented by ``LocalHost`` and ``SshHost``.

The two differ only in how a command line reaches the machine (``_execute``). Becoming root and file access use the same
commands on both. For one thread at a time. Used by ``grass.cli`` and, through ``grass.hosts``, by ``grass.provision``.
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
from grass.lines import lines_of

TIMEOUT = 600.0
"""Default limit of a command, in seconds."""
_SHOWN_LINES = 30

_Host = TypeVar("_Host", bound="Host")

Ask = Callable[[str], str | None]
"""Asks the user a question without echo, such as for a password; None: no answer."""

Stdin = bytes | Path | IO[bytes] | None
"""Standard input of a command: bytes, a local file, an open stream; None: nothing."""

_PUT = """
umask 077; set -C
here=$(mktemp -d "$1.grass-XXXXXXXX") && cd "$here" && [ -O . ] || exit 1
cat > new && { [ "$(wc -c < new)" -eq "$4" ] || { echo "the connection was cut" >&2; false; }; } &&
    { [ -z "$3" ] || chown "$3" new; } && chmod "$2" new && mv -fT new "$1"
code=$?; rm -f new; cd / && rmdir "$here" && exit $code
"""
"""A folder of root's own holds the new file: whoever owns the folder around it can put no link in its place."""


class Become(str, Enum):
    """How a command runs as root. A user who is root needs neither."""

    NONE = "none"
    SUDO = "sudo"


@dataclass(frozen=True)
class Done:
    """An ended command. ``code``: its exit code, or 128 + signal. ``out`` and ``err`` are decoded as UTF-8; undecodable
    bytes are replaced."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    raw: bytes = field(default=b"", repr=False)
    """Standard output as bytes."""
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
        """Return what the command said when it failed, for a message."""
        said = [line for line in lines_of(self.out + "\n" + self.err) if line.strip()][-_SHOWN_LINES:]
        output = "".join(f"\n    {line}" for line in said) or " (no output)"
        return f"{self.host}: `{shown(self.argv)}` ended with code {self.code}:{output}"


class Host(ABC):
    """A machine on which Grass is installed.

    ``name``: for messages. ``password``: for sudo; without one, ``ask`` is called once when sudo requires it.
    """

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
        """Words that precede a command to run it as root, once they are known."""

    @abstractmethod
    def _execute(
        self, argv: Sequence[str], stdin: Stdin, before: bytes, timeout: float, output: IO[bytes] | None = None
    ) -> Done:
        """Run ``argv``; ``before`` is written to its standard input ahead of ``stdin``. Standard output goes to
        ``output``, if that is given."""

    def close(self) -> None:  # noqa: B027 subclasses without a connection have nothing to close
        """Close the connection; the next command opens a new one."""

    def __enter__(self: _Host) -> _Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        argv: Sequence[str],
        stdin: Stdin = None,
        sudo: bool = False,
        timeout: float = TIMEOUT,
        output: IO[bytes] | None = None,
    ) -> Done:
        """Run a command to its end. ``sudo``: as root. The caller judges the exit code, for example by ``.check()``.
        ``output``: an open file of this machine for what the command prints; the result does not have it then.

        Raises HostUnreachableError, AccessRefusedError, CommandTimeoutError (``timeout`` in seconds).
        """
        if not sudo:
            return self._execute(argv, stdin, b"", timeout, output)
        prefix = self.become_root()
        before = f"{self._password.reveal()}\n".encode() if "-S" in prefix and self._password is not None else b""
        done = self._execute([*prefix, *argv], stdin, before, timeout, output)
        return Done(tuple(argv), done.code, done.out, done.err, done.raw, done.host)

    def put(self, content: bytes | Path, target: str, mode: int, owner: str | None = None, sudo: bool = False) -> None:
        """Replace a file atomically: readers see the old or the new content. ``owner``: ``USER`` or ``USER:GROUP``.
        ``target``: an absolute path. A cut connection leaves the old content."""
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        words = ["sh", "-c", _PUT, "put", target, f"{mode:o}", owner or "", str(size)]
        done = self.run(words, stdin=content, sudo=sudo)
        if not done.ok:
            raise CommandFailedError(f"{self.name}: cannot write {target}: {done.err.strip() or f'code {done.code}'}")

    def get(self, path: str, sudo: bool = False) -> bytes:
        done = self.run(["cat", "--", path], sudo=sudo)
        if not done.ok:
            raise CommandFailedError(f"{self.name}: cannot read {path}: {done.err.strip() or f'code {done.code}'}")
        return done.raw

    def become_root(self) -> tuple[str, ...]:
        """Return the words that precede a command to run it as root. Raises BecomeRootError. Found out once."""
        if self._prefix is None:
            self._prefix = self._way_to_root()
        return self._prefix

    def _way_to_root(self) -> tuple[str, ...]:
        who = self._execute(["id", "-u", "-n"], None, b"", TIMEOUT).out.strip()
        if self._execute(["id", "-u"], None, b"", TIMEOUT).out.strip() == "0":
            return ()
        step = f"become root on {self.name}"
        if self._become is Become.NONE:
            raise BecomeRootError(f"{step}: the user {who} is not root; set `become: sudo`, or log in as root")
        free = self._execute(["sudo", "-k", "-n", "true"], None, b"", TIMEOUT)
        if free.ok:
            return ("sudo", "-n", "--")
        if free.code == 127 or "not found" in free.err:
            raise BecomeRootError(f"{step}: sudo is not installed; install it, or log in as root")
        return self._with_password(who, step)

    def _with_password(self, who: str, step: str) -> tuple[str, ...]:
        """Find the password. ``-k`` makes sudo ask at every call, so the first line of its input is always the
        password."""
        if self._password is None:
            answer = self._ask(f"sudo password of {who} on {self.name}: ") if self._ask else None
            if answer is None:
                raise BecomeRootError(
                    f"{step}: sudo needs the password of {who}; give it with --ask-become-pass or in "
                    "GRASS_BECOME_PASSWORD, or configure sudo to need none"
                )
            self._password = Secret(answer)
        prefix = ("sudo", "-k", "-S", "-p", "", "--")
        tried = self._execute([*prefix, "true"], None, f"{self._password.reveal()}\n".encode(), TIMEOUT)
        if tried.ok:
            return prefix
        said = lines_of(tried.err.strip())
        if "may not run sudo" in tried.err or "not in the sudoers" in tried.err or "not allowed" in tried.err:
            raise BecomeRootError(f"{step}: {who} may not use sudo there: {said[-1]}")
        raise BecomeRootError(f"{step}: sudo refuses the password of {who} ({said[0] if said else 'no output'})")


def prompt(question: str) -> str | None:
    """Ask on the terminal without echo; None without a terminal."""
    try:
        return getpass.getpass(question)
    except (EOFError, OSError):
        return None
