"""`join.py`, which runs on machines that have no Grass yet: two at once."""

from __future__ import annotations

import importlib.util
import shutil
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from grass.share import shared
from tests.support.waiting import wait_until


@pytest.fixture
def script() -> Any:
    spec = importlib.util.spec_from_file_location("join_script", str(shared("on_premises/join.py")))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("goes", [False, True])
def test_a_second_installation_waits_and_finds_a_folder(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], goes: bool
) -> None:
    folder, over = tmp_path / "grass", threading.Event()

    def second() -> bool:
        with script.alone(folder):
            return over.is_set() and folder.is_dir()

    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        with script.alone(folder):
            other: Future[bool] = pool.submit(second)
            wait_until(lambda: said.append(capsys.readouterr().err) or "waiting for another" in "".join(said))
            if goes:
                shutil.rmtree(folder)
            over.set()
        assert other.result(20)
