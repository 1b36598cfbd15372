"""One API call between HTTP and its handler: decrypt, authorise, parse, call the handler, encrypt the reply.

Used by ``registry`` for every route. It must know nothing about jobs or nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, TypeVar

import msgspec
from flask import Response
from msgspec import structs
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Request

import grass
from grass.api.envelope import EnvelopeError
from grass.api.keyring import Role
from grass.api.sealing import MAX_REQUEST, ReplyKey
from grass.config import ClusterConfig
from grass.errors import (
    GrassError,
    InputError,
    ManifestError,
    NotAllowedError,
    ReplayedError,
    StoreFullError,
    UndecodableError,
    UnreachableError,
)
from grass.model.event_kind import EventKind
from grass.store.api_store import ApiStore
from grass.store.job_index import EVERYBODY
from grass.store.redis_link import RefusedByStoreError
from grass.wire import calls
from grass.wire.codec import Form, packed
from grass.wire.error_views import ErrorBody, ErrorView, ProblemView
from grass.wire.tickets import AskedTicket
from grass.wire.version import HEADER, spoken
from grass.wire.views import KeepAlive
from master.api.authentication import Authenticator, Caller, StaleRequestError
from master.api.feed import Feed
from master.api.large_logs import LargeLogs, advice
from master.api.latencies import Latencies
from master.api.notices import Notices
from master.api.pace import Pace
from master.api.query import Query, parse_query
from master.api.queue_desk import Desk
from master.api.route import Access, Route
from master.api.turns import Turns, WaitingSlots

log = logging.getLogger("master.api")

JOSE = "application/jose"
REFUSED = b"the request could not be opened\n"
"""All that an unauthenticated client learns."""


@dataclass(frozen=True)
class WaitLimits:
    """Limits of waiting requests. Tests use smaller ones; every cluster uses these."""

    waiting: int = 48
    """Requests that may wait or follow at once. The server has 64 threads."""
    waiting_of_user: int = 24
    """Those of one user. With ``answered_of_user``, a quarter of the threads is left for others."""
    answered_of_user: int = 24
    """Other requests of one user that are answered at once."""
    poll: float = 1.0
    """Seconds that one read of the store waits for news, which is also the longest time that closing takes."""
    preview: float = 4.0
    """Seconds to wait for the master-agent's answer to `grass job plan`: less than a client waits."""
    log_late: float = 5.0
    """Seconds without new lines after which the log of an ended job counts as complete. The rest may be lost with a
    node."""
    log_piece: int = 512 * 1024
    """Characters in one piece of a complete log, approximately."""


@dataclass(frozen=True)
class Api:
    """What handlers work with."""

    config: ClusterConfig
    store: ApiStore
    authenticator: Authenticator
    feed: Feed
    waiting_slots: WaitingSlots
    turns: Turns
    pace: Pace
    latencies: Latencies
    large_logs: LargeLogs
    desk: Desk
    notices: Notices
    wall: Callable[[], float]
    waits: WaitLimits


_C = TypeVar("_C", bound=calls.Call)


