"""TLS between the hosts of a cluster: contexts made from the files of a host, and the name that a peer proved.

Used by every client and server inside the cluster, but not by its API, whose calls are sealed. Both sides show a
certificate of the cluster's own authority; ``grass.api.certificates`` makes them. Only TLS 1.3 is spoken.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grass.errors import CertificateError
from grass.tls_files import BACKDATED, TlsFiles

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CURE = "on the master repeat `grass create`, on a node `grass node add` or `grass join`"


class TlsSocket(ssl.SSLSocket):
    """A connection over TLS that also works where a plain non-blocking socket is expected.

    What TLS must read or write first shows as BlockingIOError. The handshake of a server is a part of its first
    ``recv``. Read 16 KiB at once: a shorter ``recv`` could leave bytes that ``select`` does not report.
    """

    @property
    def peer(self) -> str:
        """The name in the peer's certificate."""
        return peer_of(self.getpeercert())

    @property
    def peer_since(self) -> float:
        """When the peer's certificate was made: wall seconds of the master, without fractions."""
        begin = str((self.getpeercert() or {}).get("notBefore", ""))
        return ssl.cert_time_to_seconds(begin) + BACKDATED if begin else 0.0

    def recv(self, size: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(size, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError(errno.EWOULDBLOCK, "TLS waits for the peer") from error

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError(errno.EWOULDBLOCK, "TLS waits for the peer") from error


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context for connections. The caller checks the peer's name with ``wrap``. Raises CertificateError."""
    return _client_context(files, _changed_at(files.authority), _changed_at(files.host))


@lru_cache(maxsize=4)  # making one takes longer than a handshake
def _client_context(files: TlsFiles, *_changed: int) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # hosts are known by name, not by address: `wrap` compares it
    return _loaded(context, files)


def wrap(connection: socket.socket, files: TlsFiles, expected: str) -> ssl.SSLSocket:
    """Return the connected socket over TLS, once the server has proved to be ``expected``.

    Raises OSError (ssl.SSLError: which certificate is wrong, and why) or CertificateError, after closing the socket.
    """
    try:
        secure = client_context(files).wrap_socket(connection)
    except BaseException:
        connection.close()
        raise
    found = peer_of(secure.getpeercert())
    if found != expected:
        secure.close()
        raise ssl.SSLCertVerificationError(f"the certificate there is of {found or 'nobody'}, not of {expected}")
    return secure


def peer_of(certificate: Any) -> str:
    """Return the name in a verified peer's certificate, as ``getpeercert`` returns it; empty: it has none."""
    names = (certificate or {}).get("subjectAltName", ())
    return next((value for kind, value in names if kind == "URI"), "")


class ServerContext:
    """The context of a server. Files that were renewed are used from the next connection on."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.num_tickets = 0  # each connection shows its certificate; nothing is resumed
        _loaded(self._context, files)
        self._read = _changed_at(files.host)

    def note_refusals(self, refused: Callable[[str], object]) -> None:
        """Call ``refused`` with the reason when a handshake fails in asyncio, which itself reports no such failure."""

        class Noting(ssl.SSLObject):
            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError as error:
                    refused(f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}")
                    raise

        self._context.sslobject_class = Noting

    def current(self) -> ssl.SSLContext:
        """Return the context with the files as they are now. Wrong new files leave the old ones in use."""
        if (now := _changed_at(self._files.host)) != self._read:
            self._read = now
            try:
                _loaded(self._context, self._files)
            except CertificateError:
                return self._context
        return self._context

    def accepted(self, connection: socket.socket) -> ssl.SSLSocket:
        """Return a client's connection over TLS, without waiting for its handshake. Raises OSError."""
        return self.current().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def _loaded(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.sslsocket_class = TlsSocket
    for path in (files.authority, files.host):
        try:
            path.read_bytes()
        except OSError as error:
            raise CertificateError(
                f"{path}: cannot be read ({error.strerror}); {_CURE}: without its certificate, this host cannot reach "
                "the rest of the cluster"
            ) from error
    try:
        context.load_verify_locations(files.authority)
        context.load_cert_chain(files.host)
    except ssl.SSLError as error:
        why = f"its certificates are damaged ({error.reason or error})"
        raise CertificateError(f"{files.folder}: {why}; {_CURE}") from error
    return context
