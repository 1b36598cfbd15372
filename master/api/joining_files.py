"""What a machine fetches before it can seal anything: the master's key, the join script, the bundle.

None of it is secret. The key and the bundle are checked against the join token, the script comes from whom the token's
owner trusts; it is small, to be read.
"""

from __future__ import annotations

from functools import partial

from flask import Flask, Response, jsonify, send_file
from werkzeug.exceptions import NotFound

from grass.share import shared
from master.api.bundle import find_bundle
from master.api.call import Api


def add_routes(app: Flask, api: Api) -> None:
    for path, name, view in (
        ("/v1/key", "key", partial(_key, api)),
        ("/v1/join.py", "join_script", _script),
        ("/v1/bundle/<digest>", "bundle", _bundle),
        ("/v1/join-tokens/<digest>", "join_token", partial(_join_token, api)),
    ):
        app.add_url_rule(path, name, view, provide_automatic_options=False)


def _key(api: Api) -> Response:
    return jsonify(api.door.public_key())


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
    return send_file(bundle.path, mimetype="application/x-tar", conditional=False, etag=False)
