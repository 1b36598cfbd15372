"""The needs of a test on the machine. A missing need skips the test by name, or fails it under GRASS_TEST_STRICT."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

STRICT = os.environ.get("GRASS_TEST_STRICT", "") not in ("", "0")


def require(there: bool, what: str, why: str = "") -> None:
    """Go on only if the need is met: ``require(shutil.which("docker") is not None, "docker")``."""
    if not there:
        missing(what, why)


def missing(what: str, why: str = "") -> NoReturn:
    message = f"needs {what}" + (f": {why}" if why else "")
    if STRICT:
        pytest.fail(message + " (GRASS_TEST_STRICT is set)", pytrace=False)
    pytest.skip(message)


def require_root() -> None:
    """Skip without root. Never a failure: an ordinary user may run the tests, and sees which tests are skipped."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
