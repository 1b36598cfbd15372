"""What the shepherd says of a process that the kernel does not start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from node.runtime.spawn import CannotStartError, spawn


def test_an_environment_that_is_too_long_names_the_way_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # spawn changes it
    large = {f"V{number}": "x" * 100_000 for number in range(100)}
    with pytest.raises(CannotStartError, match=r"too long together; put what is large in a file \(`grass data push`\)"):
        spawn(["/bin/true"], large, str(tmp_path), os.devnull, os.devnull)
