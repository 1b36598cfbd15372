"""Logs without the lines with which tasks report figures. Used by ``job_logs``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import structs

if TYPE_CHECKING:
    from grass.api.client_views import LogLine

MARK = "GRASS_METRIC "


class WithoutFigures:
    """Yield the records of a log, without lines that begin with ``GRASS_METRIC``. ``hidden``: how many these were.

    A line may come in several records.
    """

    def __init__(self, records: Iterable[LogLine]) -> None:
        self._records = records
        self._open: dict[tuple[str, int, str], bool] = {}
        """Task, attempt and stream whose last line is not complete → whether it is hidden."""
        self.hidden = 0

    def __iter__(self) -> Iterator[LogLine]:
        for record in self._records:
            output = (record.task, record.attempt, record.stream)
            begun = self._open.pop(output, None)
            if not begun and MARK not in record.text:
                if not record.newline:
                    self._open[output] = False
                yield record
                continue
            shown, goes_on = self._shown(record.text, begun)
            if not record.newline:
                self._open[output] = goes_on
            if shown:
                yield structs.replace(record, text="\n".join(shown), newline=record.newline or goes_on)

    def _shown(self, text: str, begun: bool | None) -> tuple[list[str], bool]:
        """Return the lines that are shown, and whether the last one is hidden."""
        shown, hides = [], False
        for at, line in enumerate(text.split("\n")):
            hides = bool(begun) if at == 0 and begun is not None else line.startswith(MARK)
            if not hides:
                shown.append(line)
            elif at or begun is None:
                self.hidden += 1
        return shown, hides
