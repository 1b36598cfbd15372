"""The log of a job or a task: for the page in batches of bounded lines, or as a file. Called by ``app``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from msgspec import structs

from grass.api.client import Client
from grass.api.client_views import LogLine
from grass.api.log_reading import gap_note
from grass.errors import GrassError, InputError

LONGEST = 8 * 1024
"""Characters of a line that the page shows. The rest is counted."""
MOST_TAIL = 10_000
AT_ONCE = 1_000
"""Lines in one message."""


@dataclass(frozen=True)
class LogWords:
    """What the page asks of a log."""

    job: str
    component: str | None
    tail: int
    follow: bool

    @classmethod
    def parse(cls, words: Mapping[str, str]) -> LogWords:
        tail = words.get("tail", "1000")
        if not words.get("job"):
            raise InputError("query parameter job: missing")
        if not (tail.isascii() and tail.isdecimal() and int(tail) <= MOST_TAIL):
            raise InputError(f"query parameter tail: must be a number up to {MOST_TAIL}, got {tail!r}")
        return cls(words["job"], words.get("component") or None, int(tail), words.get("follow") == "true")


def log_pieces(client: Client, words: LogWords) -> Iterator[dict[str, object] | None]:
    """Yield ``{"lines": [...]}``, None while nothing comes, and at the end ``{"end": why, or ""}``."""
    try:
        for lines in client.log_batches(words.job, words.component, words.tail, words.follow):
            if not lines:
                yield None
            told = [shown_line for line in lines for shown_line in _with_gap(line)]
            for at in range(0, len(told), AT_ONCE):
                yield {"lines": [shown(line) for line in told[at : at + AT_ONCE]]}
    except GrassError as error:
        yield {"end": str(error)}
    else:
        yield {"end": ""}


def log_file(client: Client, job: str, task: str | None) -> Iterator[bytes]:
    """Return the whole log as it is now, piece by piece; of several tasks, each line begins with its task.

    ``task``: only this task or component. Raises GrassError if it cannot be read; where it breaks off later, its last
    line says so.
    """
    name = client.job(job, specification=False).id
    alone = len(client.tasks(name, task, first=2) if task is None or "." not in task else [task]) == 1
    lines = client.logs(name, task, joined=True)
    first = next(lines, None)  # an error is now an answer, and not the end of a file
    return _as_file(chain([] if first is None else [first], lines), alone)


def _as_file(lines: Iterator[LogLine], alone: bool) -> Iterator[bytes]:
    try:
        for line in (each for whole in lines for each in _with_gap(whole)):
            text, end = line.text, "\n" if line.newline or not alone else ""
            named = text if alone else f"{line.task} " + text.replace("\n", f"\n{line.task} ")
            yield (named + end).encode("utf-8", "surrogateescape")
    except GrassError as error:
        yield f"\n[the log breaks off here: {error}; download it again]\n".encode()


def _with_gap(line: LogLine) -> list[LogLine]:
    """Return the line, after one that says how much is missing before it."""
    return [structs.replace(line, text=gap_note(line.lost), newline=True, lost=0), line] if line.lost else [line]


def shown(line: LogLine) -> dict[str, object]:
    """Return the line as the page shows it, cut to ``LONGEST`` characters; ``more``: how many were cut.

    Half a surrogate pair stands for a byte that is not UTF-8; the page shows it as a replacement character.
    """
    text = line.text
    clean = text[:LONGEST].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    cut = {"more": len(text) - LONGEST} if len(text) > LONGEST else {}
    return {**structs.asdict(line), "text": clean, **cut}
