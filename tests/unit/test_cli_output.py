"""What goes to which stream, in each of the three formats."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

import pytest

from grass.cli.output import Format, Output, OutputClosedError, Result
from grass.wire.codec import builtins
from grass.wire.node_views import NodeView
from tests.support import sample_views

RESULT = Result({"name": "a"}, lambda width: [f"a {width}"], ["a"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(format: Format, *, terminal: bool = False) -> tuple[Output, io.StringIO, io.StringIO]:
    out, err = (Terminal() if terminal else io.StringIO()), io.StringIO()
    return Output(out, err, format), out, err


def test_each_format_shows_its_own_face_of_a_result() -> None:
    for format, text in ((Format.TABLE, "a None\n"), (Format.QUIET, "a\n"), (Format.JSON, '{\n  "name": "a"\n}\n')):
        output, out, err = written(format)
        output.show(RESULT)
        assert (out.getvalue(), err.getvalue()) == (text, "")


def test_a_stream_is_one_object_per_line_in_json() -> None:
    output, out, _ = written(Format.JSON)
    output.record(RESULT)
    output.record(RESULT)
    assert out.getvalue() == '{"name": "a"}\n{"name": "a"}\n'


def test_a_view_is_printed_as_the_api_sent_it() -> None:
    amounts = {"cpu": 500, "memory": 1 << 30, "gpu": 0}  # without scratch, whose amount is the default
    view = sample_views.node("n1", resources=amounts, path=["r1", "s2"], seen=2.5)
    sent = {**dict.fromkeys(NodeView.__struct_fields__), "name": "n1", "state": "READY", "tasks": 0}
    sent |= {"resources": amounts, "path": ["r1", "s2"], "seen": 2.5}
    output, out, _ = written(Format.JSON)
    output.record(Result([view], lambda _: []))
    output.record(Result({**builtins(view), "now": None}, lambda _: []))
    assert out.getvalue() == f"{json.dumps([sent])}\n{json.dumps({**sent, 'now': None})}\n"
    for format, text in (
        (Format.YAML, "- name: n1\n  state: READY\n"),
        (Format.CSV, "name,state,reason,"),
        (Format.NAME, "n1"),
    ):
        output, out, _ = written(format)
        output.show(Result([view], lambda _: []))
        assert out.getvalue().startswith(text)


def test_a_table_is_told_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    output, out, _ = written(Format.TABLE, terminal=True)
    output.show(RESULT)
    assert out.getvalue() == "a 60\n"


def test_errors_are_json_on_stderr_in_json() -> None:
    output, out, err = written(Format.JSON)
    output.error("no", code="bad-input", problems=[{"path": "name", "message": "missing"}])
    problems = [{"path": "name", "message": "missing"}]
    assert json.loads(err.getvalue()) == {"error": {"code": "bad-input", "message": "no", "problems": problems}}
    assert out.getvalue() == ""


def test_notes_are_for_people_only_and_warnings_for_all() -> None:
    for format, text in ((Format.TABLE, "busy\nwarning: odd\n"), (Format.JSON, "warning: odd\n")):
        output, _, err = written(format)
        output.note("busy")
        output.warn("odd")
        assert err.getvalue() == text


def test_progress_overwrites_itself_on_a_terminal_and_ends_before_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    output, out, _ = written(Format.TABLE, terminal=True)
    output.progress("one")
    output.progress("x" * 100)
    output.show(RESULT)
    assert out.getvalue() == "\r\x1b[Kone\r\x1b[K" + "x" * 58 + "…\na 60\n"


def test_progress_is_plain_lines_in_a_pipe() -> None:
    output, out, _ = written(Format.TABLE)
    output.progress("one")
    output.progress("two")
    assert out.getvalue() == "one\ntwo\n"


def test_what_a_task_wrote_passes_byte_for_byte() -> None:
    binary = io.BytesIO()
    out = io.TextIOWrapper(binary, encoding="utf-8")
    Output(out, io.StringIO()).raw(b"\xff\x00\x1b[1m\xc3\xa9\n".decode("utf-8", "surrogateescape"))
    assert binary.getvalue() == b"\xff\x00\x1b[1m\xc3\xa9\n"


def test_a_terminal_without_utf8_gets_escapes_instead_of_a_crash() -> None:
    binary = io.BytesIO()
    out = io.TextIOWrapper(binary, encoding="ascii")
    Output(out, io.StringIO()).show(Result(None, lambda _: ["cut… → é"]))
    assert binary.getvalue() == b"cut~ > \\xe9\n"


def test_json_is_ascii_so_that_every_terminal_and_parser_takes_it() -> None:
    binary = io.BytesIO()
    out = io.TextIOWrapper(binary, encoding="latin-1")
    Output(out, io.StringIO(), Format.JSON).record(Result({"text": "é…\udcff"}, lambda _: []))
    assert binary.getvalue() == b'{"text": "\\u00e9\\u2026\\udcff"}\n'


def test_a_reader_who_left_is_an_error_of_its_own() -> None:
    read, write = os.pipe()
    os.close(read)
    out = os.fdopen(write, "w")
    with pytest.raises(OutputClosedError):
        Output(out, io.StringIO()).show(RESULT)
    with contextlib.suppress(BrokenPipeError):
        out.close()


def test_without_a_terminal_a_question_is_answered_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    output, _, err = written(Format.TABLE)
    assert output.ask("Really?")
    assert err.getvalue() == ""
