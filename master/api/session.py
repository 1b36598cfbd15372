"""`/v1/session`: a signed request opens a session, so that later calls cost no RSA (ADR 12). Used by ``handlers``."""

from __future__ import annotations

import grass
from grass.api.sealing import encode_key
from grass.errors import InputError
from grass.store.keys import SESSION_SECONDS
from grass.system.clock import steady
from grass.wire.calls import SessionRequest
from grass.wire.version import OLDEST_CLIENT, PROTOCOL, REVISION, mismatch
from grass.wire.views import SessionView
from master.api.call import Call, Reply


def open_session(call: Call) -> Reply:
    """Grant a session. Raises InputError for a client whose protocol is not admitted."""
    request = call.read(SessionRequest)
    refusal = mismatch("this client", request.protocol, request.version, grass.__version__, OLDEST_CLIENT)
    if refusal is not None:
        raise InputError(refusal)
    session = call.api.authenticator.sessions.grant(call.user, call.caller.key_id, steady())
    key = encode_key(session.key)
    standby = call.api.config.standby
    other = standby.url if standby is not None else ""
    return Reply(SessionView(session.id, key, SESSION_SECONDS, PROTOCOL, grass.__version__, REVISION, other), 201)
