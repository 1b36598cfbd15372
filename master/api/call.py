"""One call, between HTTP and a handler: open, authorise, parse, hand over, seal. Nothing about jobs or nodes here."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, TypeVar

import msgspec
from flask import Response, request
from msgspec import structs
from werkzeug.exceptions import RequestEntityTooLarge

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
    UndecodableError,
    UnreachableError,
)
from grass.store.api_store import ApiStore
from grass.store.job_index import EVERYBODY
from grass.wire import calls
from grass.wire.codec import Form, builtins
from grass.wire.views import ErrorBody, ErrorView, NoNews, ProblemView
from master.api.authentication import Authenticator, Caller, StaleRequestError
from master.api.feed import Feed, Places
from master.api.query import parse_query
from master.api.routes import Access, Route

log = logging.getLogger("master.api")

JOSE = "application/jose"
REFUSED = b"the request could not be opened\n"
"""All that anyone learns whose request is not sealed by a registered user for this very call."""


@dataclass(frozen=True)
class Waits:
    """How long and how much the server bears. The values here are those of every cluster."""

    places: int = 48
    """Requests that may wait or follow at once, of the server's 64 threads."""
    look: float = 1.0
    """Seconds that one read of the store waits for news; how long closing takes at most."""
    preview: float = 4.0
    """Seconds until a master-agent that does not answer counts as away: less than a client waits. It takes
    milliseconds."""
    log_late: float = 5.0
    """Seconds that the log of an ended job may be silent until it is taken for as complete as it will get: a node that
    is gone took the rest with it."""
    log_piece: int = 512 * 1024
    """About how many characters one piece of a whole log carries."""


@dataclass(frozen=True)
class Api:
    """What handlers work with."""

    config: ClusterConfig
    store: ApiStore
    authenticator: Authenticator
    feed: Feed
    places: Places
    wall: Callable[[], float]
    waits: Waits


_C = TypeVar("_C", bound=calls.Call)


@dataclass(frozen=True)
class Call:
    """An admitted request. A machine without a user has the empty name."""

    api: Api
    user: str
    role: Role
    query: dict[str, Any]
    content: calls.Call | None
    caller: Caller

    def read(self, shape: type[_C]) -> _C:
        """The body, which has the shape that the route declares."""
        assert isinstance(self.content, shape)
        return self.content

    def sees(self, owner: str | None) -> bool:
        """A user sees own jobs and schedules; viewers and admins see all."""
        return self.role is not Role.USER or owner == self.user

    @property
    def scope(self) -> str:
        """Whose jobs the caller sees, as ``JobIndex`` names it."""
        return self.user if self.role is Role.USER else EVERYBODY

    def check_owner(self, owner: str, what: str) -> None:
        if not self.sees(owner):
            raise NotAllowedError(f"{what} belongs to {owner}; you are {self.user}, who may use only what is theirs")


@dataclass(frozen=True)
class Reply:
    body: msgspec.Struct
    status: int = 200


Pieces = Generator[msgspec.Struct, None, None]
"""What a stream handler returns: one object per sealed line. Closed when the client goes away."""
PiecesToEnd = Generator[msgspec.Struct, None, msgspec.Struct]
"""As ``Pieces``. What it returns is the last object; of others an empty one says that there is nothing more."""
HEARTBEAT = 2.0
"""Seconds after which an idle stream sends a piece all the same: the client knows that the server is there, and one
that went away is noticed."""
_Stream = Generator[msgspec.Struct, None, msgspec.Struct | None]
Handler = Callable[..., Any]


