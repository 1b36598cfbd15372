"""The Python examples in the documents run as they are written, those of a page one after the other.

A block behind a comment ``<!-- not run: why -->`` is left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_cli import Grass, grass

__all__ = ["grass"]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?:<!-- not run: ([^>]+) -->\n)?```python\n(.*?)```", re.DOTALL)
PRINTED = {
    "docs/guide/python.md": ["digits ", "SUCCEEDED 0", "accuracy", "24990001", "1024"],
    "docs/guide/usage.md": ["GRASS_METRIC loss=0.53 accuracy=0.81"],
    "docs/guide/notifications.md": [],
}


def programs() -> dict[str, str]:
    """Return the program of each page that has one."""
    pages = {str(path.relative_to(ROOT)): path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]}
    blocks = {name: [code for why, code in BLOCK.findall(text) if not why] for name, text in pages.items()}
    return {name: "\n".join(found) for name, found in blocks.items() if found}


def test_each_page_with_a_program_is_run() -> None:
    assert programs().keys() == PRINTED.keys()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PRINTED)
def test_the_python_examples_of_a_page_run_as_written(grass: Grass, tmp_path: Path, page: str) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    simulate = tmp_path / "simulate"
    simulate.write_text("#!/bin/sh\n")
    simulate.chmod(0o755)
    (tmp_path / "page.py").write_text(programs()[page])
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env={**grass.environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    missing = [words for words in PRINTED[page] if words not in done.stdout]
    assert missing == [], done.stdout
