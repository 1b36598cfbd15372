"""What a test needs of the machine. Missing: skipped by name on a laptop, a failure where GRASS_TEST_STRICT is set."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

STRICT = os.environ.get("GRASS_TEST_STRICT", "") not in ("", "0")


def require(there: bool, what: str, why: str = "") -> None:
    """``require(shutil.which("docker") is not None, "docker")``: go on only when it is there."""
    if not there:
        missing(what, why)


def missing(what: str, why: str = "") -> NoReturn:
    message = f"needs {what}" + (f": {why}" if why else "")
    if STRICT:
        pytest.fail(message + " (GRASS_TEST_STRICT is set)", pytrace=False)
    pytest.skip(message)


def require_root() -> None:
    """Never a failure: an ordinary user may run the tests, and is told what they leave out."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
