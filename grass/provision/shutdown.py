"""Idle shut-down: the master-agent asks for the end of the cluster that it is itself a part of.

``python -m grass.provision.shutdown CLUSTER_JSON`` does it, a process of its own, because the asker ends with the rest.
State stays: `grass create` starts the cluster again with it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from grass.config import ClusterConfig
from grass.provision import stopping
from grass.provision.filelock import cluster_lock


def request_shutdown(config: ClusterConfig) -> None:
    """Returns at once."""
    run_apart(config, "grass.provision.shutdown", "shutdown.log")


def run_apart(config: ClusterConfig, module: str, log_name: str) -> None:
    """``python -m module CLUSTER_JSON`` by way of a shell: it is nobody's child, and nobody has to wait for it."""
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


def main(path: str) -> None:
    config = ClusterConfig.load(path)
    with cluster_lock(Path(config.home).parents[1], config.name):
        stopping.stop(config)


if __name__ == "__main__":
    main(sys.argv[1])
