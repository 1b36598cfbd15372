"""A file of a task goes to the browser, and nothing of it can run there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from grass.dashboard.previews import MOST, MOST_COLUMNS, MOST_ROWS, preview
from grass.dashboard.sending import MOST_PICTURE, picture_kind, save, save_text, show_picture
from grass.errors import InputError

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big") + b"rest"


@dataclass
class Opened:
    """A file in memory; it says whether it was closed, and how many of its pieces were read."""

    size: int
    parts: list[bytes]
    closed: bool = False
    read: int = 0

    @property
    def pieces(self) -> Iterator[bytes]:
        for part in self.parts:
            self.read += 1
            yield part


def file_of(*parts: bytes, size: int | None = None) -> Opened:
    return Opened(sum(map(len, parts)) if size is None else size, list(parts))


@contextmanager
def opening(file: Opened) -> Iterator[Opened]:
    try:
        yield file
    finally:
        file.closed = True


@pytest.mark.parametrize("name", ["page.html", "drawing.svg", "run.js", "plain"])
def test_a_file_is_saved_and_never_opened_whatever_its_name_is(name: str) -> None:
    file = file_of(b"<script>", b"alert(1)</script>")
    response = save(opening(file), name)
    assert not file.closed
    assert b"".join(response.response) == b"<script>alert(1)</script>"
    response.close()
    assert file.closed
    headers = response.headers
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == f"attachment; filename={name}"
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_a_file_that_grows_meanwhile_ends_where_it_was_announced() -> None:
    response = save(opening(file_of(b"1234", b"5678", b"9", size=6)), "x")
    assert b"".join(response.response) == b"123456" and response.content_length == 6


def test_text_comes_as_it_is_read() -> None:
    response = save_text(iter([b"one\n", b"two\n"]), "job.log")
    assert next(iter(response.response)) == b"one\n" and response.content_length is None
    assert response.headers["Content-Disposition"] == "attachment; filename=job.log"


def test_a_picture_is_shown_by_its_first_bytes_and_can_load_nothing() -> None:
    response = show_picture(opening(file_of(PNG, b"more")), "plot.html")
    assert response.content_type == "image/png" and b"".join(response.response) == PNG + b"more"
    assert response.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", None),
        (b"<!doctype html>", None),
        (b"", None),
    ],
)
def test_what_may_contain_a_script_is_no_picture(head: bytes, kind: str | None) -> None:
    assert picture_kind(head) == kind


@pytest.mark.parametrize(
    ("file", "word"),
    [
        (file_of(b"<svg/>"), "not a picture"),
        (file_of(PNG, size=MOST_PICTURE + 1), "bytes, and at most"),
        (file_of(PNG.replace((640).to_bytes(4, "big"), (1 << 30).to_bytes(4, "big"))), "pixels, and at most"),
        (file_of(b"GIF89a\xff\xff\xff\xff"), "pixels, and at most"),
    ],
)
def test_what_is_no_picture_or_too_large_is_refused_and_closed(file: Opened, word: str) -> None:
    with pytest.raises(InputError, match=f"plot.png: .*{word}.*; download it|plot.png: {word}.*; download it"):
        show_picture(opening(file), "plot.png")
    assert file.closed


def test_text_is_shown_up_to_a_bound_and_no_more_is_read() -> None:
    assert preview("a.txt", file_of("grün\n".encode())).text == "grün\n"
    large = file_of(*[b"x" * 1024] * 4096)
    seen = preview("a.log", large)
    assert (seen.kind, len(seen.text), seen.more) == ("text", MOST, True)
    assert large.read <= MOST // 1024 + 1
    half = file_of(b"x" * (MOST - 1) + "ü".encode(), b"rest")
    assert preview("a.txt", half).text == "x" * (MOST - 1)


def test_bytes_are_no_text_and_a_picture_is_known_by_its_bytes() -> None:
    assert preview("model.txt", file_of(b"\0\1\2")).kind == "other"
    assert preview("latin.txt", file_of(b"gr\xfcn")).kind == "other"
    assert preview("plot.txt", file_of(PNG)).kind == "picture"


def test_a_table_has_cells_with_delimiters_in_quotes_and_is_bounded() -> None:
    seen = preview("m.csv", file_of(b'\xef\xbb\xbfstep,note\r\n1,"a, ""b""\nc"\r\n\r\n2,d'))
    assert (seen.kind, seen.rows, seen.more) == ("table", [["step", "note"], ["1", 'a, "b"\nc'], ["2", "d"]], False)
    assert preview("m.tsv", file_of(b"a\tb\n")).rows == [["a", "b"]]
    long = preview("m.csv", file_of(b"1,2\n" * (MOST_ROWS + 2)))
    assert len(long.rows) == MOST_ROWS + 1 and long.more
    wide = preview("m.csv", file_of(b",".join([b"y" * 999] * 99)))
    assert len(wide.rows[0]) == MOST_COLUMNS and len(wide.rows[0][0]) == 300
    cut = preview("m.csv", file_of(b"12345678901,2\n" * (MOST // 14 + 9)))
    assert cut.more and len(cut.rows) == MOST_ROWS + 1
    few = preview("m.csv", file_of((b"z" * 100_000 + b"\n") * 9))
    assert few.more and [len(row) for row in few.rows] == [1, 1]


def test_a_cell_without_an_end_is_shown_as_text() -> None:
    assert preview("m.csv", file_of(b'a,"' + b"b" * 200_000)).kind == "text"
