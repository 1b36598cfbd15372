"""The API for a machine without a user: it joins with a join token, and later proves itself by its node's token.

It trusts only the thumbprint of the master's key in the join token: the server at the URL must own that key.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from grass import clock
from grass.api.envelope import KEY_BYTES
from grass.api.invitation import Invitation
from grass.api.keyring import ClientKeys, Profile
from grass.api.sealing import ReplyKey
from grass.api.signing import seal_unsigned_request
from grass.api.transport import Sealed, Transport, with_query
from grass.entropy import request_id
from grass.errors import GrassError, NotAllowedError, UnreachableError

View = dict[str, Any]  # Any: plain data, as of `Client`; the types are in grass.wire.views
_KEY_SECONDS = 5.0
_NODE_SECONDS = 10.0
"""Seconds that the master waits for a node, or for the next step of a join."""
_LARGEST_KEY = 16_384


class UnauthenticatedClient:
    """``master``: the master's verified public key. ``profile``: where the API is; its user is empty."""

    def __init__(self, profile: Profile, master: RSAKey, *, wall: Callable[[], float] = clock.wall) -> None:
        self.url = profile.url
        self._transport = _UnsignedTransport(replace(profile, user="", key_id=""), master, wall)

    @property
    def clock_offset(self) -> float:
        """Seconds by which the master's clock is ahead of ours; 0 while the difference does not matter."""
        return self._transport.offset

    def close(self) -> None:
        self._transport.close()

    def join(self, body: View) -> View:
        """Join; see ``master/api/joins.py``. May be repeated with the same ``join_id``."""
        answer: View = self._transport.call("POST", "/v1/join", body, wait=_NODE_SECONDS)
        return answer

    def wait(self, node: str, token: str, seen: str | None, timeout: float) -> View:
        """Wait until the node's mark differs from ``seen``: ``{"node", "mark", "pause"}``."""
        return self._ask("GET", node, {"timeout": f"{timeout:.3f}", "seen": seen}, {"token": token}, wait=timeout)

    def reach(self, node: str, token: str) -> View:
        """Ask whether the master reaches the node's API: ``{"place", "error"}``; ``place`` is ADDRESS:PORT, no error:
        it does."""
        return self._ask("GET", node, {}, {"token": token}, "/reach", _NODE_SECONDS)

    def leave(self, node: str, token: str, *, force: bool = False) -> View:
        return self._ask("DELETE", node, {"timeout": "0"}, {"token": token, "force": force})

    def _ask(
        self, method: str, node: str, query: Mapping[str, str | None], body: View, more: str = "", wait: float = 0.0
    ) -> View:
        target = with_query(f"/v1/join/{quote(node, safe='')}{more}", query)
        answer: View = self._transport.call(method, target, body, wait=wait)
        return answer


def open_unauthenticated(
    invitation: Invitation, first: str | None = None, *, wall: Callable[[], float] = clock.wall
) -> UnauthenticatedClient:
    """Connect to the first of the invitation's URLs (``first`` before them) where the right master answers.

    Raises UnreachableError, NotAllowedError (another key).
    """
    failure: GrassError | None = None
    for url in dict.fromkeys([*([first] if first else []), *invitation.urls]):
        try:
            key = master_key(url, invitation.key)
            return UnauthenticatedClient(Profile(invitation.cluster, url, "", ""), key, wall=wall)
        except (UnreachableError, NotAllowedError) as error:
            failure = failure or error
    assert failure is not None
    raise failure


def master_key(url: str, thumbprint: str) -> RSAKey:
    """Return the key of the master at ``url`` if it has the right thumbprint."""
    try:
        key: RSAKey = RSAKey.import_key(json.loads(_fetch(url, "/v1/key")))
        found = key.thumbprint()
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise UnreachableError(f"the server at {url} is not a master of Grass") from error
    if found != thumbprint:
        raise NotAllowedError(
            f"the master at {url} is not the master of this join token (its key is {found}, "
            f"the token names {thumbprint}); it belongs to another cluster, or the connection is intercepted"
        )
    return key


def _fetch(url: str, path: str) -> bytes:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_KEY_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read(_LARGEST_KEY)
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(
            f"no master answers at {url} ({error or type(error).__name__}); is it running, and "
            "does a firewall let this machine through?"
        ) from error
    finally:
        connection.close()
    if response.status != 200:
        raise UnreachableError(f"the server at {url} is not a master of Grass (HTTP status {response.status})")
    return text


class _UnsignedTransport(Transport):
    """Sends unsigned requests. Retries, replies and clock correction are those of every client."""

    def __init__(self, profile: Profile, master: RSAKey, wall: Callable[[], float]) -> None:
        super().__init__(ClientKeys(profile, Path()), wall=wall)
        self._master = master

    @property
    def offset(self) -> float:
        return self._offset

    def _seal(self, method: str, target: str, body: str | None, seconds: float) -> Sealed:
        new_id = request_id()
        reply = ReplyKey(new_id, os.urandom(KEY_BYTES))
        return Sealed(seal_unsigned_request(self._claims(method, target, new_id), body, reply, self._master), reply)

    def _refuse(self, status: int) -> NoReturn:
        if status == 401:
            raise NotAllowedError(self._text("refuses the requests of this machine"))
        super()._refuse(status)
