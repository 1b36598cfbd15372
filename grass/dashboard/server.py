"""Serves the dashboard until Ctrl-C. Called by `grass dashboard`."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from werkzeug.serving import make_server

from grass.api.client import Client
from grass.dashboard.access import LOOPBACK, PageAccess
from grass.dashboard.actions import JobFiles
from grass.dashboard.app import Pages, create_app
from grass.dashboard.files import Files
from grass.errors import InputError
from grass.network_address import network_address
from grass.system import clock
from grass.system.entropy import password


class DashboardServer:
    """Listens from the moment it is made. ``port`` 0: a free one.

    ``address``: the name by which browsers reach a shared page; None: this machine only. ``files``: the share,
    ``job_files``: starts jobs; a shared page has neither. ``expires``: seconds of the clock ``steady``.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        port: int,
        *,
        files: Files | None = None,
        job_files: JobFiles | None = None,
        address: str | None = None,
        expires: float | None = None,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        with _listen(_bound(address), port) as listener:
            host, port = listener.getsockname()[:2]
            named = network_address(address or host, port)
            aliases = (f"localhost:{port}",) if address is None else ()
            self._access = PageAccess(named, password(), password(), expires, aliases)
            self._pages = Pages(self._access, connect, files, job_files, shared=address is not None, steady=steady)
            self._server = make_server(host, port, create_app(self._pages), threaded=True, fd=listener.fileno())

    @property
    def link(self) -> str:
        """The address to open, with the secret."""
        return self._access.link

    def serve(self, begin: Callable[[], object] = lambda: None) -> None:
        """Call ``begin``, which may fail, and answer requests until ``close``."""
        with self._server:
            begin()
            self._server.serve_forever(0.1)

    def close(self) -> None:
        """End ``serve``. Called from another thread."""
        self._pages.close()
        self._server.shutdown()


def _bound(address: str | None) -> str:
    """Return the one address to listen on: an IP address itself, or what a name means here. Raises InputError."""
    if address is None:
        return LOOPBACK
    with suppress(ValueError):
        return str(ipaddress.ip_address(address))
    advice = "name an IP address of this machine with --address"
    try:
        found = {entry[4][0]: entry[0] for entry in socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise InputError(f"address {address}: this machine does not know the name ({error}); {advice}") from error
    reachable = [each for each in found if not ipaddress.ip_address(str(each)).is_loopback]
    if not reachable:
        means = ", ".join(map(str, found))
        raise InputError(f"address {address}: means {means} here, which other machines cannot reach; {advice}")
    return str(min(reachable, key=lambda each: found[each] is not socket.AF_INET))


def _listen(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL:
            raise InputError(
                f"address {address}: this machine does not have it; name another with --address"
            ) from error
        raise InputError(f"port {port} of {address}: cannot be used ({error}); choose another with --port") from error
