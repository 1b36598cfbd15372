"""Start of a Grass module as a separate process, which outlives the daemon that asked for it.

Used by ``revival`` and ``shutdown``.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from grass import own_program
from grass.config import ClusterConfig


def run_apart(config: ClusterConfig, module: str, log_name: str) -> None:
    """Run ``python -m module CLUSTER_JSON`` through a shell, so that no process has to wait for it. Returns at once."""
    command = own_program.command(module, str(config.path))
    with (Path(config.home) / "log" / log_name).open("w") as log:
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=own_program.environment(),
            cwd="/",
            start_new_session=True,
            check=True,
        )
