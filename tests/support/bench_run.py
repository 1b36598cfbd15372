"""Runs a bench with so little work that it takes a second, and reads the printed figures."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHES = Path(__file__).parents[1] / "bench"


def programs() -> set[str]:
    """Return the names of all benches; the other modules of the folder are their support."""
    texts = {path.stem: path.read_text() for path in BENCHES.glob("*.py")}
    return {name for name, text in texts.items() if "figures" in text and '\nif __name__ == "__main__":\n' in text}


def printed(bench: str, *arguments: str, seconds: float = 100, **environment: str) -> str:
    """Return what the bench wrote to stdout, run as a user runs it."""
    command = [sys.executable, str(BENCHES / f"{bench}.py"), *arguments]
    done = subprocess.run(
        command, cwd=BENCHES.parents[1], env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def figures(bench: str, *arguments: str, **more: Any) -> list[dict[str, Any]]:
    """Return the figures of all reports of the bench; each report has samples, and these are numbers."""
    reports = [json.loads(line) for line in printed(bench, "--json", *arguments, **more).splitlines()]
    found = [figure for report in reports for figure in report["figures"]]
    assert found
    for figure in found:
        assert figure["samples"] and all(math.isfinite(each) and each >= 0 for each in figure["samples"]), figure
    return found
