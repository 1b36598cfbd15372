"""Results as YAML, CSV and names; colours of states."""

from __future__ import annotations

import io
import json

import pytest
import yaml

from grass.cli.colours import painted
from grass.cli.output import Format, Output, Result

JOBS = [{"name": "a", "id": "a-1", "counts": {"FAILED": 1}, "exit": None}, {"name": "b, c", "id": "b-2", "counts": {}}]


def shown(format: Format, result: Result) -> str:
    out = io.StringIO()
    Output(out, io.StringIO(), format).show(result)
    return out.getvalue()


def test_yaml_has_what_json_has() -> None:
    result = Result(JOBS, lambda _: [])
    assert yaml.safe_load(shown(Format.YAML, result)) == json.loads(shown(Format.JSON, result)) == JOBS


def test_csv_has_a_column_per_key_or_the_rows_of_the_command() -> None:
    text = shown(Format.CSV, Result(JOBS, lambda _: []))
    assert text == 'name,id,counts,exit\na,a-1,"{""FAILED"": 1}",\n"b, c",b-2,{},\n'
    assert (
        shown(Format.CSV, Result(JOBS, lambda _: [], [], lambda: (["NAME", "EXIT"], [["a", "-"]]))) == "NAME,EXIT\na,\n"
    )


def test_csv_has_a_line_for_each_part_of_a_page() -> None:
    page = {"name": "a", "tasks": [{"task": "w.0", "pid": None}, {"task": "w.1", "pid": 7}]}
    assert shown(Format.CSV, Result(page, lambda _: [], items="tasks")) == "task,pid\nw.0,\nw.1,7\n"


def test_csv_names_the_parts_of_a_mapping_and_is_empty_without_items() -> None:
    page = {"name": "a", "parts": {"w": {"tasks": 2}, "v": {"tasks": 1}}}
    assert shown(Format.CSV, Result(page, lambda _: [], items="parts")) == "name,tasks\nw,2\nv,1\n"
    assert shown(Format.CSV, Result({"name": "a"}, lambda _: [], items="runs")) == "name\na\n"
    assert shown(Format.CSV, Result([], lambda _: [])) == ""


def test_a_stream_of_csv_has_one_header() -> None:
    out = io.StringIO()
    output = Output(out, io.StringIO(), Format.CSV)
    for number in (1, 2):
        output.record(Result({"n": number}, lambda _: []))
    assert out.getvalue() == "n\n1\n2\n"


def test_names_are_names_and_otherwise_ids() -> None:
    assert shown(Format.NAME, Result(JOBS, lambda _: [], ["a-1", "b-2"])) == "a\nb, c\n"
    assert shown(Format.NAME, Result({"x": 1}, lambda _: [], ["a-1"])) == "a-1\n"


@pytest.mark.parametrize("line", ["my-FAILED-job  x", "FAILEDx", "failed", ""])
def test_only_states_are_painted(line: str) -> None:
    assert painted(line) == line


def test_a_state_is_painted_without_its_neighbours() -> None:
    assert painted("a  FAILED  b") == "a  \x1b[31mFAILED\x1b[0m  b"
