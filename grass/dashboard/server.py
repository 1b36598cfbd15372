"""Serves the dashboard until Ctrl-C. Called by `grass dashboard`."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Callable

from werkzeug.serving import make_server

from grass import clock
from grass.api.client import Client
from grass.dashboard.app import Pages, create_app
from grass.dashboard.files import Files
from grass.dashboard.gate import Gate
from grass.entropy import password
from grass.errors import InputError
from grass.network_address import wildcard

LOOPBACK = "127.0.0.1"


class DashboardServer:
    """Listens from the moment it is made. ``port`` 0: a free one.

    ``address``: the name by which browsers reach a shared page; None: this machine only. ``files``: the share; a
    shared page never shows it. ``expires``: seconds of the clock ``steady``.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        port: int,
        *,
        files: Files | None = None,
        address: str | None = None,
        expires: float | None = None,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        with _listen(_bound(address), port) as listener:
            host, port = listener.getsockname()[:2]
            named = host if address is None else f"[{address}]" if ":" in address else address
            aliases = (f"localhost:{port}",) if address is None else ()
            self._gate = Gate(f"{named}:{port}", password(), password(), expires, aliases)
            self._pages = Pages(self._gate, connect, files, shared=address is not None, steady=steady)
            self._server = make_server(host, port, create_app(self._pages), threaded=True, fd=listener.fileno())

    @property
    def link(self) -> str:
        """The address to open, with the secret."""
        return self._gate.link

    def serve(self) -> None:
        """Answer requests until ``close``."""
        with self._server:
            self._server.serve_forever(0.1)

    def close(self) -> None:
        """End ``serve``. Called from another thread."""
        self._pages.close()
        self._server.shutdown()


def _bound(address: str | None) -> str:
    """Return the address to listen on: that of an IP address, all for a name."""
    if address is None:
        return LOOPBACK
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return wildcard(address)


def _listen(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise InputError(f"port {port} of {address}: cannot be used ({error}); choose another with --port") from error
