"""Unencrypted downloads for joining machines: the master's key, the join script, the bundle. Nothing here is secret.

The machine checks the key and the bundle against its join token. The script is fetched without a check, so it is kept
short enough to be read first. Used by ``app``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from flask import Flask, Response, jsonify
from werkzeug.exceptions import NotFound, ServiceUnavailable

from grass.assets import asset
from grass.system.clock import steady
from master.api.bundle import find_bundle
from master.api.call import Api

_DOWNLOADS = threading.BoundedSemaphore(16)
"""Bundle downloads at once. Each occupies one of the server's 64 threads, and anybody may start one."""
_PIECE = 256 * 1024
_SLOWEST_SECONDS, _SLOWEST_RATE = 60.0, 16 * 1024
"""Time limit of a download: a base in seconds, and a least rate in bytes per second."""


def add_routes(app: Flask, api: Api) -> None:
    """Add the download routes to the application."""
    for path, name, view in (
        ("/v1/key", "key", partial(_key, api)),
        ("/v1/join.py", "join_script", _script),
        ("/v1/bundle/<digest>", "bundle", _bundle),
        ("/v1/join-tokens/<digest>", "join_token", partial(_join_token, api)),
    ):
        app.add_url_rule(path, name, view, provide_automatic_options=False)


def _key(api: Api) -> Response:
    return jsonify(api.authenticator.public_key())


def _script() -> Response:
    return Response(asset("on_premises/join.py").read_text(), mimetype="text/x-python")


def _join_token(api: Api, digest: str) -> Response:
    """Answer why no machine may join with a token, by the digest of its secret; null: one may.

    The digest is not enough to join: that needs the secret itself.
    """
    return jsonify({"problem": api.store.join_tokens.problem(digest, api.wall())})


def _bundle(digest: str) -> Response:
    """Send the bundle in pieces, so that many downloads at once use little memory."""
    bundle = find_bundle()
    if bundle is None or bundle.digest != digest:
        raise NotFound
    headers = {"Content-Length": str(bundle.path.stat().st_size)}
    if not _DOWNLOADS.acquire(blocking=False):
        raise ServiceUnavailable
    response = Response(_pieces(bundle.path), mimetype="application/x-tar", headers=headers)
    response.call_on_close(_DOWNLOADS.release)
    return response


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the file. Stop early if the reader is too slow, so that its thread becomes free."""
    begun, sent = steady(), 0
    with path.open("rb") as file:
        while (piece := file.read(_PIECE)) and steady() - begun < _SLOWEST_SECONDS + sent / _SLOWEST_RATE:
            yield piece
            sent += len(piece)
