"""The command line of a server, by which it is found in /proc, where the package ``setproctitle`` is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("package", ["master.api", "node.api"])
def test_the_command_line_of_a_server_stays_where_setproctitle_is_installed(tmp_path: Path, package: str) -> None:
    (tmp_path / "setproctitle.py").write_text("getproctitle = lambda: print('overwritten')\nsetproctitle = print\n")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {package}.__main__"
    program += "; from gunicorn import util; util._setproctitle('overwritten')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == ""
