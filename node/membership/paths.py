"""Where a node keeps what concerns memberships, and what its tasks see of it. Pure."""

from __future__ import annotations

from pathlib import Path

from grass.config import ClusterConfig
from grass.frameworks.seat import files_folder

MEMBERSHIP = "membership.json"


def job_folder(config: ClusterConfig, job_id: str) -> Path:
    """Return the folder that all tasks of a job see, read-only in containers."""
    return config.node_dir / "jobs" / job_id


def membership_file(config: ClusterConfig, job_id: str, component: str) -> Path:
    return Path(files_folder(str(job_folder(config, job_id)), component)) / MEMBERSHIP


def secret_file(config: ClusterConfig, job_id: str) -> Path:
    """Return the file by which the node-api-server learns the secret of a job. Tasks in containers do not see it."""
    return config.node_dir / "secrets" / job_id


def api_folder(config: ClusterConfig) -> Path:
    """Return the folder of the API's socket. Containers mount the folder: the socket is new after each restart."""
    return Path(config.runtime_dir) / "tasks"


def api_socket(config: ClusterConfig) -> Path:
    return api_folder(config) / "api.sock"
