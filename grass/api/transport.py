"""Sealed exchanges over HTTP: one request and its reply, or its stream of replies. Used by ``Client`` only.

Retries what can be repeated without harm: the cluster may be restarting. Every attempt is sealed anew, because a
request id is good for one request. Safe for use by several threads: each exchange has a connection of its own.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from grass import clock
from grass.api.exchange import Connection, Reply
from grass.entropy import request_id
from grass.errors import (
    ConflictError,
    GrassError,
    InputError,
    ManifestError,
    MasterAwayError,
    NodeUnreachableError,
    NotAllowedError,
    NotFoundError,
    Problem,
    StoreFullError,
    StoreRefusesError,
    UnreachableError,
    WaitTimeoutError,
)

if TYPE_CHECKING:
    from grass.api.keyring import ClientKeys
    from grass.api.sealing import Claims, ReplyKey
    from grass.api.tunnel import Tunnel

TIMEOUT = 5.0
"""Seconds within which a cluster answers, or counts as away. Until then it is asked again."""
_UPLOAD = 128 * 1024
"""Bytes of a request that are sent and read within a second, at the slowest."""
_SHORTEST = 0.2
"""Seconds that an attempt is given however little is left."""
JOSE = "application/jose"

Body = Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None
"""A function is given the number of the attempt, from 0."""

_ERRORS: dict[str, type[GrassError]] = {
    error.code: error
    for error in (
        InputError,
        ConflictError,
        NotFoundError,
        NotAllowedError,
        UnreachableError,
        NodeUnreachableError,
        StoreRefusesError,
        StoreFullError,
        MasterAwayError,
        WaitTimeoutError,
    )
}


class StreamCutError(UnreachableError):
    """A stream that broke off before its last object. What was read is good; ask for the rest."""


class _Stale(Exception):
    def __init__(self, server_time: float) -> None:
        self.server_time = server_time


class Transport:
    """``timeout``: seconds; see ``TIMEOUT``."""

    def __init__(self, keys: ClientKeys, *, wall: Callable[[], float] = clock.wall, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._keys = keys
        self._wall = wall
        self._offset = 0.0
        """What to add to our clock to get the server's, once it said that they differ."""
        address = urlsplit(keys.profile.url)
        if address.scheme != "http" or not address.hostname or not address.port:
            raise InputError(f"cluster {keys.profile.cluster}: its URL {keys.profile.url!r} is not http://HOST:PORT")
        self._address = (address.hostname, address.port)
        self._tunnel = _tunnel(keys) if keys.profile.tunnel else None
        self._idle: deque[Connection] = deque()

    def call(self, method: str, target: str, body: Body = None, *, wait: float = 0.0) -> Any:
        """The reply's body. Raises the error that the server answered, or UnreachableError.

        ``wait``: seconds for which the server may hold the request before it answers.
        """
        return self._patiently(lambda attempt, left: self._once(method, target, body, attempt, left), wait)

    def stream(
        self, method: str, target: str, body: Body = None, *, silence: float = 0.0
    ) -> Generator[dict[str, Any], None, None]:
        """The objects of a stream, without the empty ones. Raises StreamCutError when it breaks off.

        ``silence``: seconds for which the server may say nothing between two of them, if it is more than the timeout.
        """
        connection, reply, first = self._patiently(
            lambda attempt, left: self._begin(method, target, body, attempt, left), 0.0
        )
        first.wait_at_most(max(silence, self._timeout))
        return _pieces(connection, reply, first, self._release)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        if self._tunnel is not None:
            self._tunnel.close()

    def _patiently(self, attempt_once: Callable[[int, float], Any], wait: float) -> Any:
        """``attempt_once`` is given the number of the attempt and the seconds that are left for it.

        A server that went away while a request waited there gets the whole time to come back; a silent one does not.
        """
        begun = clock.steady()
        until, pause, corrected = begun + self._timeout, 0.01, False
        attempt = 0
        while True:
            try:
                return attempt_once(attempt, max(_SHORTEST, until - clock.steady()) + wait)
            except MasterAwayError:
                raise  # the API has waited for the master-agent
            except _Stale as stale:
                if corrected:
                    raise NotAllowedError(
                        self._text("calls this request too old or too new, again and again")
                    ) from None
                self._offset, corrected = stale.server_time - self._wall(), True
            except (UnreachableError, OSError) as error:
                now = clock.steady()
                if wait and attempt == 0 and not isinstance(error, (TimeoutError, NodeUnreachableError)):
                    until = now + self._timeout
                if now >= until:
                    if isinstance(error, (NodeUnreachableError, StoreRefusesError)):
                        raise  # the cluster answered, and said all there is to say
                    said = str(error) or type(error).__name__
                    raise UnreachableError(self._text(f"does not answer ({said}); `grass status` says more")) from error
                clock.sleep(pause)
                pause = min(0.3, pause * 2)
            attempt += 1

    def _once(self, method: str, target: str, body: Body, attempt: int, seconds: float) -> Any:
        connection, response, reply = self._send(method, target, body, attempt, seconds)
        try:
            text = response.read()
        except BaseException:
            connection.close()
            raise
        self._release(connection, response)
        return self._open(response, text, reply)

    def _begin(self, method: str, target: str, body: Body, attempt: int, seconds: float) -> Any:
        connection, response, reply = self._send(method, target, body, attempt, seconds)
        try:
            if response.status == 200 and response.content_type == JOSE:
                return connection, reply, response
            text = response.read()
        except BaseException:
            connection.close()
            raise
        self._release(connection, response)
        self._open(response, text, reply)
        raise UnreachableError(self._text("answers a stream with something else"))

    def _send(
        self, method: str, target: str, body: Body, attempt: int, seconds: float
    ) -> tuple[Connection, Reply, ReplyKey]:
        from grass.api import sealing

        new_id = request_id()
        reply = sealing.new_reply_key(new_id, os.urandom(sealing.KEY_BYTES))
        token = self._seal(self._claims(method, target, new_id), _text_of(body, attempt), reply)
        if len(token) > sealing.MAX_REQUEST:
            raise InputError("the request is larger than 2 MiB")
        connection = self._idle.pop() if self._idle else self._connection()
        headers = {"Content-Type": JOSE} if method == "POST" else {"Authorization": f"JOSE {token}"}
        content = token.encode() if method == "POST" else None
        try:
            seconds += len(token) / _UPLOAD
            return connection, connection.request(method, target, headers, content, timeout=seconds), reply
        except BaseException:
            connection.close()
            raise

    def _claims(self, method: str, target: str, new_id: str) -> Claims:
        from grass.api.sealing import Claims

        profile = self._keys.profile
        return Claims(profile.user, profile.key_id, method, target, new_id, self._wall() + self._offset)

    def _connection(self) -> Connection:
        return Connection(self._address, self._tunnel.open if self._tunnel else None)

    def _seal(self, claims: Claims, body: str | None, reply: ReplyKey) -> str:
        from grass.api import sealing

        return sealing.seal_request(claims, body, reply, self._keys.private, self._keys.master)

    def _release(self, connection: Connection, response: Reply) -> None:
        if response.closes:
            connection.close()
        else:
            self._idle.append(connection)

    def _open(self, response: Reply, text: bytes, reply: ReplyKey) -> Any:
        if response.content_type != JOSE:
            self._refuse(response.status)
        content = json.loads(_unsealed(reply, text, response.status)[0])
        if response.status < 300:
            return content
        error = content["error"]
        if "now" in error:
            raise _Stale(float(error["now"]))
        raise error_of(error)

    def _refuse(self, status: int) -> None:
        profile = self._keys.profile
        if status == 401:
            who = f"user {profile.user} with the key in client/user.pem"
            raise NotAllowedError(self._text(f"refuses {who}: not registered there, or the cluster was made anew"))
        if status == 413:
            raise InputError("the request is larger than the server takes")
        raise UnreachableError(self._text(f"is not what answers there (HTTP status {status})"))

    def _text(self, what: str) -> str:
        return f"cluster {self._keys.profile.cluster} at {self._keys.profile.url} {what}"


