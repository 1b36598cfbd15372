"""What a client needs to speak to an API server: its address and authorities, and who the client is.

``kubernetes.config`` finds it (kubeconfig files, exec plugins, OIDC, the account of a pod). That library takes 35 MiB
and 0.3 s of a core to import, so it runs in a process of its own (``kubeconfig_program``), when the client starts and
when the server no longer accepts what is known. Used by ``api``, and by who adds a namespace.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from grass.errors import InputError, UndecodableError, UnreachableError
from grass.lines import lines_of
from grass.system import clock
from grass.wire.codec import Form

_SECONDS = 60.0
"""Limit of a plugin that fetches credentials."""
_TOKEN_AGE = 60.0
"""Seconds after which a token's file is read again. A kubelet replaces it long before the token in it ends."""
_SHARED_SECONDS = 60.0
"""How long those who ask for a server get the credentials that are in use, and none that were written since."""


class Credentials(msgspec.Struct, frozen=True):
    """A server, and who its client is. ``server``: the URL. ``ca``, ``certificate``, ``key``: PEM texts; None: the
    authorities of the system, no certificate."""

    server: str
    namespace: str | None = None
    """Of the context, if it names one."""
    context: str | None = None
    """None: the account of a pod."""
    ca: str | None = None
    verify: bool = True
    server_name: str | None = None
    """The name in the server's certificate, if it is not the host in ``server``."""
    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    token_file: str | None = None
    """Where a newer token will be."""
    proxy: str | None = None
    fetched_by: str | None = None
    """What fetches them anew, in words; None: they are in the kubeconfig."""

    def __repr__(self) -> str:
        """Without what is secret: texts of errors and logs may contain it."""
        return f"Credentials({self.server!r}, context={self.context!r})"


CREDENTIALS: Form[Credentials] = Form(Credentials)


def stored(path: Path) -> Credentials:
    """Read credentials from a file of Grass. Raises InputError: it cannot be read."""
    try:
        return CREDENTIALS.decode(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UndecodableError as error:
        raise InputError(f"{path}: {error}") from error


class Login(msgspec.Struct, frozen=True):
    """Where credentials come from. ``kubeconfig`` None: as kubectl finds it, or the account of the pod.

    ``context`` None: the current one.
    """

    kubeconfig: str | None = None
    context: str | None = None

    def read(self) -> Credentials:
        """Return the present credentials. Raises InputError: there are none, or a plugin failed; UnreachableError: a
        plugin did not end, or cannot be started now."""
        argv = [sys.executable, "-m", "grass.kubernetes.kubeconfig_program", self.kubeconfig or "", self.context or ""]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{self}: what fetches the credentials did not end in {_SECONDS:g} s") from None
        except OSError as error:  # no memory, or too many processes
            raise UnreachableError(f"{self}: what fetches the credentials cannot be started now: {error}") from error
        if done.returncode != 0:
            lines = lines_of(done.stderr.decode(errors="replace").strip())
            raise InputError(f"{self}: {lines[-1] if lines else f'ended with {done.returncode}'}")
        return CREDENTIALS.decode(done.stdout)

    def read_to_keep(self) -> Credentials:
        """Return credentials that are also of use on another machine. Raises InputError also if they are not: something
        on this machine fetches them anew."""
        found = self.read()
        by = found.fetched_by or (f"the file {found.token_file}" if found.token_file else None)
        if by is not None:
            raise InputError(
                f"{self}: its credentials come from {by}, which works on this machine only; use a kubeconfig that has "
                "a token or a certificate in it, such as that of a service account"
            )
        return found

    def __str__(self) -> str:
        return f"context {self.context} of {self._file}" if self.context else self._file

    @property
    def _file(self) -> str:
        return self.kubeconfig or "the kubeconfig"


class Credential:
    """The credentials in use, for several threads. ``read`` fetches them anew."""

    def __init__(self, read: Callable[[], Credentials]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._current: Credentials | None = None
        self._token_read = 0.0

    def current(self) -> Credentials:
        """Return the credentials, with the present content of their token's file."""
        with self._lock:
            if self._current is None:
                self._current = self._read()
                self._token_read = clock.steady()
            elif self._current.token_file and clock.steady() - self._token_read >= _TOKEN_AGE:
                self._current = _with_token_of_file(self._current)
                self._token_read = clock.steady()
            return self._current

    def refused(self, used: Credentials) -> bool:
        """Fetch credentials anew, because the server does not accept these. Return whether there are other ones now.

        Another thread may have fetched them meanwhile.
        """
        with self._lock:
            if self._current is used:
                self._current = self._read()
                self._token_read = clock.steady()
            return self._current != used


def shared_credential(login: Login) -> Credential:
    """Return the credentials of a login. All who ask for them in a minute share them: to read them starts a program."""
    now = clock.steady()
    with _shared_lock:
        if login not in _shared or now - _shared[login][0] >= _SHARED_SECONDS:
            _shared[login] = now, Credential(login.read)
        return _shared[login][1]


_shared: dict[Login, tuple[float, Credential]] = {}
"""Login → since when, what those get who ask."""
_shared_lock = threading.Lock()


def _with_token_of_file(credentials: Credentials) -> Credentials:
    assert credentials.token_file is not None
    try:
        token = Path(credentials.token_file).read_text().strip()
    except OSError:  # it is being replaced, or gone: the server says when the old one has ended
        return credentials
    return msgspec.structs.replace(credentials, token=token) if token else credentials
