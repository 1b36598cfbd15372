"""Where an HTTP request ends, told from its first bytes."""

from __future__ import annotations

import time
from contextlib import suppress
from http import HTTPStatus

import pytest

from grass.serving.framing import MOST_BODY, MOST_HEAD, FramingError, request_length


def test_a_request_without_a_body_ends_with_its_head() -> None:
    head = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    assert request_length(head + b"GET /") == len(head)


def test_a_body_is_as_long_as_its_head_says() -> None:
    head = b"POST /v1/jobs HTTP/1.1\r\ncontent-LENGTH: 7\r\n\r\n"
    assert request_length(head) == len(head) + 7


@pytest.mark.parametrize("received", [b"", b"GET / HTTP/1.1", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\r\n"])
def test_half_a_head_has_no_length_yet(received: bytes) -> None:
    assert request_length(received) is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Transfer-Encoding: chunked\r\n", HTTPStatus.LENGTH_REQUIRED),
        (b"TRANSFER-ENCODING : identity\r\n", HTTPStatus.LENGTH_REQUIRED),
        (b"Content-Length: 1\r\nContent-Length: 1\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: -1\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: +1\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: 0x10\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: 1, 1\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length:\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n", HTTPStatus.BAD_REQUEST),
        (b"Content-Length: %d\r\n" % (MOST_BODY + 1), HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    ],
)
def test_what_has_no_plain_length_is_refused(headers: bytes, status: HTTPStatus) -> None:
    with pytest.raises(FramingError) as refused:
        request_length(b"POST / HTTP/1.1\r\n" + headers + b"\r\n")
    assert refused.value.status == status


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(FramingError):
        request_length(b"GET / HTTP/1.1\r\nX: " + b"x" * MOST_HEAD)


@pytest.mark.parametrize("header", [b"Content-Length: 1%sx", b"Content-Length%s", b"Transfer-Encoding%s"])
def test_no_head_takes_longer_than_its_length_allows(header: bytes) -> None:
    head = b"GET / HTTP/1.1\r\n" + header % (b" " * (MOST_HEAD - 100)) + b"\r\n\r\n"
    begun = time.process_time()
    with suppress(FramingError):
        request_length(head)
    assert time.process_time() - begun < 0.5  # in proportion to the square of its length it would be 5 s
