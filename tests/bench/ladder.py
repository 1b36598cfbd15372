"""Where the time of a start goes: the marks of `grass/trace.py` between two moments, as one figure for each step."""

from __future__ import annotations

import os
from pathlib import Path

import figures


class Ladder:
    """Made before the cluster: its daemons take the file's name from their environment."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "marks"
        os.environ["GRASS_TRACE"] = str(self._file)
        self._steps: dict[str, list[float]] = {}

    def climb(self, kind: str, begin: float, end: float) -> None:
        """One start of this kind, from ``begin`` to ``end`` (wall clock). Of each mark the first counts."""
        last, seen = begin, set[str]()
        for at, name in self._marks(begin, end):
            if name not in seen:
                seen.add(name)
                self._steps.setdefault(f"{kind} → {name}", []).append(1000 * (at - last))
                last = at
        self._steps.setdefault(f"{kind} → task: first instruction", []).append(1000 * (end - last))

    def _marks(self, begin: float, end: float) -> list[tuple[float, str]]:
        lines = (line.split(" ", 1) for line in self._file.read_text().splitlines())
        return sorted((float(at), name) for at, name in lines if begin <= float(at) <= end)

    def figures(self) -> list[figures.Figure]:
        return [figures.Figure(name, samples, "ms") for name, samples in self._steps.items()]
