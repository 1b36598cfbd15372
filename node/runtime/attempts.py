"""The shepherd's memory of one attempt, and where its files lie."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from node.runtime.protocol import Observed


class Attempt:
    """``pid`` is also its process group and session. Times are steady unless they say wall."""

    __slots__ = (
        "began",
        "code",
        "ended",
        "env",
        "group_deadline",
        "key",
        "kill_at",
        "launch",
        "main_ended",
        "pid",
        "pidfd",
        "reason",
        "returned",
        "signal",
        "sizes",
        "started",
        "stopping",
    )

    def __init__(self, key: str, launch: str = "", env: dict[str, str] | None = None) -> None:
        self.key = key
        self.launch = launch
        self.env = env or {}
        self.pid: int | None = None
        self.began = 0.0
        """Just before its process was made, and ``returned`` just after: its start time lies between."""
        self.returned = 0.0
        self.started: float | None = None
        self.pidfd: int | None = None
        """Open for attempts that are not children of this shepherd."""
        self.stopping = False
        self.kill_at: float | None = None
        self.reason: dict[str, Any] | None = None
        self.main_ended: float | None = None
        """Wall time at which its first process ended; the attempt ends when the rest of its group has, too."""
        self.group_deadline = 0.0
        self.code: int | None = None
        self.signal: int | None = None
        self.ended: float | None = None
        self.sizes: dict[str, int] | None = None

    def observed(self) -> Observed:
        return Observed(
            self.key,
            self.pid,
            self.started,
            self.began if self.pid is not None else None,
            self.stopping,
            self.ended,
            self.code,
            self.signal,
            self.reason,
            self.sizes,
        )


class Folders:
    """``<attempts>/<job id>/<component>.<index>/<attempt>/`` with stdout, stderr and scratch."""

    def __init__(self, root: str) -> None:
        self._root = root

    def of(self, key: str) -> str:
        return f"{self._root}/{key}"

    def scratch(self, key: str) -> str:
        return f"{self._root}/{key}/scratch"

    def key_of_scratch(self, path: str) -> str | None:
        """The attempt key that a GRASS_SCRATCH belongs to; None: not one of this node's."""
        prefix, suffix = self._root + "/", "/scratch"
        return path[len(prefix) : -len(suffix)] if path.startswith(prefix) and path.endswith(suffix) else None

    def make(self, key: str) -> str:
        """Make the folders of an attempt. Returns its scratch folder, which is made last."""
        scratch = self.scratch(key)
        try:
            os.mkdir(self.of(key), 0o700)  # noqa: PTH102 (the hot path: one call per start)
        except FileNotFoundError:
            os.makedirs(self.of(key), 0o700, exist_ok=True)  # noqa: PTH103
        except FileExistsError:
            pass
        with suppress(FileExistsError):
            os.mkdir(scratch, 0o700)  # noqa: PTH102
        return scratch

    def sizes(self, key: str) -> dict[str, int]:
        folder = self.of(key)
        return {"stdout": _size(folder + "/stdout"), "stderr": _size(folder + "/stderr")}


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0
