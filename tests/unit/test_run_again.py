"""What CI does with a test that failed: see ``tests/support/run_again.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAILS_ONCE = """
from pathlib import Path
def test_fails_once():
    ran = Path(__file__ + ".ran")
    if not ran.exists():
        ran.touch()
        raise ValueError("the first time")
"""
FAILS = "def test_fails():\n    raise ValueError('each time')\n"
ERROR_IN_TEARDOWN = """
import pytest
from pathlib import Path
@pytest.fixture
def broken():
    yield
    ran = Path(__file__ + ".ran")
    if not ran.exists():
        ran.touch()
        raise ValueError("in the teardown")
def test_has_a_broken_fixture(broken):
    pass
"""
PASSES = "def test_passes():\n    pass\n"


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    # without the plugins of this machine, each start of pytest is twice as quick
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", *argv]
    return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)


def tried(folder: Path, tests: dict[str, str], *options: str) -> tuple[int, subprocess.CompletedProcess[str]]:
    """Return the exit code of a run of these tests (name → module), and what came of running again what failed."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text)
    first = run(folder, "pytest", "-p", "tests.support.failed_tests", *options, "--failed-tests", "failed.jsonl")
    return first.returncode, run(folder, "tests.support.run_again", "failed.jsonl")


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")], ids=["one process", "workers"])
def test_a_test_that_passes_alone_is_flaky_and_its_first_failure_is_printed(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    first, again = tried(tmp_path, {"once": FAILS_ONCE, "teardown": ERROR_IN_TEARDOWN, "passes": PASSES}, *options)
    assert first == 1
    assert again.returncode == 0
    assert "FLAKY test_once.py::test_fails_once" in again.stdout
    assert "ValueError: the first time" in again.stdout
    assert "ValueError: in the teardown" in again.stdout
    assert "test_passes" not in again.stdout


def test_a_test_that_fails_each_time_fails_the_run(tmp_path: Path) -> None:
    _, again = tried(tmp_path, {"once": FAILS_ONCE, "fails": FAILS})
    assert again.returncode == 1
    assert "FAILED test_fails.py::test_fails" in again.stdout


def test_a_module_that_cannot_be_imported_fails_the_run(tmp_path: Path) -> None:
    _, again = tried(tmp_path, {"module": "import no_such_module\n"})
    assert again.returncode == 1
    assert "no_such_module" in again.stdout


def test_more_than_five_flaky_tests_fail_the_run(tmp_path: Path) -> None:
    _, again = tried(tmp_path, {f"once{number}": FAILS_ONCE for number in range(6)})
    assert again.returncode == 1
    assert "more than 5 tests failed" in again.stdout
