"""What a machine fetches before it can seal anything: the master's key, the join script, the bundle.

None of it is secret. The key and the bundle are checked against the join token, the script comes from whom the token's
owner trusts; it is small, to be read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from flask import Flask, Response, jsonify
from werkzeug.exceptions import NotFound, ServiceUnavailable

from grass.clock import steady
from grass.share import shared
from master.api.bundle import find_bundle
from master.api.call import Api

_DOWNLOADS = threading.BoundedSemaphore(16)
"""Bundles that are fetched at once: each has a thread of the server's 64, and anybody may fetch one."""
_PIECE = 256 * 1024
_SLOWEST_SECONDS, _SLOWEST_RATE = 60.0, 16 * 1024
"""A download may take so many seconds, and one more for each so many bytes."""


def add_routes(app: Flask, api: Api) -> None:
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
    return Response(shared("on_premises/join.py").read_text(), mimetype="text/x-python")


def _join_token(api: Api, digest: str) -> Response:
    """Whether a machine that has nothing of Grass yet may join with a token, by its secret's digest.

    The digest opens nothing: joining takes the secret itself.
    """
    return jsonify({"problem": api.store.join_tokens.problem(digest, api.wall())})


def _bundle(digest: str) -> Response:
    """In pieces, so that several machines at once cost no memory."""
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
    """Broken off for a reader that is too slow, so that it leaves its thread to the next."""
    begun, sent = steady(), 0
    with path.open("rb") as file:
        while (piece := file.read(_PIECE)) and steady() - begun < _SLOWEST_SECONDS + sent / _SLOWEST_RATE:
            yield piece
            sent += len(piece)
