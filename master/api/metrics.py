"""``/metrics``: the page of the monitor, with the API's own figures. Not sealed: scrapers speak plain HTTP.

A scraper on the master's own machine needs nothing. Any other sends the token that an administrator wrote into
``master/metrics-token`` (``Authorization: Bearer …``). Without that file, others are refused. The same page over TLS
(``metrics_tls``) also accepts client certificates, and no scraper without one of the two. Used by ``app`` and
``server``; ``shares`` asks the monitor, too.
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
from master.api.metrics_tls import MetricsServer

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
    return Response(_page(api), content_type=CONTENT_TYPE)


def tls_server(api: Api) -> MetricsServer | None:
    """Return the server of the page over TLS, to be started; None: the settings name none."""
    listen = api.config.master.metrics
    return None if listen is None else MetricsServer(listen, partial(_answer, api))


def _answer(api: Api, authorization: str, has_certificate: bool) -> tuple[int, str, bytes]:
    if not (has_certificate or _has_token(api, authorization)):
        said = f"metrics: refused; send a client certificate or the token of master/{TOKEN_FILE}\n"
        return 401, "text/plain", said.encode()
    try:
        return 200, CONTENT_TYPE, _page(api)
    except UnreachableError as error:
        return 503, "text/plain", f"{error}\n".encode()


def _page(api: Api) -> bytes:
    """Return the page. Raises UnreachableError."""
    question = encode(api.latencies.figures(api.waiting_slots.taken))
    page = ask_monitor(api, question)
    if not page:
        raise UnreachableError("the monitor cannot read the store")
    return page


def _may_see(api: Api) -> bool:
    authorization = request.headers.get("Authorization", "")
    if authorization.startswith("Bearer "):
        return _has_token(api, authorization)
    return _is_local(request.remote_addr or "") and not any(name in request.headers for name in _FORWARDED)


def _has_token(api: Api, authorization: str) -> bool:
    token = _token(api)
    scheme, _, sent = authorization.partition(" ")
    if token is None or scheme != "Bearer":
        return False
    return hmac.compare_digest(sent.encode("latin-1", "replace"), token.encode())


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


def ask_monitor(api: Api, question: str) -> bytes:
    """Return the monitor's answer; empty if it has none. Raises UnreachableError."""
    path = api.config.socket("monitor")
    try:
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(_PATIENCE)
            connection.connect(os.fspath(path))
            connection.sendall(question.encode() + b"\n")
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
    except OSError as error:
        raise UnreachableError(f"the monitor does not answer: {error}") from error
