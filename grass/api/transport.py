"""Sealed HTTP transport: one request and its reply, or its stream of replies. Used by ``Client``.

It retries, because the cluster may be restarting; all requests can be repeated without harm. Every attempt is sealed
again, because a request id is valid for one request. Safe for several threads: each exchange has its own connection.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlencode, urlsplit

from grass.api.cluster_version import OWN, ClusterVersion
from grass.api.envelope import KEY_BYTES, EnvelopeError
from grass.api.error_reply import error_of
from grass.api.http_connection import Connection, Reply
from grass.api.keyring import exchange, load_number, load_other, note_other_url, save_number
from grass.api.notice import MOVED
from grass.api.patience import TIMEOUT, Patience
from grass.api.plain import plain_scalar
from grass.api.sealing import MAX_REQUEST, ReplyKey, Session, SessionCall, decode_key
from grass.api.session_file import forget_session, load_session, save_session
from grass.errors import (
    CertificateError,
    ChangeInterrupted,
    GrassError,
    InputError,
    MasterAwayError,
    NodeUnreachableError,
    NotAllowedError,
    StoreRefusesError,
    TooManyCallsError,
    UndecodableError,
    UnreachableError,
)
from grass.system import clock
from grass.system.entropy import request_id
from grass.wire.version import HEADER, OLDEST_CLIENT, PROTOCOL, Speaks

if TYPE_CHECKING:
    from grass.api.keyring import ClientKeys, Profile
    from grass.api.pod_tunnel import PodTunnel
    from grass.api.signing import Claims
    from grass.api.tunnel import Tunnel
    from grass.wire.codec import Form
    from grass.wire.notice import Notice

_MOST_OF_A_LINE = 8000
"""Characters of a request without content. The server accepts lines of 8190."""
_UPLOAD = 128 * 1024
"""Bytes per second of the slowest supported upload."""
_SILENT = 1.0
"""Seconds that a stream waits for a server before it says so."""
JOSE = "application/jose"
_MOST_MOVES = 4
"""Old masters that one call follows, one after the other."""
_NO_SUCH_CALL = (404, 405)
_COMPLETE = (NodeUnreachableError, StoreRefusesError, TooManyCallsError)
"""Answers of a cluster that say everything."""

Body = Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None  # Any: JSON, of types of grass.wire.calls
"""Body of a request; or a function of the number of the attempt, from 0."""

PlainData = dict[str, Any]  # Any: plain data for users' programs; the types are in grass.wire.views
_T = TypeVar("_T")
_Failure = tuple[Exception, UnreachableError | None]
"""The last error of an address, and what the server there had answered before."""


class StreamCutError(UnreachableError):
    """A stream broke off before its last object. The objects read so far are valid; ask for the rest."""


class _SessionEndedError(Exception):
    """The server does not know the session, or its key was revoked."""

    def __init__(self, session: Session) -> None:
        self.session = session


class _MovedError(Exception):
    """The server is that of an old master. ``notice``: of the new one, not proven yet."""

    def __init__(self, notice: str) -> None:
        self.notice = notice


class _StaleError(Exception):
    """The server refused the request because the two clocks differ."""

    def __init__(self, server_time: float) -> None:
        self.server_time = server_time


@dataclass(frozen=True)
class Sealed:
    """A sealed request, the key of its replies, and its session."""

    token: str
    reply: ReplyKey
    session: Session | None = None


@dataclass(frozen=True)
class _Sent:
    """A request and its reply, whose head was read."""

    connection: Connection
    response: Reply
    sealed: Sealed


class Transport:
    """Exchanges with one cluster. ``timeout``: seconds; see ``TIMEOUT``."""

    def __init__(self, keys: ClientKeys, *, wall: Callable[[], float] = clock.wall, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._keys = keys
        self._profile = keys.profile
        self._wall = wall
        self._offset = 0.0
        """Seconds to add to our clock to get the server's, once the server reported a difference."""
        self._address = _address(self._profile)
        self._tunnel = _tunnel(self._profile) if self._profile.tunnel else None
        self._idle: deque[Connection] = deque()
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._looked = False
        self._closed = False
        self._answered = False
        """Whether the server has answered any request of this client."""
        self._version = ClusterVersion(self._ask_version)
        self._first: tuple[Profile, Tunnel | PodTunnel | None] | None = None
        """Where the API was not, while the standby is tried."""
        self._found_other = False
        self._notice: Notice | None = None
        """What led to the address that is tried."""
        self.on_away: Callable[[str], object] | None = None
        """Called with a message once per stream that waits for a server to come back, when the cluster has moved, and
        when an older cluster does less than it was asked."""

    def call(self, method: str, target: str, body: Body = None, *, wait: float = 0.0) -> Any:
        """Return the reply's body. Raises the server's error, or UnreachableError.

        Raises ChangeInterrupted if Ctrl-C came when a request that changes something was on its way.
        ``wait``: seconds for which the server may hold the request before it answers.
        """
        try:
            return self._call(method, target, body, wait)
        except InputError as error:
            if (less := self._without_the_new(body, error)) is None:
                raise
        return self._call(method, target, less, wait)

    def _without_the_new(self, body: Body, error: InputError) -> Body:
        """Return a refused body without what an older cluster can do without, and say what it does not do. None: that
        was not the reason."""
        if type(error) is not InputError or body is None or callable(body):
            return None
        left_out = self._version.left_out(body)
        if not left_out:
            return None
        if self.on_away is not None:
            self.on_away(self._text(f"runs an older Grass ({self._version.speaks()}): {', '.join(left_out.values())}"))
        return {name: body[name] for name in body if name not in left_out}

    def read(self, form: Form[_T], method: str, target: str, body: Body = None, *, wait: float = 0.0) -> _T:
        """Do as ``call``, and return the reply as its type. Raises UndecodableError for one of another version."""
        reply = self.call(method, target, body, wait=wait)
        try:
            return form.convert(reply)
        except UndecodableError as error:
            raise self._version.unread(error) from error

    def _call(self, method: str, target: str, body: Body, wait: float) -> Any:
        changes = method != "GET"
        patience = Patience(self._timeout, wait, resumed=False)
        try:
            return self._patiently(lambda: self._answer(self._send(method, target, body, patience)), patience, changes)
        except KeyboardInterrupt as interrupt:
            if changes and patience.sent:
                raise ChangeInterrupted("interrupted; the requested change may still be made") from interrupt
            raise

    def stream(
        self, method: str, target: str, body: Body = None, *, silence: float = 0.0, resumed: bool = False
    ) -> Generator[PlainData, None, None]:
        """Yield the objects of a stream, without empty ones. Raises StreamCutError when it breaks off.

        ``silence``: seconds that the server may take between two objects, if longer than the timeout.
        ``resumed``: this is the rest of a stream that broke off. A server that has answered this client before, and
        went away now, gets as long to restart.
        """

        resumed = resumed or self._answered
        try:
            sent = self._begun(method, target, body, resumed)
        except InputError as error:
            if (less := self._without_the_new(body, error)) is None:
                raise
            sent = self._begun(method, target, less, resumed)
        sent.response.wait_at_most(max(silence, self._timeout))
        return _pieces(sent, self._release)

    def _begun(self, method: str, target: str, body: Body, resumed: bool) -> _Sent:
        patience = Patience(self._timeout, 0.0, resumed)
        return self._patiently(
            lambda: self._begin(self._send(method, target, body, patience)), patience, resumed=resumed
        )

    def close(self) -> None:
        """Close all connections. Those that another thread uses are closed when their exchange ends."""
        self._closed = True
        self._close_idle()
        if self._tunnel is not None:
            self._tunnel.close()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _patiently(
        self, attempt_once: Callable[[], _T], patience: Patience, changes: bool = False, resumed: bool = False
    ) -> _T:
        reported = False
        first: _Failure | None = None
        while True:
            try:
                return self._noting_where(lambda: self._following(attempt_once, patience))
            except (MasterAwayError, CertificateError):
                raise  # the API itself has waited for the master-agent; a missing file does not come back by itself
            except _SessionEndedError as ended:
                self._forget_session(ended.session)
                if not patience.may_renew():  # it was opened just now and is refused again
                    self._refuse(401)
            except _StaleError as stale:
                if not patience.may_correct():
                    raise NotAllowedError(
                        self._text("refuses this request as too old or too new, even after a correction of the clock")
                    ) from None
                self._offset = stale.server_time - self._wall()
            except (UnreachableError, OSError) as error:
                if not patience.goes_on(error):
                    first = self._elsewhere(first, error, patience, changes)
                if resumed and not reported and self.on_away is not None and patience.waited > _SILENT:
                    reported = True
                    self.on_away(self._text("does not answer; waiting for it to come back"))

    def _elsewhere(self, first: _Failure | None, error: Exception, patience: Patience, changes: bool) -> _Failure:
        """Go on at the standby, and return what the first address answered. Raises that if the cluster lives there, or
        is at none of both."""
        lives = first is None and isinstance(patience.answer, _COMPLETE)
        if lives or not self._try_other(patience):
            self._give_up(*(first or (error, patience.answer)), changes and patience.arrived)
        return error, patience.answer

    def _try_other(self, patience: Patience) -> bool:
        """Go on at the standby, whose address is known, once. Return whether there is one."""
        if self._first is not None:
            self._go_to(*self._first)  # it is not there either: the error is that of the first
            self._first = None
            return False
        other = load_other(self._keys.folder)
        if other is None:
            return False
        self._first = (self._profile, self._tunnel)
        self._go_to(other, _tunnel(other) if other.tunnel else None)
        self._found_other = True
        patience.again()
        return True

    def _following(self, attempt_once: Callable[[], _T], patience: Patience) -> _T:
        """Make an attempt, and another one where an old master says that the cluster is. Raises UnreachableError."""
        for _ in range(_MOST_MOVES):
            try:
                return attempt_once()
            except _MovedError as moved:
                first = self._notice is None
                self._follow(moved.notice)
                if first:
                    patience.again()
        raise UnreachableError("one old master leads to the next")

    def _follow(self, text: str) -> None:
        """Go where a notice leads, if the cluster's key proves it and it is not older than what was followed before."""
        from grass.api.notice import open_notice

        folder, profile = self._keys.folder, self._profile
        try:
            notice = open_notice(text, self._keys.master().thumbprint(), profile.cluster, load_number(folder))
        except GrassError as error:
            raise UnreachableError(f"another server answers instead of this cluster: {error}") from error
        url = notice.urls[0]
        if profile.tunnel is not None:
            raise UnreachableError(f"it has moved to {url}, and only SSH leads there: log in again")
        first = self._first or (profile, self._tunnel)
        self._go_to(replace(profile, url=url), None)
        self._first, self._found_other, self._notice = first, True, notice

    def _go_to(self, profile: Profile, tunnel: Tunnel | PodTunnel | None) -> None:
        self._close_idle()
        self._profile, self._address, self._tunnel = profile, _address(profile), tunnel
        self._found_other, self._notice = False, None

    def _noting_where(self, attempt_once: Callable[[], _T]) -> _T:
        """Make an attempt. If the standby's address answered, the API is looked for there first from now on."""
        answer = attempt_once()
        if self._found_other:
            with suppress(OSError):
                exchange(self._keys.folder, self._profile)
                if self._notice is not None:
                    save_number(self._keys.folder, self._notice.number)
            if self._notice is not None and self.on_away is not None:
                self.on_away(f"cluster {self._profile.cluster} has moved to {self._profile.url}; noted for later calls")
            self._first, self._found_other, self._notice = None, False, None
        return answer

    def _ask_version(self) -> Speaks | None:
        """Return what the cluster speaks. None: it does not answer, or another server does."""
        try:
            sent = self._send("GET", "/v1/status", None, Patience(self._timeout, 0.0, resumed=False))
            if sent.response.status == 200:
                view = self._content(sent)
                return Speaks(view["protocol"], view.get("revision", 0), view["version"])
            sent.connection.close()
        except (GrassError, OSError, LookupError, TypeError):
            pass
        return None

    def _give_up(self, error: Exception, answer: UnreachableError | None, may_change: bool) -> NoReturn:
        """Raise the last error. ``answer``: what the server said, which is the error or came before a silence."""
        open_end = "; the requested change may still be made" if may_change else ""
        if isinstance(answer, _COMPLETE):
            if answer is error:
                raise answer
            raise type(answer)(f"{answer}{open_end}") from error
        said = str(answer or error) or type(error).__name__
        advice = "see `grass status`"
        if isinstance(error, ConnectionRefusedError) and urlsplit(self._profile.url).hostname in ("127.0.0.1", "::1"):
            advice += f"; `grass start {self._profile.cluster}` starts a cluster of this machine that was stopped"
        raise UnreachableError(self._text(f"does not answer ({said}){open_end}; {advice}")) from error

    def _begin(self, sent: _Sent) -> _Sent:
        if sent.response.status == 200 and sent.response.content_type == JOSE:
            return sent
        self._answer(sent)
        raise UnreachableError(self._text("does not answer with a stream"))

    def _send(self, method: str, target: str, body: Body, patience: Patience) -> _Sent:
        sealed = self._seal(method, target, _text_of(body, patience.attempt), patience.left)
        patience.sent = True
        return self._exchange(method, target, sealed, patience.left)

    def _exchange(self, method: str, target: str, sealed: Sealed, seconds: float) -> _Sent:
        size = len(sealed.token)
        if size > MAX_REQUEST:
            raise InputError("the request is larger than 2 MiB")
        if method != "POST" and size > _MOST_OF_A_LINE:  # the token is a header, and longer than the target in it
            raise InputError("the request is too long: it has a name, a tag or a pattern of many characters")
        connection = self._free_connection()
        sent = ("Content-Type", JOSE) if method == "POST" else ("Authorization", f"JOSE {sealed.token}")
        headers = dict([sent, (HEADER, OWN.header)])
        content = sealed.token.encode() if method == "POST" else None
        try:
            response = connection.request(method, target, headers, content, timeout=seconds + size / _UPLOAD)
        except BaseException:
            connection.close()
            raise
        self._answered = True
        return _Sent(connection, response, sealed)

    def _free_connection(self) -> Connection:
        """Return an idle connection or a new one. Another thread may take the last idle one at any moment."""
        with suppress(IndexError):
            return self._idle.pop()
        return Connection(self._address, self._tunnel.open if self._tunnel else None)

    def _seal(self, method: str, target: str, body: str | None, seconds: float) -> Sealed:
        """Seal a request. ``seconds``: the limit for opening a session."""
        session = self._session or self._open_session(seconds)
        new_id = request_id()
        token = session.seal(SessionCall(method, target, new_id, body))
        return Sealed(token, session.reply_key(new_id), session)

    def _open_session(self, seconds: float) -> Session:
        """Return the session in the file or open a new one, once for all threads."""
        with self._lock:
            if not self._looked:
                self._looked = True
                self._session = load_session(self._keys.folder, self._profile.key_id)
            if self._session is None:
                self._session = self._sign_for_session(seconds)
                save_session(self._keys.folder, self._profile.key_id, self._session)
            return self._session

    def _sign_for_session(self, seconds: float) -> Session:
        """Open a session in the highest protocol that both speak: an older cluster knows only its own."""
        try:
            return self._sign(seconds, PROTOCOL)
        except InputError:
            for protocol in range(PROTOCOL - 1, OLDEST_CLIENT - 1, -1):
                with suppress(InputError):
                    return self._sign(seconds, protocol)
            raise

    def _sign(self, seconds: float, protocol: int) -> Session:
        from grass.api.signing import seal_request

        new_id, path = request_id(), "/v1/session"
        reply = ReplyKey(new_id, os.urandom(KEY_BYTES))
        body = json.dumps({"protocol": protocol, "version": OWN.version})
        token = seal_request(self._claims("POST", path, new_id), body, reply, self._keys.private(), self._keys.master())
        granted = self._content(self._exchange("POST", path, Sealed(token, reply), seconds))
        if self._profile.tunnel is None and "standby" in granted:
            note_other_url(self._keys.folder, granted["standby"])
        return Session(granted["session"], decode_key(granted["key"]))

    def _claims(self, method: str, target: str, new_id: str) -> Claims:
        from grass.api.signing import Claims

        profile = self._profile
        return Claims(profile.user, profile.key_id, method, target, new_id, self._wall() + self._offset)

    def _forget_session(self, ended: Session) -> None:
        with self._lock:
            if self._session is ended:
                self._session = None
                forget_session(self._keys.folder, ended)

    def _answer(self, sent: _Sent) -> Any:
        """Do as ``_content``. An error says if it may come of the versions."""
        try:
            return self._content(sent)
        except InputError as error:
            raise self._version.explained(error) from error

    def _content(self, sent: _Sent) -> Any:
        """Return the reply's content. Raises the error in it."""
        response = sent.response
        try:
            text = response.read()
        except BaseException:
            sent.connection.close()
            raise
        self._release(sent.connection, response)
        if response.content_type != JOSE:
            if response.status == MOVED:
                raise _MovedError(text.decode("ascii", "replace"))
            if response.status == 401 and sent.sealed.session is not None:
                raise _SessionEndedError(sent.sealed.session)
            if response.status in _NO_SUCH_CALL and sent.sealed.session is not None and self._version.speaks():
                raise InputError(self._text("does not know this call"))
            self._refuse(response.status)
        content = json.loads(_unsealed(sent.sealed.reply, text, response.status)[0])
        if response.status < 300:
            return content
        error = content["error"]
        self._version.note(error)
        if "now" in error:
            raise _StaleError(float(error["now"]))
        raise error_of(error)

    def _release(self, connection: Connection, response: Reply) -> None:
        if response.closes:
            connection.close()
        else:
            self._idle.append(connection)
            if self._closed:
                self._close_idle()

    def _refuse(self, status: int) -> NoReturn:
        profile = self._profile
        if status == 401:
            who = f"user {profile.user} with the key in client/user.pem"
            raise NotAllowedError(
                self._text(f"refuses {who}: the user is not registered, or the cluster was recreated")
            )
        if status == 503:
            raise UnreachableError("it is busy, or its store does not answer")
        if status == 413:
            raise InputError("the request is larger than the server accepts")
        raise UnreachableError(self._text(f"does not answer; another server does (HTTP status {status})"))

    def _text(self, what: str) -> str:
        return f"cluster {self._profile.cluster} at {self._profile.url} {what}"


