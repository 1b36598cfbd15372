"""When each user last changed files by their own key. Written by the files command, read by the monitor."""

from __future__ import annotations

from pathlib import Path

from grass.config import ClusterConfig


def note_push(config: ClusterConfig, user: str) -> None:
    """Note that the user's files may have changed just now."""
    path = _mark(config, user)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)


def pushed_at(config: ClusterConfig, user: str) -> float:
    """Return when the user last changed files, in wall seconds; 0: never."""
    try:
        return _mark(config, user).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _mark(config: ClusterConfig, user: str) -> Path:
    return config.master_dir / "pushes" / user
