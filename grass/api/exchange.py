"""HTTP/1.1 as far as ``transport`` needs it: one exchange at a time over a connection that is kept.

Not ``http.client``: with its e-mail parser and TLS that is a tenth of what `grass job list` takes, and a quarter of a
millisecond of every call. Whatever goes wrong on the way is an OSError. What arrives is not to be trusted.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader

_LONGEST_LINE = 65536
_MOST_HEADERS = 100


class NotHttpError(OSError):
    """The other side closed the connection within its reply, or says what is not HTTP."""


class Connection:
    """To ``(host, port)``, made when it is first needed. ``timeout``: seconds without a byte.

    ``way``: what opens a socket to there instead of the network.
    """

    def __init__(
        self, address: tuple[str, int], timeout: float, way: Callable[[str, int], socket.socket] | None = None
    ) -> None:
        self._address = address
        self._way = way
        self._timeout = timeout
        self._socket: socket.socket | None = None
        self._source: BufferedReader | None = None

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: Callable[[], bytes] | None = None
    ) -> Reply:
        """``body`` is called when the head was sent: while it makes the content, the server wakes up."""
        connection, source = self._connected()
        host, port = self._address
        lines = [f"{method} {target} HTTP/1.1", f"Host: {f'[{host}]' if ':' in host else host}:{port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append("Transfer-Encoding: chunked")
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if body is not None:
            content = body()
            connection.sendall(b"%X\r\n%b\r\n0\r\n\r\n" % (len(content), content))
        return Reply(source)

    def close(self) -> None:
        for part in (self._source, self._socket):
            if part is not None:
                part.close()
        self._socket = self._source = None

    def _connected(self) -> tuple[socket.socket, BufferedReader]:
        if self._socket is None or self._source is None:
            self._socket = self._opened()
            self._source = self._socket.makefile("rb")
        return self._socket, self._source

    def _opened(self) -> socket.socket:
        if self._way is not None:
            opened = self._way(*self._address)
            opened.settimeout(self._timeout)
            return opened
        opened = socket.create_connection(self._address, self._timeout)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened


class Reply:
    """Its head was read; the body is read by ``read``, or line by line."""

    def __init__(self, source: BufferedReader) -> None:
        self._source = source
        self.status = 100
        while self.status < 200:
            self.status = _status(_line(source))
            headers = _headers(source)
        self.content_type = headers.get("content-type", "").partition(";")[0].strip()
        self.closes = headers.get("connection", "").lower() == "close"
        """The connection is of no use after this."""
        self.ended = False
        """Its body was read to the end."""
        self._pieces = self._body(headers)
        self._rest = bytearray()

    def read(self) -> bytes:
        """All that is left."""
        for piece in self._pieces:
            self._rest += piece
        self.ended = True
        rest, self._rest = bytes(self._rest), bytearray()
        return rest

    def readline(self) -> bytes:
        """The next line, with its end unless the body ends without one; empty at the end of the body."""
        looked = 0
        while (end := self._rest.find(b"\n", looked)) < 0:
            looked = len(self._rest)
            piece = next(self._pieces, b"")
            if not piece:
                return self.read()
            self._rest += piece
        line = bytes(self._rest[: end + 1])
        del self._rest[: end + 1]
        return line

    def _body(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks()
        if "content-length" in headers:
            return self._exactly(_number(headers["content-length"], 10))
        self.closes = True
        return iter(lambda: self._source.read1(), b"")

    def _exactly(self, size: int) -> Iterator[bytes]:
        content = self._source.read(size)
        if len(content) < size:
            raise NotHttpError("the reply broke off")
        yield content

    def _chunks(self) -> Iterator[bytes]:
        while size := _number(_line(self._source).partition(";")[0], 16):
            yield from self._exactly(size)
            _line(self._source)
        _headers(self._source)


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise NotHttpError("what answers there does not speak HTTP")
    return _number(rest[:3], 10)


def _headers(source: BufferedReader) -> dict[str, str]:
    """Names in lower case."""
    headers = {}
    while line := _line(source):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
        if len(headers) > _MOST_HEADERS:
            raise NotHttpError("too many headers")
    return headers


def _line(source: BufferedReader) -> str:
    line = source.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise NotHttpError("the reply broke off" if line else "the connection was closed without a reply")
    return line.decode("latin-1").rstrip("\r\n")


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise NotHttpError("what answers there does not speak HTTP")
    return number
