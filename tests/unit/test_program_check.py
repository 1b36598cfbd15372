"""What the client says of programs that cannot start, before it sends the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grass.api.program_check import check_programs
from grass.errors import ManifestError

FAULTS = {
    "windows": (b"#!/bin/sh\r\necho\r\n", "line 1: ends with a carriage return"),
    "half": (b"#!/bin/sh\necho\r\necho\r\ntrue\r\n", "line 2: ends with a carriage return"),
    "bom": (b"\xef\xbb\xbf#!/bin/sh\necho\n", "line 1: begins with a byte order mark"),
    "utf-16": (b"\xff\xfe#\0!\0", "line 1: begins with the byte order mark of UTF-16"),
    "none": (b"#!\necho\n", "line 1: `#!` names no interpreter"),
}


def problems(folder: Path, command: Any, shell: dict[str, str] | None = None, **more: Any) -> str:
    document = {"name": "j", "components": {"w": {"command": command, **more}}}
    try:
        check_programs(document, str(folder), shell or {}, "j.yml")
    except ManifestError as error:
        return str(error)
    return ""


def program(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    (folder / name).chmod(0o755)
    return f"./{name}"


@pytest.mark.parametrize("name", FAULTS)
def test_a_program_that_cannot_start_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    content, said = FAULTS[name]
    word = program(tmp_path, name, content)
    for command in ([word, "-x"], f"exec {word} -x"):
        assert f"components.w.command: {word}: {said}" in problems(tmp_path, command)
    assert said in problems(tmp_path, [name], {"PATH": f"/nowhere:{tmp_path}"})
    assert said in problems(tmp_path.parent, [word], cwd=tmp_path.name)
    assert problems(tmp_path, [word], image="i:1") == ""


def test_a_script_without_an_interpreter_is_refused_only_where_no_shell_runs_it(tmp_path: Path) -> None:
    word = program(tmp_path, "plain", b"echo\n")
    assert "line 1: a script begins with `#!`" in problems(tmp_path, [word])
    assert problems(tmp_path, word) == "" and problems(tmp_path, ["sh", "plain"]) == ""


def test_a_script_that_a_shell_reads_is_looked_at_too(tmp_path: Path) -> None:
    program(tmp_path, "x", b"echo\r\necho\r\n")
    assert "x: line 1: ends with a carriage return" in problems(tmp_path, ["sh", "x"])


def test_what_is_in_order_or_not_known_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    good = program(tmp_path, "good", b"#!/usr/bin/env python3\nprint()\r\n")
    for command in ([good], ["/bin/sh", "-c", "true"], ["./folder"], ["no-such"], "a | b", "", ["\0"], 7, None, [1]):
        assert problems(tmp_path, command) == ""
