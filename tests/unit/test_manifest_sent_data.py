"""What a document sends of the submitter's machine: said in words, and nothing of a file of another system."""

from __future__ import annotations

from pathlib import Path

import pytest

from grass.api.document_data import with_data
from grass.cli.documents import sources_of
from grass.manifest.sent_data import sent_of

FOREIGN = {
    "apiVersion": "kai.alibabacloud.com/v1alpha1",
    "kind": "TrainingJob",
    "components": {"a": {"inherit_env": ["HOME"], "from": {"lines": "/etc/passwd"}}},
}


def test_variables_and_files_are_named() -> None:
    parts = {"a": {"inherit_env": ["HOME", "LANG"], "from": {"lines": "points.txt"}}, "b": {"inherit_env": ["HOME"]}}
    said = ["HOME, LANG of this shell", "the entries in points.txt"]
    assert sent_of({"components": parts}) == sent_of({"cron": "@daily", "job": {"components": parts}}) == said
    assert sent_of({"components": {"a": {"command": "true", "env": {"X": "1"}}}}) == []
    assert sent_of({"components": {"a": {"inherit_env": 5, "from": ["x"]}, "b": None}}) == []


def test_lines_of_a_script_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_HERE", "secret")
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh\n#GRASS --env TOKEN_HERE --env A=b --each-line points.txt\ntrue\n")
    [source] = sources_of(script)
    assert source.sends == ["TOKEN_HERE of this shell", "the entries in points.txt"]
    script.write_text("#!/bin/sh\n#GRASS --env-all\ntrue\n")
    [source] = sources_of(script)
    assert source.sends == ["all variables of this shell"]


def test_a_file_of_another_system_sends_nothing_of_this_machine() -> None:
    assert with_data(FOREIGN, None, ".", "") == FOREIGN
