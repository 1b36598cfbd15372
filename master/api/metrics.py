"""``/metrics``: the page of the monitor, with the API's own figures. Not sealed: scrapers speak plain HTTP.

A scraper on the master's own machine needs nothing. Any other sends the token that an administrator wrote into
``master/metrics-token`` (``Authorization: Bearer …``). Without that file, others are refused.
"""

from __future__ import annotations

import hmac
import os
import socket
from contextlib import closing
from functools import partial
from ipaddress import ip_address

from flask import Flask, Response, request

from grass.errors import UnreachableError
from grass.wire.codec import encode
from master.api.call import Api

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TOKEN_FILE = "metrics-token"  # noqa: S105 # the name of the file
_SHORTEST_TOKEN = 16
_PATIENCE = 5.0


def add_route(app: Flask, api: Api) -> None:
    """Add the route to the application."""
    app.add_url_rule("/metrics", "metrics", partial(_metrics, api), provide_automatic_options=False)


def _metrics(api: Api) -> Response:
    if not _may_see(api):
        said = f"metrics: refused; scrape from the master itself, or send the token of master/{TOKEN_FILE}\n"
        return Response(said, 401, {"WWW-Authenticate": "Bearer"}, mimetype="text/plain")
    question = encode(api.latencies.figures(api.waiting_slots.taken))
    page = _ask(str(api.config.socket("monitor")), question)
    if not page:
        raise UnreachableError("the monitor cannot read the store")
    return Response(page, content_type=CONTENT_TYPE)


def _may_see(api: Api) -> bool:
    token = _token(api)
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    if sent and scheme == "Bearer":
        return token is not None and hmac.compare_digest(sent.encode("latin-1", "replace"), token.encode())
    return _is_local(request.remote_addr or "") and not any(name in request.headers for name in _FORWARDED)


_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-Ip")
"""Headers of a proxy: the real peer is elsewhere."""


def _is_local(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _token(api: Api) -> str | None:
    """Return the token. One that is too short to be secret counts as none."""
    try:
        text = (api.config.master_dir / TOKEN_FILE).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) >= _SHORTEST_TOKEN else None


def _ask(path: str, question: str) -> bytes:
    """Return the page; empty if the monitor cannot make one. Raises UnreachableError."""
    try:
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(_PATIENCE)
            connection.connect(os.fspath(path))
            connection.sendall(question.encode() + b"\n")
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
    except OSError as error:
        raise UnreachableError(f"the monitor does not answer: {error}") from error
