"""Requests to a Kubernetes API server, over kept-alive connections. Safe for several threads.

Every call blocks. It raises UnreachableError when the server does not answer, and then the request may have been
carried out; ``RefusedError`` with the server's ``Status`` when it refuses. Requests can be repeated without harm,
because objects are created by name and deleted by uid. Used by ``informer``, ``node.runtime.kubernetes`` and
``grass.provision``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from typing import ClassVar, TypeVar
from urllib.parse import urlencode

from grass.errors import GrassError, NotAllowedError, UndecodableError, UnreachableError
from grass.kubernetes.connection import Connection, Endpoint, endpoint
from grass.kubernetes.credentials import Credential, Credentials
from grass.kubernetes.objects import STATUS, Status
from grass.system import clock
from grass.wire.codec import Form, encode

T = TypeVar("T")
SECONDS = 30.0
"""Limit for each byte of a reply. Admission webhooks may take that long."""
JSON = "application/json"
PLAIN_MERGE = "application/merge-patch+json"
MERGE = "application/strategic-merge-patch+json"
"""A patch that knows which lists are sets. For built-in kinds only."""
_BUSY = (500, 502, 503, 504)
_PIECE = 1 << 16
_SAID = 300
"""Characters shown of an answer that is no JSON."""

Query = Mapping[str, str | int | bool | None]


class RefusedError(GrassError):
    """The server refuses a request. ``code``: the HTTP status; ``status``: its reason and details."""

    code: ClassVar[str] = "refused"

    def __init__(self, http: int, status: Status) -> None:
        self.http = http
        self.status = status
        super().__init__(status.message or status.reason or f"HTTP status {http}")

    @property
    def reason(self) -> str:
        """The server's word for the kind of refusal, such as ``AlreadyExists``."""
        return self.status.reason


class BusyError(UnreachableError):
    """The server answers, and cannot do this now: 429 or 5xx. The request may have been carried out, except after 429.

    ``retry_after``: seconds that it asks for.
    """

    def __init__(self, http: int, status: Status, retry_after: float) -> None:
        self.http = http
        self.retry_after = retry_after
        super().__init__(f"{status.message or 'it is busy'} (HTTP status {http})")


