"""Arrays from data, and scripts as jobs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from grass.api.document_data import with_data
from grass.errors import ManifestError
from grass.manifest import Wrong, parse_job
from grass.manifest.entries import of_csv, of_json, of_lines, parse_array, with_entries
from grass.manifest.script import (
    MAX_STDIN,
    directives,
    is_script,
    job_name,
    lacks_interpreter,
    script_command,
    script_text,
    with_input,
    without_secrets,
)
from grass.model.secrets import REDACTED
from grass.wire.desired import DesiredAttempt
from node.agent.environment import attempt_env
from tests.support.templates import template


def document(**component: Any) -> dict[str, Any]:
    return {"name": "j", "components": {"w": {"command": "true", **component}}}


def test_an_array_is_numbers_and_ranges() -> None:
    assert parse_array("1-3,17") == ("1", "2", "3", "17")
    assert parse_array("0-10:5") == ("0", "5", "10")
    assert parse_array(7) == ("7",)


@pytest.mark.parametrize("wrong", ["", "a", "3-1", "1-5:0", "1,1", "1-3,2", "-1", "0-100000", "1-", True, None, "1;2"])
def test_what_is_no_array_is_refused(wrong: Any) -> None:
    with pytest.raises(Wrong):
        parse_array(wrong)


def test_entries_are_lines_or_items() -> None:
    assert of_lines("a b\n\n  \nc") == ["a b", "c"]
    assert of_json('["x y", 1.5, {"a": [1]}]') == {"entries": ["x y", "1.5", '{"a":[1]}']}
    for wrong in ("{}", "[1", ""):
        with pytest.raises(Wrong):
            of_json(wrong)


def test_keys_of_json_objects_are_columns_where_all_have_them() -> None:
    text = '[{"lr": 0.1, "n": 1, "my key": 2, "deep": [1]}, {"lr": "high", "deep": [], "my key": 1}]'
    assert of_json(text)["columns"] == {"lr": ["0.1", "high"]}
    assert "columns" not in of_json('[{"a": 1}, 2]') and "columns" not in of_json("[]")


def test_columns_of_a_csv_are_variables() -> None:
    text = '\ufefflr, seed,note\r\n0.1,1,"a, ""b""\nc"\r\n\r\n1e-3,007,\r\n'
    assert of_csv(text) == {"columns": {"lr": ["0.1", "1e-3"], "seed": ["1", "007"], "note": ['a, "b"\nc', ""]}}
    body = with_entries(document(**{"from": {"csv": "p.csv"}}), lambda name: text)
    part = parse_job(body).job.components["w"]
    assert (part.replicas, part.entries, part.fixed_by) == (2, (), "from")
    env = attempt_env("j-1/w.1/1", template(columns=part.columns), DesiredAttempt(1), 0)
    assert (env["lr"], env["GRASS_MATRIX_SEED"], env["note"]) == ("1e-3", "007", "") and "GRASS_ENTRY" not in env


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a line with the names of the columns, and at least one more"),
        ("lr,seed\n", "must have a line with the names of the columns, and at least one more"),
        ("lr;seed\n1;2\n", 'must have commas between columns, got ";" in line 1'),
        ("lr,lr\n1,2\n", 'line 1: the column "lr" appears twice'),
        ("lr,seed\n1,2\n3\n", "line 3: must have 2 columns, as line 1; got 1"),
        ('lr,seed\n1,"2\n', "line 2: unexpected end of data"),
        ('lr\n1\n"2"3\n', "line 3: ',' expected after '\"'"),
        ("lr,my seed\n1,2\n", 'line 1: the column "my seed": must be'),
        ("NODE_ID\n1\n", 'line 1: the column "NODE_ID": is reserved'),
    ],
)
def test_a_csv_that_is_none_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        with_entries(document(**{"from": {"csv": "p.csv"}}), lambda name: text)
    [problem] = caught.value.problems
    assert problem.path == "components.w.from.csv" and problem.message.startswith(f"p.csv: {message}")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({"columns": {"a": [1, 2], "b": [1]}}, "components.w.from"),
        ({"columns": {"a": [1]}, "entries": ["x", "y"]}, "components.w.from"),
        ({"columns": {"EPOCHS": [1]}}, "components.w.from.columns.EPOCHS"),
        ({"columns": {}}, "components.w.from.columns"),
        ({"columns": {"a": [[1]]}}, "components.w.from.columns.a[0]"),
    ],
)
def test_columns_that_do_not_fit_are_named(source: dict[str, Any], path: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_job(document(env={"EPOCHS": 1}, **{"from": source}))
    assert caught.value.problems[0].path == path


def test_each_task_gets_the_entry_of_its_index() -> None:
    body = with_entries(document(**{"from": {"lines": "f.txt"}}), lambda name: f"{name} 1\n{name} 2\n")
    component = parse_job(body).job.components["w"]
    assert (component.replicas, component.entries) == (2, ("f.txt 1", "f.txt 2"))
    found = template(entries=component.entries)
    assert attempt_env("j-1/w.1/1", found, DesiredAttempt(1), 0)["GRASS_ENTRY"] == "f.txt 2"


@pytest.mark.parametrize(
    "component",
    [
        {"from": {"lines": "f.txt"}},
        {"from": {"entries": []}},
        {"from": {"entries": ["a"], "array": "1-2"}},
        {"from": {}},
        {"from": "f.txt"},
        {"from": {"array": "1-2"}, "replicas": 3},
        {"from": {"array": "1-2"}, "matrix": {"lr": [1]}},
        {"from": {"array": "2-1"}},
    ],
)
def test_an_array_without_clear_entries_is_refused(component: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match=r"components\.w"):
        parse_job(document(**component))


def test_a_file_that_is_no_list_is_named() -> None:
    with pytest.raises(ManifestError, match=r"components\.w\.from\.json: f\.json: must be a JSON list"):
        with_entries(document(**{"from": {"json": "f.json"}}), lambda _: "{}")


def test_a_file_that_is_too_large_is_named_with_its_path_and_the_way_that_works(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text(f"{'y' * 1000}\n" * 1100)
    made = document(**{"from": {"lines": "lines.txt"}})
    with pytest.raises(ManifestError) as caught:
        with_data(made, None, str(tmp_path), "l.yml")
    [problem] = caught.value.problems
    assert problem.path.endswith(".from.lines") and "lines.txt: is larger than 1 MiB; send it with" in problem.message
    line = problem.message.partition("`sed")[2].rstrip("`")
    (tmp_path / "lines.txt").write_text("first\nsecond\n")
    environment = {"GRASS_INDEX": "1", "GRASS_DATA": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert subprocess.check_output(["/bin/sh", "-c", f"sed{line}"], env=environment, text=True) == "second\n"


def test_directives_are_the_comments_before_the_first_command() -> None:
    text = "#!/bin/sh\n#GRASS --cpu 2 --name 'a b'  # why\n# other\n#GRASSY no\n\n#GRASS --gpu 1\necho\n#GRASS --late\n"
    assert directives(text) == ["--cpu", "2", "--name", "a b", "--gpu", "1"]
    with pytest.raises(Wrong, match="line 2"):
        directives("#!/bin/sh\n#GRASS 'open\n")
    assert is_script(b"#!/bin/sh") and not is_script(b"name: x")


def test_a_script_travels_without_the_secrets_of_its_directives_and_is_the_same_otherwise() -> None:
    begin = "#!/bin/sh\n#GRASS --env A_KEY=hidden --tag 'x=a b'  # why\n#GRASS --cpu 2  # why\n"
    text = f"{begin}echo A_KEY=1\n#GRASS --env B_KEY=2"
    sent = without_secrets(text)
    assert directives(sent) == ["--env", f"A_KEY={REDACTED}", "--tag", "x=a b", "--cpu", "2"]
    assert sent.splitlines()[2:] == text.splitlines()[2:]
    assert without_secrets("#!/bin/sh\r\n#GRASS --env A_KEY=1\r\n") == f"#!/bin/sh\r\n#GRASS --env A_KEY={REDACTED}\r\n"


def test_the_name_of_a_script_becomes_the_name_of_its_job() -> None:
    assert job_name("dir/train v1.2.sh") == "train-v1-2"
    assert job_name("a") == "a"
    assert job_name("…") == ""


def run(command: list[str], scratch: Path) -> str:
    environment = {"GRASS_SCRATCH": str(scratch), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_script_runs_with_its_own_interpreter(tmp_path: Path) -> None:
    text = '#!/usr/bin/env python3\nimport sys\nprint("it\'s", len(sys.argv), sys.argv[0][-4:])\n'
    assert run(script_command("x.py", text), tmp_path) == "it's 1 x.py\n"


def test_a_script_gets_its_arguments_behind_those_of_its_interpreter(tmp_path: Path) -> None:
    text = "#!/usr/bin/env -S python3 -O\nimport sys\nprint(sys.argv[1:], sys.flags.optimize)\n"
    script = tmp_path / "x.py"
    script.write_text(text)
    for path in ("", str(script)):
        command = script_command("x.py", text, path, ["a b", "$HOME", "--flag", ""])
        assert run(command, tmp_path) == "['a b', '$HOME', '--flag', ''] 1\n"


BESIDE = '#!/bin/bash\n#GRASS --env A_KEY=1\n. "$(dirname "${BASH_SOURCE[0]}")/lib"; echo "$0 $GRASS_SCRIPT"\n'


def test_a_script_runs_where_it_is_so_that_files_beside_it_are_found(tmp_path: Path) -> None:
    script = tmp_path / "it's" / "x.sh"
    script.parent.mkdir()
    script.write_text(BESIDE)  # not executable: its interpreter reads it
    (script.parent / "lib").write_text("echo lib\n")
    command = script_command("x.sh", without_secrets(BESIDE), str(script))
    assert run(command, tmp_path) == f"lib\n{script} {script}\n"


def test_a_script_that_was_changed_after_its_submission_runs_as_it_was_submitted(tmp_path: Path) -> None:
    script = tmp_path / "x.sh"
    script.write_text("#!/bin/sh\necho new\n")
    command = script_command("x.sh", '#!/bin/sh\necho old "$0" "$GRASS_SCRIPT"\n', str(script))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {"GRASS_SCRATCH": str(scratch), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout == f"old {scratch}/x.sh {script}\n"
    assert done.stderr.startswith(f"grass: {script} was changed since the job was submitted;")


def test_a_script_that_the_node_does_not_see_runs_from_a_copy_and_is_named(tmp_path: Path) -> None:
    command = script_command("x.sh", '#!/bin/sh -e\nfalse | true\necho "$0" "$GRASS_SCRIPT" $-\n', "/no/such/x.sh")
    assert run(command, tmp_path) == f"{tmp_path}/x.sh /no/such/x.sh e\n"
    assert (tmp_path / "x.sh").stat().st_mode & 0o111 == 0  # a folder that forbids programs is good enough
    assert run(script_command("x.sh", '#!/bin/sh\necho "${GRASS_SCRIPT-none}"\n'), tmp_path) == "none\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"#!/bin/sh\r\necho\r\n", "line 1: ends with a carriage return.*interpreter ./bin/sh."),
        (b"#!/bin/bash -e\r\necho\r\n", "line 1: ends with a carriage return"),
        (b"#!/usr/bin/env bash\n\necho\r\necho\r\ntrue\r\n", "line 3: ends with a carriage return"),
        (b"\xef\xbb\xbf#!/bin/sh\necho\n", "line 1: begins with a byte order mark"),
        (b"#!/bin/sh\n\n# caf\xe9\n", "line 3: is not UTF-8 text .byte 0xe9."),
        (b"#! \necho\n", "line 1: `#!` names no interpreter"),
    ],
)
def test_what_is_wrong_with_a_script_is_said_with_its_line(content: bytes, said: str) -> None:
    assert is_script(content)
    with pytest.raises(Wrong, match=said):
        script_text(content)


def test_a_script_may_hold_a_document_with_the_line_ends_of_windows() -> None:
    text = "#!/bin/sh\ncat <<E\nGET /\r\n\r\nE\necho\n"
    assert script_text(text.encode()) == text
    text = "#!/usr/bin/env python3\nprint()\r\nprint()\r\n"
    assert script_text(text.encode()) == text, "Python takes them"


def test_a_script_without_an_interpreter_is_known_by_its_name_or_its_options() -> None:
    assert lacks_interpreter(b"echo", "x.SH") and lacks_interpreter(b"# a\n#GRASS --cpu 1\n", "x")
    assert not lacks_interpreter(b"name: x", "x") and not lacks_interpreter(b"#GRASS --cpu 1\n", "x.yml")


@pytest.mark.parametrize("data", [b"", b"\0\xff\n", bytes(range(256)) * 1000])
def test_standard_input_arrives_byte_for_byte(tmp_path: Path, data: bytes) -> None:
    counted = run(with_input(["cksum"], data), tmp_path)
    assert counted == subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout.decode()


def test_too_much_standard_input_is_refused() -> None:
    with pytest.raises(Wrong, match="grass data push"):
        with_input(["cat"], bytes(MAX_STDIN + 1))