def _text_of(body: Body, attempt: int) -> str | None:
    asked = body(attempt) if callable(body) else body
    content = asked and {name: value for name, value in asked.items() if value is not None}  # an older server
    try:
        text = None if content is None else json.dumps(content, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise InputError(f"the request cannot be encoded as JSON: {error}") from error
    if text is not None and "\\ud" in text:
        from grass.api.encodable import check_encodable  # imported here: nearly all requests are UTF-8

        check_encodable(content, text)
    return text


def _plain(value: object) -> object:
    """Return a number of numpy or a path as JSON has it."""
    found = plain_scalar(value)
    if found is value:
        raise TypeError(f"{type(value).__name__} is neither a number nor a path")
    return found


def _address(profile: Profile) -> tuple[str, int]:
    address = urlsplit(profile.url)
    if address.scheme != "http" or not address.hostname or not address.port:
        raise InputError(f"cluster {profile.cluster}: its URL {profile.url!r} is not http://HOST:PORT")
    return address.hostname, address.port


def _tunnel(profile: Profile) -> Tunnel | PodTunnel:
    if "pod" in (profile.tunnel or {}):
        from grass.api.pod_tunnel import PodTunnel

        return PodTunnel(profile)
    from grass.api.tunnel import Tunnel

    return Tunnel(profile)


def _unsealed(reply: ReplyKey, text: bytes, status: int, number: int = 0) -> tuple[bytes, bool]:
    try:
        return reply.open(text, status, number)
    except EnvelopeError as error:
        raise UnreachableError("another server answers instead of this cluster") from error


def _pieces(sent: _Sent, release: Callable[[Connection, Reply], None]) -> Generator[PlainData, None, None]:
    connection, response, reply = sent.connection, sent.response, sent.sealed.reply
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


def with_query(path: str, query: Mapping[str, str | bool | float | None]) -> str:
    given = {name: _text(value) for name, value in query.items() if value is not None}
    try:
        return f"{path}?{urlencode(given)}" if given else path
    except UnicodeEncodeError:
        from grass.api.encodable import check_encodable

        check_encodable(given, json.dumps(given))
        raise


def _text(value: str | bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
