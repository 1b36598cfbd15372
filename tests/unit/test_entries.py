"""Arrays from data, and scripts as jobs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from grass.errors import ManifestError
from grass.manifest import Wrong, parse_job
from grass.manifest.entries import of_json, of_lines, parse_array, with_entries
from grass.manifest.script import (
    MAX_STDIN,
    directives,
    is_script,
    job_name,
    script_command,
    with_input,
    without_secrets,
)
from grass.model.secrets import REDACTED
from grass.wire.desired import DesiredAttempt
from grass.wire.launch import LaunchTemplate
from node.agent.environment import attempt_env


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
    assert of_json('["x y", 1.5, {"a": [1]}]') == ["x y", "1.5", '{"a":[1]}']
    for wrong in ("{}", "[1", ""):
        with pytest.raises(Wrong):
            of_json(wrong)


def test_each_task_gets_the_entry_of_its_index() -> None:
    body = with_entries(document(**{"from": {"lines": "f.txt"}}), lambda name: f"{name} 1\n{name} 2\n")
    component = parse_job(body).job.components["w"]
    assert (component.replicas, component.entries) == (2, ("f.txt 1", "f.txt 2"))
    template = LaunchTemplate(job_id="j-1", job="j", component="w", command="true", entries=component.entries)
    assert attempt_env("j-1/w.1/1", template, DesiredAttempt(1), 0)["GRASS_ENTRY"] == "f.txt 2"


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


@pytest.mark.parametrize("data", [b"", b"\0\xff\n", bytes(range(256)) * 1000])
def test_standard_input_arrives_byte_for_byte(tmp_path: Path, data: bytes) -> None:
    counted = run(with_input(["cksum"], data), tmp_path)
    assert counted == subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout.decode()


def test_too_much_standard_input_is_refused() -> None:
    with pytest.raises(Wrong, match="grass data push"):
        with_input(["cat"], bytes(MAX_STDIN + 1))
