"""Log records as text."""

from __future__ import annotations

import io

import pytest

from grass.api.client_views import LogLine
from grass.api.log_reading import gap_note
from grass.cli.log_silence import silence
from grass.cli.logs import LogText, Style, unfinished
from grass.cli.output import Format, Output
from grass.cli.values import Part
from grass.wire.codec import builtins
from tests.support.job_views import job_view, reason, task_view


def record(
    task: str, text: str, *, newline: bool = True, attempt: int = 1, stream: str = "stdout", lost: int = 0
) -> LogLine:
    return LogLine(task, attempt, stream, 0.0, text, newline, lost)


def silent(state: str, *tasks: str, part: str = "", began: float | None = None) -> str:
    missing = reason("image missing")
    views = [
        task_view(task=f"a.{n}", state=each, started=began, reason=builtins(missing)) for n, each in enumerate(tasks)
    ]
    counts = {each: tasks.count(each) for each in tasks}
    job = job_view(name="j", state=state, reason=builtins(reason("why not")), counts=counts)
    return silence(job, views, part)


def test_a_job_without_output_says_why_unless_a_task_started() -> None:
    assert silent("FAILED", "FAILED") == "j: FAILED before any task started (image missing)"
    assert silent("STOPPED") == "j: STOPPED before any task started (why not)"
    assert silent("STOPPED", "STOPPED", part="a.0") == "j: STOPPED before a.0 started (image missing)"
    assert silent("RUNNING", "ASSIGNED") == "j: a.0 has not started: it is ASSIGNED (image missing)"
    assert silent("QUEUED", "PENDING") == "j: QUEUED (image missing)"
    assert silent("FAILED", "FAILED", began=1.0) == silent("RUNNING", "RUNNING", "PENDING") == ""


def text_of(style: Style, *records: LogLine) -> str:
    texts = LogText(style)
    return "".join(texts.render(one) for one in records)


def test_lines_of_several_tasks_are_named_and_aligned() -> None:
    text = text_of(Style(9), record("worker.3", "one"), record("worker.10", "two"))
    assert text == "worker.3  | one\nworker.10 | two\n"


def test_later_attempts_say_their_number() -> None:
    assert text_of(Style(8), record("worker.3", "again", attempt=2)) == "worker.3#2 | again\n"


def test_a_long_line_in_pieces_stays_one_line() -> None:
    pieces = [record("a.0", "x" * 3, newline=False), record("a.0", "yy", newline=False), record("a.0", "z")]
    assert text_of(Style(3), *pieces) == "a.0 | xxxyyz\n"


def test_pieces_of_two_tasks_never_share_a_line() -> None:
    pieces = [record("a.0", "half", newline=False), record("b.0", "other"), record("a.0", "rest")]
    assert text_of(Style(3), *pieces) == "a.0 | half\nb.0 | other\na.0 | rest\n"


def test_several_lines_at_once_read_as_one_by_one() -> None:
    assert text_of(Style(3), record("a.0", "x\n\ny")) == "a.0 | x\na.0 | \na.0 | y\n"
    assert text_of(Style(), record("a.0", "x\ny")) == "x\ny\n"
    assert text_of(Style(1, job="j:"), record("a.0", "x\ny")) == "j:a.0 | x\nj:a.0 | y\n"


def test_a_missing_final_newline_stays_missing() -> None:
    assert text_of(Style(), record("a.0", "end", newline=False)) == "end"


def test_timestamps_have_milliseconds_and_a_zone() -> None:
    stamp = text_of(Style(timestamps=True), record("a.0", "x")).split(" ")[0]
    assert stamp[10] == "T"
    assert stamp[19] == "."
    assert stamp[23] in "+-"


def test_names_stand_only_where_more_than_one_task_can_speak() -> None:
    single, twelve = ({"replicas": count, "counts": {}} for count in (1, 12))
    one = job_view(components={"main": single})
    many = job_view(components={"server": single, "worker": twelve})
    assert Style.for_job(one, None, timestamps=False).name_width == 0
    assert Style.for_job(many, None, timestamps=False).name_width == len("worker.11")
    assert Style.for_job(many, Part("worker", 3), timestamps=False).name_width == 0
    assert Style.for_job(many, Part("server", None), timestamps=False).name_width == 0
    assert Style.for_job(many, Part("worker", None), timestamps=False).name_width == len("worker.11")


def test_output_that_is_missing_is_a_line_of_its_own() -> None:
    gap = record("a.0", "newest", lost=3 << 30)
    note = gap_note(3 << 30)
    assert note.startswith("[3GiB of output are missing here")
    assert text_of(Style(3), record("a.0", "half", newline=False), gap) == f"a.0 | half\na.0 | {note}\na.0 | newest\n"


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("format", "out", "err", "style", "split", "shown"),
    [
        (Format.TABLE, True, True, Style(), True, True),
        (Format.TABLE, True, False, Style(), False, True),
        (Format.TABLE, True, False, Style(), True, False),
        (Format.TABLE, False, True, Style(), True, False),
        (Format.TABLE, True, True, Style(3), True, False),
        (Format.JSON, True, True, Style(), True, False),
    ],
)
def test_a_line_is_shown_while_it_is_written_on_a_terminal_and_of_one_task(
    format: Format, out: bool, err: bool, style: Style, split: bool, shown: bool
) -> None:
    output = Output(Screen(terminal=out), Screen(terminal=err), format)
    assert unfinished(output, style, split=split) is shown


def test_a_line_that_is_shown_in_parts_is_the_line() -> None:
    parts = [record("a.0", "\r1/2", newline=False), record("a.0", "\r2/2"), record("a.0", "done")]
    assert text_of(Style(), *parts) == "\r1/2\r2/2\ndone\n"
