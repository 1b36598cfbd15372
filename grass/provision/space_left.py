"""What a transfer of a user may still write, by the user's quota of the share. Used by ``files_command``.

What the user keeps is what the monitor measured last. What the transfer writes is counted by the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from grass.config import ClusterConfig
from grass.errors import GrassError
from grass.files.rsync import QUOTA
from grass.lines import lines_of
from grass.model.amounts import show_amount
from grass.model.policy import FILES, SPACE, exceeded

_SLACK = 1 << 20
"""Bytes that every transfer may write, so that one that leaves nothing behind, such as a pull, is not ended."""


def quota_of(config: ClusterConfig, user: str) -> Mapping[str, int]:
    """Return the quota of a user: the user's own, or the one for all others."""
    return config.master.quotas.get(user, config.master.default_quota)


def limited(config: ClusterConfig, user: str) -> bool:
    """Return whether the quota of the user limits files in the share."""
    return bool({SPACE, FILES} & quota_of(config, user).keys())


class SpaceLeft:
    """The space that one transfer may still use. While redis is away, nothing is known to be kept."""

    def __init__(self, config: ClusterConfig, user: str) -> None:
        self._user = user
        self._quota = quota_of(config, user)
        self._kept = _kept(config, user)
        self._written: dict[int, int] = {}
        """Process → bytes that it wrote to files."""

    def exceeded_by(self, process: int) -> str:
        """Return why the transfer, which ``process`` and its children do, has to end; empty: it goes on."""
        self._count(process)
        written = sum(self._written.values())
        now = {**self._kept, SPACE: self._kept.get(SPACE, 0) + written}
        name = exceeded(self._quota, now)
        if not name or written <= _SLACK:
            return ""
        return (
            f"{QUOTA}{self._user}: may keep {show_amount(name, self._quota[name])} in the share, keeps "
            f"{show_amount(name, self._kept.get(name, 0))}, and this transfer has written "
            f"{show_amount(SPACE, written)}; remove files with `grass data remove`, images with `grass image remove`, "
            "or ask an administrator for more"
        )

    def _count(self, process: int) -> None:
        with suppress(OSError):
            proc = Path(f"/proc/{process}")
            figures = dict(line.split(": ") for line in lines_of((proc / "io").read_text()))
            self._written[process] = int(figures["write_bytes"]) - int(figures["cancelled_write_bytes"])
            for child in (proc / "task" / str(process) / "children").read_text().split():
                self._count(int(child))


def _kept(config: ClusterConfig, user: str) -> Mapping[str, int]:
    from grass.store.records import open_records  # as in ``files_command``: loading the client of redis takes long

    with suppress(GrassError):
        return open_records(config).kept_files().get(user, {})
    return {}
