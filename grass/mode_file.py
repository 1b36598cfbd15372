"""The file ``mode`` in a cluster's folder. Written by provisioners before anything else; read by ``registry``."""

from __future__ import annotations

from pathlib import Path

_FILE = "mode"


def write_mode(folder: Path, mode: str) -> None:
    """Write the mode. The file is replaced as a whole: a reader sees the old file or the new one."""
    draft = folder / f"{_FILE}.new"
    draft.write_text(mode + "\n")
    draft.replace(folder / _FILE)


def read_mode(folder: Path) -> str | None:
    try:
        return (folder / _FILE).read_text().strip() or None
    except FileNotFoundError:
        return None
