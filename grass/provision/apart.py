"""Start of a Grass module as a separate process, which outlives the daemon that asked for it.

Used by ``revival`` and ``shutdown``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from grass.config import ClusterConfig


def run_apart(config: ClusterConfig, module: str, log_name: str) -> None:
    """Run ``python -m module CLUSTER_JSON`` through a shell, so that no process has to wait for it. Returns at once."""
    command = [sys.executable, "-m", module, str(config.path)]
    with (Path(config.home) / "log" / log_name).open("w") as log:
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
            check=True,
        )