class ApiServer:
    """One server, as one user. ``name``: of the server, for messages.

    ``writing`` is called before each request that may change something. It returns for how many seconds the request may
    wait for the reply, or raises a GrassError: then nothing is sent.
    """

    def __init__(
        self,
        credential: Credential,
        name: str = "the Kubernetes API server",
        writing: Callable[[], float] = lambda: SECONDS,
    ) -> None:
        self._credential = credential
        self._name = name
        self._writing = writing
        self._date: tuple[float, float] | None = None
        self._idle: deque[Connection] = deque()
        self._endpoint: Endpoint | None = None

    def get(self, path: str, form: Form[T], query: Query | None = None) -> T:
        return self._call("GET", path, form, None, query)

    def find(self, path: str, form: Form[T]) -> T | None:
        """Return an object; None: there is none."""
        try:
            return self.get(path, form)
        except RefusedError as error:
            if error.http == 404:
                return None
            raise

    def post(self, path: str, body: object, form: Form[T], query: Query | None = None) -> T:
        return self._call("POST", path, form, body, query)

    def put(self, path: str, body: object, form: Form[T]) -> T:
        return self._call("PUT", path, form, body)

    def patch(self, path: str, body: object, form: Form[T], content_type: str = MERGE) -> T:
        return self._call("PATCH", path, form, body, content_type=content_type)

    def delete(self, path: str, form: Form[T], options: object = None) -> T:
        return self._call("DELETE", path, form, options)

    def stream(self, path: str, query: Query, silence: float) -> Stream:
        """Open a reply that goes on, such as a watch or a log. ``silence``: seconds without a byte after which the
        connection counts as broken."""
        connection, response = self._exchange("GET", path, None, query, JSON, silence)
        return Stream(connection, response, self._name)

    def fenced(self, writing: Callable[[], float]) -> ApiServer:
        """Return the same server for the same user, whose writes ask ``writing`` first."""
        return ApiServer(self._credential, self._name, writing)

    def wall(self) -> float | None:
        """Return the server's wall time, from its last reply; None before the first one.

        It may be compared with times in objects, which the server sets, too; this machine's clock may be another.
        """
        known = self._date
        return None if known is None else known[0] + clock.steady() - known[1]

    def endpoint(self) -> Endpoint:
        """Return where the server is, and how to show who we are, for another protocol than HTTP."""
        return self._to(self._credential.current())

    def close(self) -> None:
        """Close the idle connections. Later requests open new ones."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _call(
        self,
        method: str,
        path: str,
        form: Form[T],
        body: object = None,
        query: Query | None = None,
        *,
        content_type: str = JSON,
    ) -> T:
        seconds = SECONDS if method == "GET" else self._writing()
        connection, response = self._exchange(method, path, body, query, content_type, seconds)
        try:
            content = response.read()
        except (OSError, HTTPException) as error:
            connection.close()
            raise UnreachableError(f"{self._name} broke off its answer: {_why(error)}") from error
        self._keep(connection, response)
        try:
            return form.decode(content)
        except UndecodableError as error:
            said = content[:_SAID].decode(errors="replace")
            raise UnreachableError(
                f"{self._name} answers {method} {path} with what is not expected ({error}): {said}"
            ) from error

    def _exchange(
        self, method: str, path: str, body: object, query: Query | None, content_type: str, seconds: float
    ) -> tuple[Connection, HTTPResponse]:
        """Return a reply that is no refusal. With credentials that have just ended, try once more with new ones."""
        target = path if not query else f"{path}?{urlencode({k: _text(v) for k, v in query.items() if v is not None})}"
        content = None if body is None else encode(body).encode()
        credentials = self._credential.current()
        connection, response = self._send(method, target, content, content_type, seconds, credentials)
        if response.status == 401:
            self._refusal(connection, response)
            if not self._credential.refused(credentials):
                raise NotAllowedError(f"{self._name} does not accept the credentials; they may have ended")
            credentials = self._credential.current()
            connection, response = self._send(method, target, content, content_type, seconds, credentials)
        if response.status >= 300:
            refused = self._refusal(connection, response)
            if response.status == 401:
                raise NotAllowedError(f"{self._name} does not accept the credentials; they may have ended")
            if response.status == 429 or response.status in _BUSY:
                raise BusyError(response.status, refused, _retry_after(response, refused))
            raise RefusedError(response.status, refused)
        return connection, response

    def _send(
        self, method: str, target: str, body: bytes | None, content_type: str, seconds: float, credentials: Credentials
    ) -> tuple[Connection, HTTPResponse]:
        headers = {"Accept": JSON, "User-Agent": "grass"}
        if body is not None:
            headers["Content-Type"] = content_type
        if credentials.token:
            headers["Authorization"] = f"Bearer {credentials.token}"
        to = self._to(credentials)
        while True:
            connection = self._free(to)
            try:
                response = connection.request(method, target, headers, body, seconds)
                self._note(response)
                return connection, response
            except OSError as error:
                connection.close()
                if not connection.used or isinstance(error, TimeoutError):
                    raise UnreachableError(
                        f"{self._name} at {credentials.server} does not answer: {_why(error)}"
                    ) from error
                # the server has closed a connection that was idle: again, with another one

    def _note(self, response: HTTPResponse) -> None:
        with suppress(TypeError, ValueError):  # a gateway in between that says no date, or none that is one
            self._date = parsedate_to_datetime(response.headers["Date"]).timestamp(), clock.steady()

    def _to(self, credentials: Credentials) -> Endpoint:
        known = self._endpoint
        if known is None or known.credentials != credentials:
            self._endpoint = known = endpoint(credentials)
        return known

    def _free(self, to: Endpoint) -> Connection:
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if connection.to is to:
                    return connection
                connection.close()
        return Connection(to)

    def _keep(self, connection: Connection, response: HTTPResponse) -> None:
        if response.will_close:
            connection.close()
        else:
            connection.used = True
            self._idle.append(connection)

    def _refusal(self, connection: Connection, response: HTTPResponse) -> Status:
        try:
            content = response.read()
        except (OSError, HTTPException):
            connection.close()
            return Status()
        self._keep(connection, response)
        try:
            return STATUS.decode(content)
        except UndecodableError:
            return Status(message=" ".join(content[:_SAID].decode(errors="replace").split()))


class Stream:
    """A reply that goes on. For one thread, except ``abort``."""

    def __init__(self, connection: Connection, response: HTTPResponse, name: str) -> None:
        self._connection = connection
        self._response = response
        self._name = name

    def lines(self) -> Iterator[bytes]:
        """Yield lines without their newline, as ``batches`` does."""
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[bytes]]:
        """Yield lines as they come, without their newlines, until the server ends the reply; then what is left,
        if no newline ends it.

        Raises UnreachableError when it breaks off: a part of a line is not returned then. ``readline`` of http.client
        would take that for an end.
        """
        rest: list[bytes] = []
        try:
            while piece := self._response.read1(_PIECE):
                first, *others = piece.split(b"\n")
                rest.append(first)
                if others:
                    *complete, last = others
                    yield [b"".join(rest), *complete]
                    rest = [last]
        except (OSError, HTTPException, ValueError, AttributeError) as error:  # the last two: closed by another thread
            raise UnreachableError(f"{self._name} broke off a stream: {_why(error)}") from error
        finally:
            self._connection.close()
        if any(rest):
            yield [b"".join(rest)]

    def abort(self) -> None:
        """Let ``lines`` end, from another thread."""
        self._connection.abort()


def _retry_after(response: HTTPResponse, status: Status) -> float:
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdigit() else float(status.details.retry_after_seconds if status.details else 0)


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
