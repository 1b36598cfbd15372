"""Logs without the lines with which tasks report figures."""

from __future__ import annotations

from grass.api.client_views import LogLine
from grass.cli.log_figures import WithoutFigures


def line(text: str, newline: bool = True, task: str = "w.0") -> LogLine:
    return LogLine(task, 1, "stdout", 1.0, text, newline, 0)


def shown(*records: LogLine) -> tuple[list[tuple[str, bool]], int]:
    without = WithoutFigures(records)
    return [(record.text, record.newline) for record in without], without.hidden


def test_lines_of_figures_are_left_out_also_of_a_record_with_many_lines() -> None:
    text = "GRASS_METRIC a=1\nepoch 1\nGRASS_METRIC a=2\n GRASS_METRIC is no mark here\nGRASS_METRIC a=3"
    assert shown(line(text)) == ([("epoch 1\n GRASS_METRIC is no mark here", True)], 3)
    assert shown(line("GRASS_METRIC a=1"), line("end", newline=False)) == ([("end", False)], 1)
    assert shown(line("a"), line("")) == ([("a", True), ("", True)], 0)


def test_a_line_in_several_records_is_left_out_or_shown_as_a_whole() -> None:
    cut = [line("x\nGRASS_METRIC a=", newline=False), line("other", task="w.1"), line("1\ny")]
    assert shown(*cut) == ([("x", True), ("other", True), ("y", True)], 1)
    assert shown(line("progress ", newline=False), line("GRASS_METRIC a=1\nz")) == (
        [("progress ", False), ("GRASS_METRIC a=1\nz", True)],
        0,
    )