def _text_of(body: Body, attempt: int) -> str | None:
    content = body(attempt) if callable(body) else body
    try:
        return None if content is None else json.dumps(content, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"this cannot be sent as JSON: {error}") from error


def _tunnel(keys: ClientKeys) -> Tunnel:
    from grass.api.tunnel import Tunnel

    return Tunnel(keys.profile)


def _unsealed(reply: ReplyKey, text: bytes, status: int, number: int = 0) -> tuple[bytes, bool]:
    from grass.api.sealing import EnvelopeError

    try:
        return reply.open(text, status, number)
    except EnvelopeError as error:
        raise UnreachableError("what answers there is not this cluster") from error


def _pieces(
    connection: Connection,
    reply: ReplyKey,
    response: Reply,
    release: Callable[[Connection, Reply], None],
) -> Generator[dict[str, Any], None, None]:
    number, last = 0, False
    try:
        while not last:
            line = response.readline()
            if not line.endswith(b"\n"):
                raise StreamCutError("the stream broke off")
            text, last = _unsealed(reply, line[:-1], 200, number)
            number += 1
            piece = json.loads(text)
            if "error" in piece:
                raise error_of(piece["error"])
            if piece:
                yield piece
    except OSError as error:
        raise StreamCutError(f"the stream broke off: {error}") from error
    finally:
        if last:
            release(connection, response)
        else:
            connection.close()


def error_of(wire: Mapping[str, Any]) -> GrassError:
    """The exception that the server raised."""
    if wire["code"] == ManifestError.code:
        return ManifestError([Problem(problem["path"], problem["message"]) for problem in wire["problems"]])
    return _ERRORS.get(wire["code"], GrassError)(wire["message"])


def with_query(path: str, query: Mapping[str, str | bool | float | None]) -> str:
    given = {name: _text(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _text(value: str | bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
