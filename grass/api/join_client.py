"""The API client of a machine without a user: it joins with a join token, and later uses its node's token.

To the master it is an unauthenticated client: its requests are encrypted but not signed. It trusts only the thumbprint
of the master's key in the invitation; the server at the URL must own that key. Used by ``login``, ``grass.cli``,
``grass.provision`` and ``grass.provision.on_premises``.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote, urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from grass.api.envelope import KEY_BYTES
from grass.api.http_connection import OpenSocket
from grass.api.invitation import Invitation
from grass.api.keyring import ClientKeys, Jwk, Profile
from grass.api.notice import MOVED
from grass.api.pod_tunnel import PodTunnel, PodWay, tunnel_of
from grass.api.sealing import ReplyKey
from grass.api.signing import seal_unsigned_request
from grass.api.transport import PlainData, Sealed, Transport, with_query
from grass.errors import GrassError, NotAllowedError, UnreachableError
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.join_views import CERTIFICATE, JOINED, CertificateView, JoinedView
from grass.wire.node_views import NODE_REACHED, NODE_WAITED, NodeReached, NodeWaited
from grass.wire.user_views import OWN_KEY, OwnKeyView

_KEY_SECONDS = 5.0
_NODE_SECONDS = 10.0
"""Time that the master may wait for a node, or for the next step of a join."""
_LARGEST_KEY = 16_384


class JoinClient:
    """Calls that a joining machine makes, without a user.

    ``master``: its public key, which was checked. ``profile``: says where the API is; its user is ignored.
    """

    def __init__(self, profile: Profile, master: RSAKey, *, wall: Callable[[], float] = clock.wall) -> None:
        self.url = profile.url
        self.profile = profile
        self.master: Jwk = dict(master.as_dict(private=False))
        self._transport = _UnsignedTransport(replace(profile, user="", key_id=""), master, wall)

    def close(self) -> None:
        self._transport.close()

    def join(self, body: PlainData) -> JoinedView:
        """Join, or check whether joining is possible (``master/api/joins.py``). May repeat a ``join_id``."""
        return JOINED.convert(self._transport.call("POST", "/v1/join", body, wait=_NODE_SECONDS))

    def log_in(self, body: PlainData) -> OwnKeyView:
        """Register a user's key with an invitation. May be repeated with the same key."""
        return OWN_KEY.convert(self._transport.call("POST", "/v1/login", body))

    def wait(self, node: str, token: str, seen: str | None, timeout: float) -> NodeWaited:
        """Return the node as soon as its mark differs from ``seen``, or time is up."""
        query = {"timeout": f"{timeout:.3f}", "seen": seen}
        return NODE_WAITED.convert(self._ask("GET", node, query, {"token": token}, wait=timeout))

    def reach(self, node: str, token: str) -> NodeReached:
        """Return why the master cannot reach the node's API now, if it cannot."""
        return NODE_REACHED.convert(self._ask("GET", node, {}, {"token": token}, "/reach", _NODE_SECONDS))

    def certificate(self, node: str, token: str, request: str) -> CertificateView:
        """Return the certificate for a certificate request of the node."""
        target = f"/v1/join/{quote(node, safe='')}/certificate"
        return CERTIFICATE.convert(self._transport.call("POST", target, {"token": token, "request": request}))

    def leave(self, node: str, token: str, *, force: bool = False) -> NodeWaited:
        """Remove the node from the cluster."""
        return NODE_WAITED.convert(self._ask("DELETE", node, {"timeout": "0"}, {"token": token, "force": force}))

    def _ask(
        self,
        method: str,
        node: str,
        query: Mapping[str, str | None],
        body: PlainData,
        more: str = "",
        wait: float = 0.0,
    ) -> object:
        target = with_query(f"/v1/join/{quote(node, safe='')}{more}", query)
        return self._transport.call(method, target, body, wait=wait)


def open_join_client(
    invitation: Invitation,
    first: str | None = None,
    *,
    way: PodWay | None = None,
    wall: Callable[[], float] = clock.wall,
) -> JoinClient:
    """Connect to the first of the invitation's URLs at which the right master answers. ``first``: a URL to try before.
    ``way``: to the pod where the URLs are.

    Raises UnreachableError, NotAllowedError (another key).
    """
    failure: GrassError | None = None
    for url in dict.fromkeys([*([first] if first else []), *invitation.urls]):
        try:
            profile = Profile(invitation.cluster, url, "", "", tunnel_of(way) if way else None)
            return JoinClient(profile, _key_at_end(profile, invitation.key), wall=wall)
        except (UnreachableError, NotAllowedError) as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _key_at_end(profile: Profile, thumbprint: str) -> RSAKey:
    """Return the public key of the master to which a profile leads."""
    if profile.tunnel is None:
        return master_key(profile.url, thumbprint)
    with closing(PodTunnel(profile)) as tunnel:
        return master_key(profile.url, thumbprint, tunnel.open)


def master_key(url: str, thumbprint: str, open_socket: OpenSocket | None = None) -> RSAKey:
    """Return the public key of the master at ``url``. Raises NotAllowedError if it is another master."""
    try:
        key: RSAKey = RSAKey.import_key(json.loads(_fetch(url, "/v1/key", open_socket)))
        found = key.thumbprint()
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise UnreachableError(f"{url}: the server there is not a master of Grass") from error
    if found != thumbprint:
        raise NotAllowedError(
            f"{url}: the join token is for another master (this master's key is {found}, "
            f"the token says {thumbprint}); it is another cluster, or somebody intercepts the connection"
        )
    return key


def ask_notice(url: str) -> str:
    """Return the notice that a master, or one that was replaced, has at ``url``. It is not proven yet. Raises
    UnreachableError."""
    return _fetch(url, "/v1/notice", None, (200, MOVED)).decode("ascii", "replace")


def _fetch(url: str, path: str, open_socket: OpenSocket | None, accepted: Sequence[int] = (200,)) -> bytes:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_KEY_SECONDS)
    if open_socket is not None:
        connection.sock = open_socket(address.hostname or "", address.port or 0)
        connection.sock.settimeout(_KEY_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read(_LARGEST_KEY)
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(
            f"{url}: no master answers ({error or type(error).__name__}); check that it is up, and that its firewall "
            "lets this machine connect"
        ) from error
    finally:
        connection.close()
    if response.status not in accepted:
        raise UnreachableError(f"{url}: the server there is not a master of Grass (HTTP status {response.status})")
    return text


class _UnsignedTransport(Transport):
    """Encrypts without a signature. Retries, replies and clock correction are those of every client."""

    def __init__(self, profile: Profile, master: RSAKey, wall: Callable[[], float]) -> None:
        super().__init__(ClientKeys(profile, Path()), wall=wall)
        self._master = master

    def _seal(self, method: str, target: str, body: str | None, seconds: float) -> Sealed:
        new_id = request_id()
        reply = ReplyKey(new_id, os.urandom(KEY_BYTES))
        return Sealed(seal_unsigned_request(self._claims(method, target, new_id), body, reply, self._master), reply)

    def _follow(self, text: str) -> None:
        raise UnreachableError(self._text("is not the master any more; use a new token, or `grass node follow`"))

    def _refuse(self, status: int) -> NoReturn:
        if status == 401:
            raise NotAllowedError(self._text("refuses to open what this machine sends"))
        super()._refuse(status)