def serve(api: Api, route: Route, handler: Handler, path: dict[str, str]) -> Response:
    try:
        caller = _identify(api.authenticator, route)
    except RequestEntityTooLarge:
        return Response(REFUSED, 413, mimetype="text/plain")
    except EnvelopeError:
        return _refusal()
    reply_key = caller.reply
    try:
        api.authenticator.admit(caller, reads=route.reads, takes_id=route.takes_id)
        call = _call(api, route, caller)
        result = handler(call, **path)
        if route.stream:
            return _stream(result, reply_key)
        reply = result if isinstance(result, Reply) else Reply(result)
        return _sealed(reply_key, reply.status, reply.body)
    except (EnvelopeError, ReplayedError):
        return _refusal()
    except StaleRequestError as error:
        return _sealed(
            reply_key, error.http_status, ErrorView(structs.replace(_error_body(error), now=api.authenticator.time))
        )
    except GrassError as error:
        return _sealed(reply_key, error.http_status, ErrorView(_error_body(error)))
    except Exception:
        # the last resort: a defect is logged whole, and answered under seal
        log.exception("%s failed", route.operation)
        message = "the API server met a defect of its own; its log says more"
        return _sealed(reply_key, 500, ErrorView(ErrorBody("internal", message, ())))


def _identify(authenticator: Authenticator, route: Route) -> Caller:
    """Raises EnvelopeError, RequestEntityTooLarge."""
    identify = {
        Access.SESSION: authenticator.identify,
        Access.SIGNED: authenticator.identify_signer,
        Access.GUEST: authenticator.identify_guest,
    }[route.access]
    return identify(_token(route), request.method, _target())


def _call(api: Api, route: Route, caller: Caller) -> Call:
    user = caller.user
    if user is not None and not route.admits(user.role):
        raise NotAllowedError(f"{user.name} has the role {user.role.value}; this needs {route.role.value}")
    return Call(
        api,
        user.name if user else "",
        user.role if user else Role.VIEWER,
        parse_query(route.query, request.args),
        _content(route, caller.body),
        caller,
    )


def _token(route: Route) -> bytes:
    """POST carries the sealed request as its body, the others in `Authorization: JOSE …`."""
    if route.method == "POST":
        request.max_content_length = MAX_REQUEST
        return request.get_data(cache=False)
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.encode("latin-1") if scheme == "JOSE" else b""


def _target() -> str:
    """The path with query exactly as it arrived."""
    return str(request.environ.get("RAW_URI") or request.full_path)


def _content(route: Route, text: str | None) -> calls.Call | None:
    if route.request is None:
        return None
    try:
        return _form(route.request).decode(text or "{}")
    except UndecodableError as error:
        where = f"{error.path}: " if error.path else ""
        raise InputError(f"the body of the request: {where}{error.problem}") from error


@cache
def _form(shape: type[calls.Call]) -> Form[calls.Call]:
    return Form(shape)


def _sealed(key: ReplyKey, status: int, body: msgspec.Struct) -> Response:
    return Response(key.seal(status, _pack(body)), status, mimetype=JOSE)


def _refusal() -> Response:
    return Response(REFUSED, 401, mimetype="text/plain")


def _stream(pieces: _Stream, key: ReplyKey) -> Response:
    """The first piece is made before anything is sent, so that an error at the start has its own status."""
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
            except UnreachableError:
                return  # cut off without a last object: the client comes back for the rest
            except GrassError as error:
                piece, last = ErrorView(_error_body(error)), True


def _next(pieces: _Stream) -> tuple[msgspec.Struct, bool]:
    """The next piece, and whether it is the last."""
    try:
        return next(pieces), False
    except StopIteration as end:
        return end.value or NoNews(), True


def _line(key: ReplyKey, piece: msgspec.Struct, number: int, last: bool) -> bytes:
    return key.seal(200, _pack(piece), number, last).encode() + b"\n"


def _error_body(error: GrassError) -> ErrorBody:
    problems = error.problems if isinstance(error, ManifestError) else []
    return ErrorBody(error.code, str(error), tuple(ProblemView(each.path, each.message) for each in problems))


def _pack(body: msgspec.Struct) -> bytes:
    """ASCII, so that a line of a log that is no UTF-8 arrives as it is."""
    return json.dumps(builtins(body), separators=(",", ":")).encode()