@dataclass(frozen=True)
class Call:
    """An admitted request. ``user``: empty for an unsigned request."""

    api: Api
    user: str
    role: Role
    query: Query
    content: calls.Call | None
    caller: Caller
    address: str = ""
    """Address of the peer. Empty if unknown."""
    in_turn: bool = False
    """Whether the handler holds a turn of the user until it returns."""

    def log_event(
        self,
        kind: EventKind,
        message: str,
        *,
        user: str = "",
        job: str = "",
        run: str = "",
        task: str = "",
        node: str = "",
    ) -> None:
        """Record what the caller did, and from where. ``user``: who it was, if the request is unsigned.

        ``job``, ``run``: name and id of a job."""
        who = self.user or user
        self.api.store.log_event(kind, who, message, job=job, run=run, task=task, node=node, address=self.address)

    def ticket(self, ticket: AskedTicket) -> None:
        """File a ticket of the caller. The events that it causes say from where it came."""
        self.api.store.ticket(structs.replace(ticket, address=self.address))

    def check_admitted(self) -> None:
        """To be called while an answer waits. Raises NotAllowedError: the caller no longer has the rights of before."""
        if not self.api.authenticator.still_admits(self.caller):
            raise NotAllowedError(_NOT_ADMITTED)

    @contextmanager
    def waiting(self) -> Iterator[bool]:
        """Yield whether the request may wait. If not, answer with what is known now; the client asks again."""
        with self.api.waiting_slots.slot(self.user) as granted, self.outside() if granted else nullcontext():
            yield granted

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Give the user's turn back while a wait, or a call to a node, takes its time. Both are bounded elsewhere."""
        with self.api.turns.left(self.user) if self.in_turn else nullcontext():
            yield

    def read(self, shape: type[_C]) -> _C:
        """Return the body, which has the type that the route declares."""
        assert isinstance(self.content, shape)
        return self.content

    def sees(self, owner: str | None) -> bool:
        """Return whether the caller may see what ``owner`` owns: users see their own, viewers and admins see all."""
        return self.role is not Role.USER or owner == self.user

    def sees_values(self, owner: str) -> bool:
        """Return whether the caller may see the values of variables of a job of ``owner``: viewers may not."""
        return self.role is Role.ADMIN or owner == self.user

    @property
    def confined(self) -> str:
        """The user, if files of others in the share are closed to them; empty: they are not."""
        return self.user if self.role is Role.USER and not self.api.config.master.nodes_on_client else ""

    @property
    def scope(self) -> str:
        """Whose jobs the caller sees, as ``JobIndex`` names it."""
        return self.user if self.role is Role.USER else EVERYBODY

    def check_owner(self, owner: str, what: str) -> None:
        """Raise NotAllowedError unless the caller may see what ``owner`` owns."""
        if not self.sees(owner):
            raise NotAllowedError(f"{what}: belongs to {owner}; {self.user} may use only their own")

    def full(self, error: StoreFullError) -> StoreFullError:
        """Return the error with what to do: the largest logs of jobs that the caller may see."""
        sizes = dict(self.api.large_logs.jobs()[:_MEASURED])
        seen = {record.id for record in self.api.store.runs(list(sizes)) if self.sees(record.user)}
        return StoreFullError(f"{error}{advice([(job_id, size) for job_id, size in sizes.items() if job_id in seen])}")


@dataclass(frozen=True)
class Reply:
    """What a handler returns, if its HTTP status is not 200."""

    body: msgspec.Struct
    status: int = 200


Pieces = Generator[msgspec.Struct, None, None]
"""What a stream handler returns: one object per encrypted line. Closed when the client disconnects."""
PiecesToEnd = Generator[msgspec.Struct, None, msgspec.Struct]
"""As ``Pieces``, with the last object as its return value. Other streams end with an empty object."""
HEARTBEAT = 0.75
"""Seconds after which an idle stream sends an empty piece: each side notices when the other is gone, and what a
disabled user waits for ends within a second."""
_MEASURED = 100
"""Jobs with the largest logs. The message names those that the caller may see."""
_NOT_ADMITTED = "the user was disabled or removed, or its role or key changed"
_Stream = Generator[msgspec.Struct, None, msgspec.Struct | None]
Handler = Callable[..., Any]  # (call, **path parameters) → Struct, Reply or Pieces


def serve(api: Api, route: Route, handler: Handler, path: dict[str, str], request: Request) -> Response:
    """Answer one HTTP request. Used for every route of the table."""
    try:
        caller = _identify(api.authenticator, route, request)
    except RequestEntityTooLarge:
        return Response(REFUSED, 413, mimetype="text/plain")
    except EnvelopeError:
        return _refusal()
    reply_key = caller.reply
    try:
        api.authenticator.admit(caller, reads=route.reads, takes_id=route.takes_id)
        with api.turns.turn(caller.user.name) if caller.user else nullcontext():
            call = _call(api, route, caller, request)
            try:
                result = handler(call, **path)
            except StoreFullError as error:
                raise call.full(error) from error
            if route.stream:
                return _stream(_while_admitted(api.authenticator, caller, result), reply_key)
            reply = result if isinstance(result, Reply) else Reply(result)
            return _sealed(reply_key, reply.status, reply.body)
    except (EnvelopeError, ReplayedError):
        return _refusal()
    except RefusedByStoreError as error:  # this master was replaced: its clients try the other address that they know
        raise UnreachableError(str(error)) from error
    except StaleRequestError as error:
        return _sealed(
            reply_key, error.http_status, ErrorView(structs.replace(_error_body(error), now=api.authenticator.time))
        )
    except GrassError as error:
        return _sealed(reply_key, error.http_status, ErrorView(_error_body(error)))
    except Exception:
        # an internal error is logged completely, and answered encrypted
        log.exception("%s failed", route.operation)
        message = "internal error of the API server; see its log for details"
        return _sealed(reply_key, 500, ErrorView(ErrorBody("internal", message, ())))


