"""Start of a program of ``grass.provision`` as a separate process, which outlives the daemon that asked for it.

Used by ``folder_watch``, ``supervisor_watch`` and ``master.agent``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from grass.config import ClusterConfig
from grass.system import own_program


def request_shutdown(config: ClusterConfig) -> None:
    """Request the end of the cluster, if it still has no work. Returns at once."""
    run_apart("shutdown", config.path, Path(config.home) / "log" / "shutdown.log")


def request_revival(config: ClusterConfig) -> None:
    """Request the restart of a cluster whose supervisord is gone. Returns at once."""
    run_apart("revival", config.path, Path(config.home) / "log" / "revival.log")


def run_apart(program: str, path: Path, log: Path = Path(os.devnull)) -> None:
    """Run the program through a shell, so that no process has to wait for it. Returns at once.

    ``path``: of ``cluster.json``, the program's argument.
    """
    command = own_program.command(f"grass.provision.{program}", str(path))
    with log.open("w") as output:
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=own_program.environment(),
            cwd="/",
            start_new_session=True,
            check=True,
        )
