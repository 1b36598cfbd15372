from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import os, sys
from pathlib import Path
from grass.provision.files_command import _watched
part = sys.argv[1]
receiver = f"trap 'sleep 0.1; rm {part}; exit' TERM; touch {part}; while :; do sleep 0.01; done"
work = lambda: os.execvp("sh", ["sh", "-c", f"({receiver}) 2>/dev/null & wait"])
sys.exit(_watched(work, lambda: not Path(part).exists(), None))
"""
"""A transfer whose second process, as the receiver of rsync, needs a moment to remove the part of a file."""


def test_a_transfer_that_is_cut_off_has_removed_its_part_of_a_file_when_its_user_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path / "part")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "the administrator changed what this user may do; the transfer ended\n",
    )
    assert list(tmp_path.iterdir()) == []
