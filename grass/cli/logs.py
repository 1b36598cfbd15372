"""Render log records as text. A record is output of a task: a whole line, or a piece of a long line.

Used by ``job_logs`` and ``run``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grass.api.log_reading import gap_note
from grass.cli.amounts import show_stamp
from grass.cli.output import Format, Output, Result
from grass.cli.values import Part

if TYPE_CHECKING:
    from grass.api.client_views import LogLine
    from grass.wire.job_views import JobView


@dataclass(frozen=True)
class Style:
    """Prefix of each line. ``name_width`` 0: no task name. ``job``: before the name, if several jobs are shown."""

    name_width: int = 0
    timestamps: bool = False
    job: str = ""

    @classmethod
    def for_job(cls, job: JobView, part: Part | None, *, timestamps: bool) -> Style:
        """Return the style for a job. Names appear only if several tasks may write; all are padded to the longest."""
        replicas = {
            name: component.replicas
            for name, component in job.components.items()
            if part is None or part.component == name
        }
        single = sum(replicas.values()) <= 1 or (part is not None and part.index is not None)
        longest = max((len(f"{name}.{count - 1}") for name, count in replicas.items()), default=0)
        return cls(0 if single else longest, timestamps)


class LogText:
    """Convert records to text. Remember the task of an unfinished line, so that two tasks never share a line."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._unfinished: tuple[str, int, str] | None = None

    def render(self, record: LogLine) -> str:
        source = (record.task, record.attempt, record.stream)
        gap = f"{self._head(record)}{gap_note(record.lost)}\n" if record.lost else ""
        interrupts = self._unfinished is not None and (bool(gap) or self._unfinished != source)
        head = "" if self._unfinished == source and not gap else self._head(record)
        self._unfinished = None if record.newline else source
        return ("\n" if interrupts else "") + gap + head + self._text(record) + ("\n" if record.newline else "")

    def _text(self, record: LogLine) -> str:
        """Return the text; if it has several lines, with a head before each further one."""
        text: str = record.text
        head = self._head(record) if "\n" in text else ""
        return text.replace("\n", f"\n{head}") if head else text

    def _head(self, record: LogLine) -> str:
        stamp = f"{show_stamp(record.time)} " if self._style.timestamps else ""
        if not self._style.name_width:
            return stamp
        name = record.task if record.attempt <= 1 else f"{record.task}#{record.attempt}"
        return f"{stamp}{self._style.job}{name:<{self._style.name_width}} | "


_RECORDS = frozenset({Format.JSON, Format.YAML, Format.CSV})
"""Formats that show a record per line of the log. The others show the text."""


def show(output: Output, records: Iterable[LogLine], style: Style, *, split: bool = False) -> bool:
    """Print the records; return whether there were any. ``split``: print what tasks wrote to stderr on our stderr."""
    any_shown = False
    texts = LogText(style if output.format is Format.TABLE else Style(timestamps=style.timestamps))
    for record in records:
        any_shown = True
        if output.format in _RECORDS:
            output.record(Result(record, lambda _: []))
        else:
            output.raw(texts.render(record), stderr=split and record.stream == "stderr")
    return any_shown


def late(output: Output, job: str) -> Callable[[], object]:
    """Return what tells that some output of an ended job is missing."""
    return lambda: output.warn(
        f"job {job}: some of its output has not reached the log collector; `grass job logs {job}` shows it later"
    )


def joined(output: Output) -> bool:
    """Return whether ``show`` takes records of several lines, which are much faster to read."""
    return output.format not in _RECORDS


def unfinished(output: Output, style: Style, *, split: bool = False) -> bool:
    """Return whether a line is shown while a task still writes it, as progress bars need: on a terminal, and if no
    other task can come between. ``split``: as in ``show``."""
    return output.live and not style.name_width and (not split or output.err_is_terminal)
