"""The length of an HTTP request, from its first bytes. Pure. Used by the front, which reads complete requests.

It parses nothing else of HTTP: gunicorn does. An unusual length is refused, so that both agree on where a request
ends.
"""

from __future__ import annotations

import re
from http import HTTPStatus

MOST_BODY = 64 * 1024
"""Bytes of a body, unless the server takes longer ones."""
MOST_HEAD = 32 * 1024
"""Bytes of a request line with all headers. A sealed GET is one header of at most 8 KiB."""

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:([^\r\n]*)(?=\r\n)", re.IGNORECASE)
"""The length with the spaces around it. An expression without them could take time by the square of their number."""
_CODING = re.compile(rb"\r\ntransfer-encoding[ \t]*:", re.IGNORECASE)


class FramingError(Exception):
    """A request that is refused with ``status``. ``length``: of the whole request, if its head says so."""

    def __init__(self, status: HTTPStatus, message: str, length: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.length = length


def request_length(received: bytes | bytearray, most_body: int = MOST_BODY) -> int | None:
    """Return the length of head and body in bytes, or None while the head is incomplete.

    Raises FramingError, also for a body of more than ``most_body`` bytes.
    """
    end = received.find(_END, 0, MOST_HEAD)
    if end < 0:
        if len(received) >= MOST_HEAD:
            what = f"the request: its head has more than {MOST_HEAD:,} bytes; send shorter headers"
            raise FramingError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, what)
        return None
    head = bytes(received[: end + 2])
    if _CODING.search(head):
        what = "the request: has a Transfer-Encoding; send it with a Content-Length"
        raise FramingError(HTTPStatus.LENGTH_REQUIRED, what)
    lengths = [text.strip(b" \t") for text in _LENGTH.findall(head)]
    if len(lengths) > 1 or not all(text.isdigit() and len(text) < 16 for text in lengths):
        raise FramingError(HTTPStatus.BAD_REQUEST, "the request: its Content-Length is not one number")
    body = int(lengths[0]) if lengths else 0
    length = end + len(_END) + body
    if body > most_body:
        what = f"the request: its body has {body:,} bytes, more than the {most_body:,} that are read; send less"
        raise FramingError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, what, length)
    return length
