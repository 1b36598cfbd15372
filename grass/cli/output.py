"""The one module that prints. All formats share one interface; results go to stdout, everything else to stderr.

Used by this package.

table  for people: fits the terminal, with states in colour; unlimited width in a pipe
json   for programs: one document, or one object per line if a command streams; errors, too, on stderr
yaml   the same as YAML; a command that streams writes one document per object
csv    for spreadsheets: a header, then one line per item
quiet  ids only, one per line; where things have no id, their names
name   names only, one per line
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TextIO

from grass.cli import cells, serial
from grass.lines import lines_of
from grass.model.exhaustive import assert_never
from grass.system import environment

Lines = Callable[[int | None], list[str]]
"""A renderer with its views bound: takes the width (None: no limit), returns the lines."""

Rows = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Titles, and the cells of each row."""

_WIDTH = 80
"""Width of a terminal that does not report one."""
_ASCII = str.maketrans({"…": "~", "→": ">", "–": "-", "—": "-", "×": "x", "·": "|", "✓": "+", "✗": "x"})


class Format(str, Enum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    QUIET = "quiet"
    NAME = "name"


class OutputClosedError(Exception):
    """The reader of our output closed the pipe (`grass … | head`), so no message can reach the reader."""


@dataclass(frozen=True)
class Result:
    """Result of a command in its formats.

    ``rows``: titles and cells for csv; None: those of ``data``. ``items``: the key in ``data`` of what has a line each
    in csv, a list or a mapping by name; None: ``data`` is a list of it, or one item itself.
    """

    data: object
    lines: Lines
    ids: Sequence[str] = ()
    rows: Callable[[], Rows] | None = None
    items: str | None = None

    def plain(self) -> Any:
        """Return ``data`` as dicts, sequences, texts and numbers, as the API sent it."""
        from grass.wire.codec import builtins  # loaded here: most calls print a table

        return builtins(self.data)


class Output:
    """Shows results and messages in the format that the user chose."""

    def __init__(self, out: TextIO, err: TextIO, format: Format = Format.TABLE) -> None:
        self.format = format
        self._out = out
        self._err = err
        self._live: TextIO | None = None
        """Stream whose last line is a progress line; the next output overwrites that line."""
        self._titles: Sequence[str] = ()
        """Header that was written last, in csv."""
        for stream in (out, err):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")

    def show(self, result: Result) -> None:
        match self.format:
            case Format.JSON:
                self._write(self._out, json.dumps(result.plain(), indent=2) + "\n")
            case Format.YAML:
                self._write(self._out, serial.yaml_text(result.plain()))
            case Format.CSV:
                titles, rows = result.rows() if result.rows else serial.rows_of(serial.items_of(result))
                self._write(self._out, serial.csv_text(titles, rows, header=titles != self._titles))
                self._titles = titles
            case Format.QUIET:
                self._write(self._out, "".join(f"{cells.clean(one)}\n" for one in result.ids))
            case Format.NAME:
                self._write(self._out, "".join(f"{cells.clean(one)}\n" for one in serial.names_of(result)))
            case Format.TABLE:
                self._write(self._out, self._table(result))
            case _:
                assert_never(self.format)

    def refresh(self, result: Result) -> None:
        """Show a changed result again. On a terminal it replaces the last one; in json it is one line."""
        if self.format is Format.TABLE and self._out.isatty():
            self._write(self._out, "\x1b[H\x1b[2J\x1b[3J" + self._table(result))
        else:
            self.record(result)

    def _table(self, result: Result) -> str:
        lines = result.lines(self._width(self._out))
        if self._out.isatty() and environment.wants_colours():
            from grass.cli import colours  # its pattern takes a while to compile

            lines = [colours.painted(line) for line in lines]
        return "".join(f"{line}\n" for line in lines)

    def record(self, result: Result) -> None:
        """Print one result of a stream: like ``show``, but in json on one line."""
        if self.format is Format.JSON:
            self._write(self._out, json.dumps(result.plain()) + "\n")
        elif self.format is Format.YAML:
            self._write(self._out, "---\n" + serial.yaml_text(result.plain()))
        else:
            self.show(result)

    def raw(self, text: str, *, stderr: bool = False) -> None:
        """Write a task's output byte for byte; surrogates stand for bytes that are not UTF-8."""
        stream = self._err if stderr else self._out
        self._end_live()
        try:
            stream.flush()
            buffer = getattr(stream, "buffer", None)
            if buffer is None:
                stream.write(text)
            else:
                buffer.write(text.encode("utf-8", "surrogateescape"))
            stream.flush()
        except OSError as error:
            self._failed(stream, error)

    def progress(self, line: str) -> None:
        """Show progress, in the table format only: one overwritten line on a terminal, plain lines in a pipe."""
        if self.format is not Format.TABLE:
            return
        if not self._out.isatty():
            self._write(self._out, cells.clean(line) + "\n")
            return
        width = self._width(self._out)
        shown = cells.clip(cells.clean(line), (width or _WIDTH) - 1)
        self._put(self._out, f"\r\x1b[K{shown}")
        self._live = self._out

    @property
    def live(self) -> bool:
        """Return whether progress lines overwrite each other, so that frequent updates are fine."""
        return self.format is Format.TABLE and self._out.isatty()

    @property
    def err_is_terminal(self) -> bool:
        return self._err.isatty()

    def note(self, message: str) -> None:
        """Show a message about the work, in the table format only."""
        if self.format is Format.TABLE:
            self._tell(message)

    def warn(self, message: str) -> None:
        """Show a warning, in every format."""
        self._tell(f"warning: {message}")

    def error(self, message: str, *, code: str, problems: Sequence[dict[str, str]] = ()) -> None:
        if self.format is Format.JSON:
            wire = {"error": {"code": code, "message": message, "problems": list(problems)}}
            self._write(self._err, json.dumps(wire) + "\n")
        else:
            self._tell(f"error: {message}")

    def verbatim(self, text: str) -> None:
        """Print text of several lines that Grass did not write, such as a traceback, for a person."""
        self._write(self._err, text if text.endswith("\n") else text + "\n")

    @property
    def can_ask(self) -> bool:
        """Whether there is a terminal for questions."""
        return sys.stdin.isatty() and self._err.isatty()

    def ask(self, question: str) -> bool:
        """Ask a question on a terminal. Without a terminal return True: the author of the script decided already."""
        if not self.can_ask:
            return True
        self._write(self._err, f"{question} [y/N] ")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def close(self) -> None:
        """End the progress line and flush, so that the interpreter has nothing left to write when it ends."""
        self._end_live()
        self._put(self._out, "")

    def _tell(self, message: str) -> None:
        lines = [cells.clean(line) for line in lines_of(message)]
        self._write(self._err, "".join(f"{line}\n" for line in lines))

    def _width(self, stream: TextIO) -> int | None:
        if not stream.isatty():
            return None
        try:
            return environment.columns() or os.get_terminal_size(stream.fileno()).columns or _WIDTH
        except (OSError, ValueError, AttributeError):  # it claims to be a terminal, but is not
            return _WIDTH

    def _write(self, stream: TextIO, text: str) -> None:
        self._end_live()
        self._put(stream, text)

    def _end_live(self) -> None:
        if self._live is not None:
            stream, self._live = self._live, None
            self._put(stream, "\n")

    def _put(self, stream: TextIO, text: str) -> None:
        if not (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf"):
            text = text.translate(_ASCII)
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            self._failed(stream, error)

    def _failed(self, stream: TextIO, error: OSError) -> None:
        """Raise for a result that cannot be written (full disk). Ignore a failed stderr: no stream could report it."""
        if stream is self._err:
            return
        if isinstance(error, BrokenPipeError):
            raise OutputClosedError from error
        raise error
