"""What happens to a run of pytest when a test reaches its limit of time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_TESTS = """
import threading
import pytest

def never():
    threading.Event().wait()

class Slow(Exception):
    def __str__(self):
        threading.Event().wait(3.3)
        return "the cause"

@pytest.mark.timeout(3)  # more than a busy machine takes to get there
def test_1_fails_with_a_report_that_takes_longer_than_the_limit():
    raise Slow

def test_2_waits_for_ever_also_when_it_cleans_up():
    try:
        never()
    finally:
        never()

@pytest.fixture
def endless():
    yield
    never()

@pytest.mark.timeout(3)
def test_3_fails_and_its_fixture_does_not_end(endless):
    raise ValueError("before the fixture")

@pytest.mark.timeout(20)
def test_4_passes():
    pass
"""


def test_a_test_that_reaches_its_limit_fails_alone_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "test_limits.py").write_text(_TESTS)
    plugins = ("-p", "tests.support.time_limit", "-p", "no:randomly", "-p", "no:cacheprovider")
    argv = [sys.executable, "-m", "pytest", *plugins, "--timeout=0.5", "-n1", "-c/dev/null", "-rfE", str(tmp_path)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=50, check=False)
    assert "INTERNALERROR" not in ran.stdout + ran.stderr
    assert "3 failed, 1 passed, 1 error" in ran.stdout, ran.stdout
    assert "Slow: the cause" in ran.stdout and "ValueError: before the fixture" in ran.stdout
    assert "Failed: Timeout (>0.5" in ran.stdout, ran.stdout