def _identify(authenticator: Authenticator, route: Route, request: Request) -> Caller:
    """Authenticate the request. Raises EnvelopeError, RequestEntityTooLarge."""
    identify = {
        Access.SESSION: authenticator.identify,
        Access.SIGNED: authenticator.identify_signer,
        Access.UNSIGNED: authenticator.identify_unsigned,
    }[route.access]
    return identify(_token(route, request), request.method, _target(request))


def _call(api: Api, route: Route, caller: Caller, request: Request) -> Call:
    user = caller.user
    if user is not None and not route.admits(user.role):
        raise NotAllowedError(
            f"user {user.name}: not allowed; this needs role {route.role.value}, the user has role {user.role.value}"
        )
    return Call(
        api,
        user.name if user else "",
        user.role if user else Role.VIEWER,
        *_asked(route, caller, request),
        caller,
        request.remote_addr or "",
        in_turn=user is not None and not route.stream,
    )


def _asked(route: Route, caller: Caller, request: Request) -> tuple[Query, calls.Call | None]:
    """Return query and content. Raises InputError, which tells a client of before revision 1 what is spoken here."""
    try:
        return parse_query(route.query, request.args), _content(route, caller.body)
    except InputError as error:
        if HEADER in request.headers:
            raise
        here = spoken(grass.__version__)
        raise InputError(f"{error}; this client, which does not say its version, may be too old for {here}") from error


def _token(route: Route, request: Request) -> bytes:
    """Return the encrypted request: the body of a POST, otherwise the header `Authorization: JOSE …`."""
    if route.method == "POST":
        request.max_content_length = MAX_REQUEST
        return request.get_data(cache=False)
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.encode("latin-1") if scheme == "JOSE" else b""


def _target(request: Request) -> str:
    """Return the path with query exactly as it arrived."""
    return str(request.environ.get("RAW_URI") or request.full_path)


def _content(route: Route, text: str | None) -> calls.Call | None:
    if route.request is None:
        return None
    try:
        return _form(route.request).decode(text or "{}")
    except UndecodableError as error:
        where = f"{error.path}: " if error.path else ""
        raise InputError(f"request body: {where}{error.problem}") from error


@cache
def _form(shape: type[calls.Call]) -> Form[calls.Call]:
    return Form(shape)


def _sealed(key: ReplyKey, status: int, body: msgspec.Struct) -> Response:
    return Response(key.seal(status, packed(body)), status, mimetype=JOSE)


def _refusal() -> Response:
    return Response(REFUSED, 401, mimetype="text/plain")


def _while_admitted(authenticator: Authenticator, caller: Caller, pieces: _Stream) -> _Stream:
    """Pass a stream on while its user has the rights with which it began."""
    with closing(pieces):
        while True:
            piece, last = _next(pieces)
            if not authenticator.still_admits(caller):
                raise NotAllowedError(_NOT_ADMITTED)
            if last:
                return piece
            yield piece


def _stream(pieces: _Stream, key: ReplyKey) -> Response:
    """Answer with a stream. Its first piece is made before anything is sent, so that an early error sets the status."""
    first, last = _next(pieces)
    return Response(_lines(first, last, pieces, key), 200, mimetype=JOSE)


def _lines(piece: msgspec.Struct, last: bool, pieces: _Stream, key: ReplyKey) -> Iterator[bytes]:
    with closing(pieces):
        for number in count():
            yield _line(key, piece, number, last)
            if last:
                return
            try:
                piece, last = _next(pieces)
            except (UnreachableError, RefusedByStoreError):
                return  # end without a last object: the client reconnects and continues
            except GrassError as error:
                piece, last = ErrorView(_error_body(error)), True


def _next(pieces: _Stream) -> tuple[msgspec.Struct, bool]:
    """Return the next piece, and whether it is the last."""
    try:
        return next(pieces), False
    except StopIteration as end:
        return end.value or KeepAlive(), True


def _line(key: ReplyKey, piece: msgspec.Struct, number: int, last: bool) -> bytes:
    return key.seal(200, packed(piece), number, last).encode() + b"\n"


def _error_body(error: GrassError) -> ErrorBody:
    problems = error.problems if isinstance(error, ManifestError) else []
    named = tuple(ProblemView(each.path, each.message) for each in problems)
    return ErrorBody(error.code, str(error), named, speaks=spoken(grass.__version__))
