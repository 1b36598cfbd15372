"""One POST to a webhook, within a fixed time. Called by ``courier``.

The URL of a job's webhook comes from a user, and the call comes from the master's host. So an address of this host, or
one that only this host can reach (loopback, link-local), is refused. Redirects are not followed, and the reply is not
passed on.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

SECONDS = 10.0
"""Most seconds from the first byte to the end of the reply."""


class RefusedError(Exception):
    """The webhook must not be called, or its receiver wants no more; trying again would not help."""


class NotAcceptedError(Exception):
    """The receiver did not answer with 2xx."""


def post(url: str, body: bytes, headers: Mapping[str, str], *, anywhere: bool, seconds: float = SECONDS) -> None:
    """Send the body. Raises OSError or NotAcceptedError if it may be tried again, otherwise RefusedError.

    ``anywhere``: addresses of this host may be called, too.
    """
    try:
        parts = urlsplit(url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
    except ValueError as error:
        raise RefusedError(f"the webhook is not a URL ({error})") from error
    family, address = _address(host, port, anywhere)
    with socket.socket(family, socket.SOCK_STREAM) as sock, sock.dup() as handle:
        # A receiver that drips resets every time-out of a single read, but not this one. TLS takes the socket over, so
        # the alarm has a handle of its own.
        late = threading.Event()
        alarm = threading.Timer(seconds, _cut, (handle, late))
        alarm.daemon = True
        alarm.start()
        try:
            sock.settimeout(seconds)
            sock.connect(address)
            _exchange(sock, host, port, secure, parts.path or "/", parts.query, body, headers)
        finally:
            alarm.cancel()
        if late.is_set():  # what was read until then may look complete
            raise NotAcceptedError(f"did not answer within {seconds:g} s")


def _exchange(
    sock: socket.socket,
    host: str,
    port: int,
    secure: bool,
    path: str,
    query: str,
    body: bytes,
    headers: Mapping[str, str],
) -> None:
    connection = http.client.HTTPConnection(host, port)
    wire = ssl.create_default_context().wrap_socket(sock, server_hostname=host) if secure else sock
    connection.sock = wire
    try:
        connection.request("POST", path + (f"?{query}" if query else ""), body, dict(headers))
        status = connection.getresponse().status  # the content is not read
    except http.client.HTTPException as error:
        raise NotAcceptedError(f"answered with no valid HTTP ({type(error).__name__})") from error
    finally:
        with suppress(OSError):
            wire.close()
    if status in (404, 410):
        raise RefusedError(f"answered {status}")
    if not 200 <= status < 300:
        raise NotAcceptedError(f"answered {status}" + ("; redirects are not followed" if 300 <= status < 400 else ""))


def _address(host: str, port: int, anywhere: bool) -> tuple[int, tuple[str, int]]:
    """Return family and address to connect to. It is resolved once, so it cannot change after the check."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, _, _, _, address in found:
        if anywhere or not (_is_local(str(address[0])) or _is_own(family, str(address[0]))):
            return family, (str(address[0]), port)
    raise RefusedError(f"{host} is an address of the master's own host or link; webhooks of jobs may not call it")


def _is_local(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    address = address if mapped is None else mapped
    return address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast


def _is_own(family: int, address: str) -> bool:
    """Return whether this host has the address: then the kernel uses it as the source, too. Sends nothing."""
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((address, 9))
        except OSError:
            return False  # there is no route to it
        return str(sock.getsockname()[0]) == address


def _cut(sock: socket.socket, late: threading.Event) -> None:
    late.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
