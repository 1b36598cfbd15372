"""Where a node keeps what concerns memberships, and what its tasks see of it. Pure.

Used by ``files``, ``rendering`` and ``server``.
"""

from __future__ import annotations

from pathlib import Path

from grass.config import ClusterConfig
from grass.frameworks.seat import files_folder
from grass.wire.keys import AttemptKey

MEMBERSHIP = "membership.json"


def job_folder(config: ClusterConfig, job_id: str) -> Path:
    """Return the folder that all tasks of a job see, read-only in containers."""
    return config.node_dir / "jobs" / job_id


def membership_file(config: ClusterConfig, job_id: str, component: str) -> str:
    """Return the path as text: every start asks for it, and a ``Path`` costs ten times as much."""
    return f"{files_folder(f'{config.node_dir}/jobs/{job_id}', component)}/{MEMBERSHIP}"


def events_file(config: ClusterConfig, key: AttemptKey) -> str:
    """Return the path of the file that tells an attempt what will happen to it."""
    return f"{config.node_dir}/jobs/{key.job_id}/events/{key.task}.{key.attempt}.jsonl"


def secrets_folder(config: ClusterConfig) -> Path:
    """Return the folder of the files by which the node-api-server learns the secrets of jobs, named by job id. Tasks in
    containers do not see it."""
    return config.node_dir / "secrets"


def secret_file(config: ClusterConfig, job_id: str) -> str:
    """Return the path as text, see ``membership_file``."""
    return f"{config.node_dir}/secrets/{job_id}"


def api_folder(config: ClusterConfig) -> Path:
    """Return the folder of the API's socket. Containers mount the folder: the socket is new after each restart."""
    return Path(config.runtime_dir) / "tasks"


def api_socket(config: ClusterConfig) -> str:
    """Return the path as text, see ``membership_file``."""
    return f"{config.runtime_dir}/tasks/api.sock"
