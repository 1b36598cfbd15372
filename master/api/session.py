"""`/v1/session`: a signed request opens a session, so that the calls after it cost no RSA (ADR 12)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

import grass
from grass.api.sealing import encode_key
from grass.clock import steady
from grass.errors import InputError
from grass.store.keys import SESSION_SECONDS
from grass.wire.version import PROTOCOL, mismatch
from master.api.call import Api, Call, Reply
from master.api.registry import noun_blueprint


def blueprint(api: Api) -> Blueprint:
    return noun_blueprint("session", api, {"open": open_session})


def open_session(call: Call) -> Reply:
    """Raises InputError for a client that speaks another protocol."""
    protocol, version = _typed(call.body, "protocol", int), _typed(call.body, "version", str)
    refusal = mismatch("this client", protocol, version, grass.__version__)
    if refusal is not None:
        raise InputError(refusal)
    session = call.api.authenticator.sessions.grant(call.user, call.caller.key_id, steady())
    content = {"session": session.id, "key": encode_key(session.key), "seconds": SESSION_SECONDS}
    return Reply({**content, "protocol": PROTOCOL, "version": grass.__version__}, 201)


def _typed(body: dict[str, Any], key: str, kind: type) -> Any:
    value = body.get(key)
    if type(value) is not kind:
        raise InputError(f"{key}: must be a {kind.__name__}, got {value!r}")
    return value
