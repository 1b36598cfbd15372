"""Answers with a file that a task wrote, so that nothing of it can run in the dashboard. Used by ``app``.

A file is saved, never opened as a page, whatever its name says. Only pictures are shown: those whose first bytes are of
a kind that cannot contain a script. SVG and HTML can, so the browser saves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import chain
from typing import Protocol

from werkzeug import Response

from grass.errors import InputError

MOST_PICTURE = 20 << 20
"""Most bytes of a picture that is shown. A larger one can be saved."""
MOST_PIXELS = 64_000_000
"""Most pixels of a picture that is shown: a few KiB may unpack to what no browser can hold."""
_ALONE = "default-src 'none'; sandbox"
"""The policy of a file of a task: if a browser opened it as a page, it could do and load nothing."""


class Content(Protocol):
    """A file that is open. ``size``: bytes, when it was opened."""

    @property
    def size(self) -> int: ...

    @property
    def pieces(self) -> Iterator[bytes]: ...


def save(opening: AbstractContextManager[Content], name: str) -> Response:
    """Answer with a file, piece by piece, for the browser to save as ``name``."""
    with ExitStack() as stack:
        content = stack.enter_context(opening)
        response = _answer(exactly(content.pieces, content.size), "application/octet-stream", stack)
    response.content_length = content.size
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response


def save_text(lines: Iterator[bytes], name: str) -> Response:
    """Answer with text of unknown length as it comes, for the browser to save as ``name``."""
    response = Response(lines, content_type="text/plain; charset=utf-8")
    response.headers["Content-Security-Policy"] = _ALONE
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response


def show_picture(opening: AbstractContextManager[Content], name: str) -> Response:
    """Answer with a picture for an ``<img>`` of the page. Raises InputError: it is none, or too large to be shown."""
    with ExitStack() as stack:
        content = stack.enter_context(opening)
        if content.size > MOST_PICTURE:
            raise InputError(f"{name}: has {content.size} bytes, and at most {MOST_PICTURE} are shown; download it")
        pieces = iter(content.pieces)
        head = next(pieces, b"")
        kind = picture_kind(head)
        if kind is None:
            raise InputError(f"{name}: not a picture that can be shown; download it")
        if (pixels := _pixels(head)) > MOST_PIXELS:
            raise InputError(f"{name}: has {pixels} pixels, and at most {MOST_PIXELS} are shown; download it")
        response = _answer(exactly(chain([head], pieces), content.size), kind, stack)
    response.content_length = content.size
    response.headers.set("Content-Disposition", "inline", filename=name)
    return response


def picture_kind(head: bytes) -> str | None:
    """Return the media type of a picture by its first bytes, whatever its name is; None: it is not shown."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def exactly(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield as many bytes as were announced, although a task may still write to the file."""
    left = size
    for piece in pieces:
        yield piece[:left]
        left -= len(piece[:left])
        if not left:
            return


def _answer(pieces: Iterator[bytes], kind: str, stack: ExitStack) -> Response:
    """Answer with the pieces, and close what ``stack`` holds open once they were sent."""
    response = Response(pieces, content_type=kind)
    response.headers["Content-Security-Policy"] = _ALONE
    response.call_on_close(stack.pop_all().close)
    return response


def _pixels(head: bytes) -> int:
    """Return width times height where the format says so at its beginning and packs far better than it shows."""
    if head.startswith(b"\x89PNG"):
        return int.from_bytes(head[16:20], "big") * int.from_bytes(head[20:24], "big")
    if head.startswith(b"GIF8"):
        return int.from_bytes(head[6:8], "little") * int.from_bytes(head[8:10], "little")
    return 0
