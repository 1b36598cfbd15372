"""Only a line feed ends a line, whatever else Python takes for the end of one."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

from grass.lines import lines_of, whole_lines_of
from grass.manifest.entries import of_lines
from grass.manifest.script import directives, foreign_directive
from node.mounts import lines_at, mount_point
from node.runtime import proc
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
ENDS_FOR_PYTHON = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters at which ``str.splitlines`` splits, besides line feed and carriage return."""
NAMED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(15, os.fsencode(sys.argv[1])); print(flush=True); input()"


def test_only_a_line_feed_ends_a_line() -> None:
    inner = f"a{ENDS_FOR_PYTHON}b"
    assert lines_of(f"{inner}\n{inner}\r\n\nc") == [inner, inner, "", "c"]
    assert lines_of(b"a\rb\nc\r\n") == [b"a\rb", b"c"]
    assert lines_of("") == [] and lines_of("\n") == [""]
    assert whole_lines_of(f"{inner}\r\n\nc") == [f"{inner}\r\n", "\n", "c"]


def test_an_entry_may_hold_whatever_a_file_name_may() -> None:
    names = [f"a{each}b" for each in ENDS_FOR_PYTHON] + ["a\rb", "\f"]
    assert of_lines("".join(f"{name}\r\n" for name in names) + " \t\n\n") == names


def test_a_comment_of_a_script_goes_on_behind_such_a_character() -> None:
    for each in ENDS_FOR_PYTHON:
        assert directives(f"#!/bin/sh\n# see{each}#GRASS --cpu 2\n#GRASS --cpu 3\n") == ["--cpu", "3"]
        assert foreign_directive(f"#!/bin/sh\n# see{each}#SBATCH -n 1\n") == ""


def test_the_name_of_a_process_does_not_change_whose_it_is() -> None:
    with subprocess.Popen([sys.executable, "-c", NAMED, "\rUid:\t1\t64202"], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: b"\rUid" in proc.read(f"/proc/{process.pid}/status"), 10, "its new name")
        assert proc.owner(process.pid) == os.geteuid()
        assert not proc.blocks(process.pid, signal.SIGTERM)
        process.communicate(b"\n")


def test_a_mount_point_may_have_any_name(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    line = b"22 1 254:0 / /mnt/caf\xe9\r\x1c\xc2\x85x rw - ext4 /dev/vda rw\n"
    table.write_bytes(line + b"23 1 254:0 / /data rw - ext4 /dev/vda rw\n")
    assert lines_at("/data", table) == ("23 1 254:0 / /data rw - ext4 /dev/vda rw",)
    name = "/mnt/caf\udce9\r\x1c\x85x"
    assert mount_point(Path(name, "a"), os.fsdecode(line)) == name


def splits_elsewhere(text: str) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "splitlines" for node in ast.walk(ast.parse(text)))


def test_all_code_takes_texts_apart_in_one_way() -> None:
    code = [path for package in ("grass", "master", "node") for path in (ROOT / package).rglob("*.py")]
    assert len(code) > 500
    assert [str(path) for path in code if splits_elsewhere(path.read_text())] == []
    assert splits_elsewhere("a.splitlines()")
